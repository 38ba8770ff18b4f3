//! UMEM: memory for a NIC's queues and doorbell records.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::ptr::{NonNull, without_provenance_mut};
use std::sync::Arc;

use gpu::{DeviceMemory, DevicePtr, HostMemory, Memory as _};
use ibverbs_sys as raw;

use super::Devx;
use super::command::mlx5;
use crate::buffer::check;
use crate::memory_path::reachable;
use crate::{Access, Chosen, Context, Error, MemoryPath, MemoryPathError, PathFacts, Rejections};

/// A UMEM. Clones share it; the NIC can access it until the last clone and the last object in it are dropped.
#[derive(Debug, Clone)]
pub struct Umem(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::mlx5dv_devx_umem>,
    number: u32,
    bytes: usize,
    context: Context,
    /// Dropped after the NIC's access ends.
    _memory: Memory,
}

// SAFETY: the library's calls on it are system calls, which the kernel serialises; only this value frees it.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// Keeps the memory alive while a NIC can access it.
#[derive(Debug)]
#[expect(dead_code, reason = "holding it is its use")]
enum Memory {
    Host(HostMemory),
    Device(DeviceMemory),
}

/// A position in a UMEM.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The memory.
    pub memory: Umem,
    /// Offset in bytes.
    pub offset: usize,
}

/// Source of the memory: an address of the process or of a GPU, or an offset in a dma-buf.
enum From {
    Address(usize),
    Dmabuf(RawFd, usize),
}

impl Devx {
    /// Registers host memory.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Umem`]: ENOMEM usually means the limit of locked memory (`ulimit -l`).
    pub fn host_memory(&self, memory: &HostMemory, part: Range<usize>) -> Result<Umem, Error> {
        check(part.start, part.len(), memory.len())?;
        let from = From::Address(memory.as_ptr().addr().get() + part.start);
        self.umem(from, part.len(), Memory::Host(memory.clone()))
    }

    /// Registers GPU memory by the first memory path that works, in the order of [`PathFacts::memory_paths`] for this GPU and this NIC, without
    /// Data Direct.
    ///
    /// # Errors
    ///
    /// [`Rejections`]: each memory path and why it failed.
    pub fn gpu_memory(
        &self,
        memory: &DeviceMemory,
        part: Range<usize>,
    ) -> Result<Chosen<Umem>, Rejections> {
        let facts = PathFacts { data_direct: false, ..PathFacts::read(self.context(), memory) };
        Chosen::first(&facts.memory_paths(), |memory_path| {
            self.device_memory(memory_path, memory, part.clone())
        })
    }

    /// Registers GPU memory by one memory path. With a dma-buf, address and length of the part must be multiples of the host's page size,
    /// preferably of the GPU's, 64 KiB.
    ///
    /// # Errors
    ///
    /// [`MemoryPathError`]; [`MemoryPath::DataDirect`] is for memory regions only. A dma-buf needs Linux 6.1 and rdma-core 43; older ones fail
    /// with EINVAL, EOPNOTSUPP or EPROTONOSUPPORT. ENOTSUPP (524) and [`MemoryPath::Peermem`] as for [`ProtectionDomain::register_by`].
    ///
    /// [`ProtectionDomain::register_by`]: crate::ProtectionDomain::register_by
    pub fn device_memory(
        &self,
        memory_path: MemoryPath,
        memory: &DeviceMemory,
        part: Range<usize>,
    ) -> Result<Umem, MemoryPathError> {
        if memory_path == MemoryPath::DataDirect {
            return Err(MemoryPathError::NoQueueMemory);
        }
        if memory.gpu().is_sim() {
            return Err(Error::Simulated.into());
        }
        check(part.start, part.len(), memory.len())?;
        reachable(memory)?;
        let (address, bytes) = (memory.device_address().get() + part.start as u64, part.len());
        let file = memory_path.export(DevicePtr::new(address), bytes)?;
        Ok(match file {
            Some(file) => self.dmabuf(memory, file.as_fd(), 0, bytes)?,
            None => {
                let from = From::Address(address as usize);
                self.umem(from, bytes, Memory::Device(memory.clone()))?
            }
        })
    }

