//! Owned device memory, freed with its last holder.

use std::fmt;
use std::sync::Arc;

use crate::backend::Block;
use crate::{DevicePtr, Error, Gpu, HostMemory, PeerAccess};

/// Kind of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// `cuMemAlloc`, as used by `cudaMalloc`; small allocations share 2 MiB blocks.
    Malloc,
    /// `cuMemCreate` with its own mapping, in multiples of 2 MiB.
    Create {
        /// Allows export as a file descriptor.
        exportable: bool,
        /// Allows third-party access (`gpuDirectRDMACapable`).
        rdma: bool,
    },
    /// Stream-ordered pool, as used by `cudaMallocAsync`.
    Pool {
        /// Uses a private pool that can be exported as a file descriptor, instead of the GPU's
        /// default pool.
        exportable: bool,
    },
    /// `cuMemAllocManaged`.
    Managed,
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malloc => "cuMemAlloc",
            Self::Create { exportable: false, .. } => "cuMemCreate",
            Self::Create { exportable: true, .. } => "cuMemCreate, exportable",
            Self::Pool { exportable: false } => "cuMemAllocAsync",
            Self::Pool { exportable: true } => "cuMemAllocAsync, exportable pool",
            Self::Managed => "cuMemAllocManaged",
        })
    }
}

/// GPU memory. Clones share it; it is freed when the last clone is dropped and streams that use it
/// are synchronised or dropped.
#[derive(Debug, Clone)]
pub struct DeviceMemory(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    gpu: Gpu,
    block: Block,
    /// True after [`DeviceMemory::free`], and for [`DeviceMemory::foreign`] memory.
    freed: bool,
}

impl DeviceMemory {
    pub(crate) fn new(gpu: Gpu, block: Block) -> Self {
        Self(Arc::new(Owned { gpu, block, freed: false }))
    }

    /// Wraps `bytes` bytes of GPU memory that other code allocated and frees.
    ///
    /// # Safety
    ///
    /// The range is device memory of `gpu` until the last clone is dropped and streams that use it
    /// are synchronised.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`].
    pub unsafe fn foreign(gpu: &Gpu, address: DevicePtr, bytes: usize) -> Result<Self, Error> {
        if bytes == 0 {
            return Err(Error::Empty);
        }
        let (reserved, kind) = (bytes, Allocation::Malloc);
        Ok(Self(Arc::new(Owned {
            gpu: gpu.clone(),
            block: Block { address, bytes, reserved, kind },
            // Its owner frees it.
            freed: true,
        })))
    }

    /// Start address.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.0.block.address
    }

    /// Requested size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.block.bytes
    }

    /// Always false: empty allocations are rejected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Kind of memory.
    #[must_use]
    pub fn kind(&self) -> Allocation {
        self.0.block.kind
    }

    /// GPU that owns it.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.0.gpu
    }

    /// Number of holders: clones, operations and unsynchronised streams.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Frees it now and reports errors.
    ///
    /// # Errors
    ///
    /// [`Error::Held`] if there are other holders: this one is released and the memory stays
    /// allocated. [`Error::Free`].
    pub fn free(self) -> Result<(), Error> {
        let address = self.address();
        match Arc::try_unwrap(self.0) {
            Ok(mut owned) => {
                owned.freed = true;
                owned.gpu.backend().free(owned.block)
            }
            Err(held) => {
                Err(Error::Held { address, holders: Arc::strong_count(&held).saturating_sub(1) })
            }
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.freed {
            // Ignored: a broken or destroyed context has already released the memory.
            let _ = self.gpu.backend().free(self.block);
        }
    }
}

/// Memory a GPU can access: [`DeviceMemory`] and non-pageable [`HostMemory`]. Sealed.
pub trait Memory: sealed::Sealed {
    /// Device address; 0 for pageable host memory, rejected where an address is needed
    /// ([`Error::Pageable`]).
    fn device_address(&self) -> DevicePtr;

    /// Size in bytes.
    fn size(&self) -> usize;

    /// Reference that keeps it alive.
    #[doc(hidden)]
    fn held(&self) -> Held;

    /// Address of a word of `width` bytes, range-checked.
    #[doc(hidden)]
    fn word(&self, offset: usize, width: usize) -> Result<DevicePtr, Error> {
        let address = self.range(offset, width)?;
        aligned(address.get(), width)?;
        Ok(address)
    }

    /// Address of `bytes` bytes, range-checked.
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

/// Resource kept alive.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum Held {
    /// Device memory.
    Device(DeviceMemory),
    /// Host memory.
    Host(HostMemory),
    /// Peer access.
    Peer(PeerAccess),
}

impl Held {
    /// Equal for all clones of a memory, and for all holders of an access.
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
        _ => Err(Error::Range { offset: offset as u64, bytes, size }),
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
