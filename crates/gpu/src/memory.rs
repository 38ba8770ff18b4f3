//! Device memory, owned: freed when its last holder lets go.

use std::fmt;
use std::sync::Arc;

use crate::backend::Block;
use crate::{DevicePtr, Error, Gpu, HostMemory, PeerAccess};

/// What sort of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// `cuMemAlloc`: what `cudaMalloc` gives; small ones share 2 MiB blocks.
    Malloc,
    /// `cuMemCreate`, mapped at an address of its own; a multiple of 2 MiB is taken.
    Create {
        /// Whether a file descriptor of it can be had.
        exportable: bool,
        /// Whether third parties may reach it (`gpuDirectRDMACapable`).
        rdma: bool,
    },
    /// A stream-ordered pool: what `cudaMallocAsync` gives.
    Pool {
        /// Whether it comes from a pool of our own whose file descriptor can be had, else from the GPU's default pool.
        exportable: bool,
    },
    /// `cuMemAllocManaged`.
    Managed,
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malloc => "cuMemAlloc",
            Self::Create {
                exportable: false, ..
            } => "cuMemCreate",
            Self::Create {
                exportable: true, ..
            } => "cuMemCreate, exportable",
            Self::Pool { exportable: false } => "cuMemAllocAsync",
            Self::Pool { exportable: true } => "cuMemAllocAsync, exportable pool",
            Self::Managed => "cuMemAllocManaged",
        })
    }
}

/// A stretch of a GPU's memory. Clones are the same memory; it is freed when the last of them is dropped, and of what a
/// stream still uses, when the stream is synchronised or dropped.
#[derive(Debug, Clone)]
pub struct DeviceMemory(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    gpu: Gpu,
    block: Block,
    /// Freed already, by [`DeviceMemory::free`].
    freed: bool,
}

impl DeviceMemory {
    pub(crate) fn new(gpu: Gpu, block: Block) -> Self {
        Self(Arc::new(Owned {
            gpu,
            block,
            freed: false,
        }))
    }

    /// Where it starts.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.0.block.address
    }

    /// Bytes, as asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.block.bytes
    }

    /// Never: nothing cannot be allocated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What sort of memory.
    #[must_use]
    pub fn kind(&self) -> Allocation {
        self.0.block.kind
    }

    /// Whose memory.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.0.gpu
    }

    /// How many hold it: clones, operations, and streams that have not been synchronised since they used it.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Frees it now and says how that went.
    ///
    /// # Errors
    ///
    /// [`Error::Held`] if there are other holders: this one lets go, and the memory lives on. [`Error::Free`].
    pub fn free(self) -> Result<(), Error> {
        let address = self.address();
        match Arc::try_unwrap(self.0) {
            Ok(mut owned) => {
                owned.freed = true;
                owned.gpu.backend().free(owned.block)
            }
            Err(held) => Err(Error::Held {
                address,
                holders: Arc::strong_count(&held).saturating_sub(1),
            }),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.freed {
            // A context that is broken or gone has taken the memory with it; there is nobody to tell here.
            let _ = self.gpu.backend().free(self.block);
        }
    }
}

/// Memory a GPU reaches: [`DeviceMemory`], and [`HostMemory`] that is not pageable. Sealed.
pub trait Memory: sealed::Sealed {
    /// Where the GPU finds it; 0 of pageable host memory, which whatever needs an address refuses ([`Error::Pageable`]).
    fn device_address(&self) -> DevicePtr;

    /// Bytes.
    fn size(&self) -> usize;

    /// Something that keeps it alive.
    #[doc(hidden)]
    fn held(&self) -> Held;

    /// The address of a word of `width` bytes.
    #[doc(hidden)]
    fn word(&self, offset: usize, width: usize) -> Result<DevicePtr, Error> {
        let address = self.range(offset, width)?;
        aligned(address.get(), width)?;
        Ok(address)
    }

    /// The address of `bytes` bytes that are inside.
    #[doc(hidden)]
    fn range(&self, offset: usize, bytes: usize) -> Result<DevicePtr, Error> {
        check_range(offset, bytes, self.size())?;
        Ok(self.device_address().offset(offset as u64))
    }
}

impl Memory for DeviceMemory {
    fn device_address(&self) -> DevicePtr {
        self.address()
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn held(&self) -> Held {
        Held::Device(self.clone())
    }
}

impl Memory for HostMemory {
    fn device_address(&self) -> DevicePtr {
        HostMemory::device_address(self)
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn held(&self) -> Held {
        Held::Host(self.clone())
    }

    fn range(&self, offset: usize, bytes: usize) -> Result<DevicePtr, Error> {
        check_range(offset, bytes, self.len())?;
        if self.is_pageable() {
            return Err(Error::Pageable);
        }
        Ok(HostMemory::device_address(self).offset(offset as u64))
    }
}

/// What something still uses.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum Held {
    /// A GPU's.
    Device(DeviceMemory),
    /// The host's.
    Host(HostMemory),
    /// The way to another GPU's.
    Peer(PeerAccess),
}

impl Held {
    /// The same for all clones of the same memory, and for all holders of the same access.
    pub(crate) fn key(&self) -> (u64, u64) {
        match self {
            Self::Device(memory) => (Arc::as_ptr(&memory.0) as u64, 0),
            Self::Host(memory) => (memory.key() as u64, 0),
            Self::Peer(access) => access.key(),
        }
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        match self {
            Self::Device(memory) => memory.gpu(),
            Self::Host(memory) => memory.gpu(),
            Self::Peer(access) => access.from(),
        }
    }
}

pub(crate) fn check_range(offset: usize, bytes: usize, size: usize) -> Result<(), Error> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::Range {
            offset: offset as u64,
            bytes,
            size,
        }),
    }
}

pub(crate) fn aligned(address: u64, alignment: usize) -> Result<(), Error> {
    if address.is_multiple_of(alignment as u64) {
        Ok(())
    } else {
        Err(Error::Misaligned { address, alignment })
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::DeviceMemory {}
    impl Sealed for super::HostMemory {}
}