    /// Registers GPU memory by an exported dma-buf, which may be closed afterwards. `offset` is where the `bytes` bytes start in the file. For
    /// simulated GPU memory the file is not a dma-buf: a real kernel fails with EINVAL, a fake NIC accepts it.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] below rdma-core 35, [`Error::Umem`].
    pub fn dmabuf(
        &self,
        memory: &DeviceMemory,
        file: BorrowedFd<'_>,
        offset: usize,
        bytes: usize,
    ) -> Result<Umem, Error> {
        let from = From::Dmabuf(file.as_raw_fd(), offset);
        self.umem(from, bytes, Memory::Device(memory.clone()))
    }

    fn umem(&self, from: From, bytes: usize, memory: Memory) -> Result<Umem, Error> {
        let context = self.context();
        let library = raw::mlx5dv()?;
        mlx5(context)?;
        // The NIC writes CQEs and doorbell records.
        let access = Access { local_write: true, ..Access::default() };
        let (function, made) = match from {
            From::Address(address) => {
                let function = "mlx5dv_devx_umem_reg";
                let register = library.mlx5dv_devx_umem_reg.ok_or(Error::Missing { function })?;
                let address = without_provenance_mut(address);
                // SAFETY: the context is open and an mlx5 device's. The kernel pins the memory at the address or fails, and `held` keeps it.
                let made = unsafe { register(context.as_raw(), address, bytes, access.bits()) };
                (function, made)
            }
            From::Dmabuf(file, offset) => {
                let function = "mlx5dv_devx_umem_reg_ex";
                let register =
                    library.mlx5dv_devx_umem_reg_ex.ok_or(Error::Missing { function })?;
                let mut wanted = raw::mlx5dv_devx_umem_in {
                    addr: without_provenance_mut(offset),
                    size: bytes,
                    access: access.bits(),
                    pgsz_bitmap: PAGES,
                    comp_mask: raw::mlx5dv_devx_umem_in_mask::MLX5DV_UMEM_MASK_DMABUF.0.into(),
                    dmabuf_fd: file,
                };
                // SAFETY: the context is open and an mlx5 device's. The file is open, the kernel checks its type and length, and the memory is kept
                // while the NIC can access it.
                let made = unsafe { register(context.as_raw(), &mut wanted) };
                (function, made)
            }
        };
        let raw = NonNull::new(made).ok_or_else(|| Error::Umem {
            name: context.name().into(),
            function,
            bytes,
            source: io::Error::last_os_error(),
        })?;
        // SAFETY: just created by the library, which keeps it until it is deregistered.
        let number = unsafe { raw.as_ref().umem_id };
        Ok(Umem(Arc::new(Owned { raw, number, bytes, context: context.clone(), _memory: memory })))
    }
}

/// Any page size from 4 KiB: the kernel uses the largest that fits.
const PAGES: u64 = !0xfff;

impl Umem {
    /// Its number in commands.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// True if its length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// A position in it.
    #[must_use]
    pub fn at(&self, offset: usize) -> Spot {
        Spot { memory: self.clone(), offset }
    }
}

impl Spot {
    /// UMEM number and offset, for commands.
    pub(super) fn named(&self) -> (u32, u64) {
        (self.memory.number(), self.offset as u64)
    }

    /// Checks that `bytes` bytes at this position belong to this device.
    pub(super) fn has(&self, devx: &Devx, bytes: usize) -> Result<(), Error> {
        if self.memory.0.context.as_raw() != devx.context().as_raw() {
            let what = "memory";
            return Err(Error::Foreign { what });
        }
        check(self.offset, bytes, self.memory.len())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let deregister = raw::mlx5dv().ok().and_then(|library| library.mlx5dv_devx_umem_dereg);
        if let Some(deregister) = deregister {
            // SAFETY: created by the library, and deregistered only here; objects in it hold it, so none is left.
            unsafe { deregister(self.raw.as_ptr()) };
        }
    }
}
