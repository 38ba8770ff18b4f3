//! Memory that commands name: a NIC's queues and doorbell records lie in it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::ptr::{NonNull, without_provenance_mut};
use std::sync::Arc;

use gpu::pointer::{self, DmaBufMapping};
use gpu::{DeviceMemory, DevicePtr, HostMemory, Memory as _};
use ibverbs_sys as raw;

use super::Devx;
use super::command::mlx5;
use crate::buffer::check;
use crate::memory_path::reachable;
use crate::{Access, Context, Error, MemoryPath, MemoryPathError};

/// Memory that commands name. Clones are the same; the NIC reaches it until the last of them, and of what was made in it, is dropped.
#[derive(Debug, Clone)]
pub struct Umem(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::mlx5dv_devx_umem>,
    number: u32,
    bytes: usize,
    context: Context,
    /// Dropped after the NIC has let go of it.
    _memory: Memory,
}

// SAFETY: the library's calls about it are system calls alone, which the kernel locks; it is given back by this value alone.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// What stays for as long as a NIC reaches it.
#[derive(Debug)]
#[expect(dead_code, reason = "holding it is its use")]
enum Memory {
    Host(HostMemory),
    Device(DeviceMemory),
}

/// A place in memory that commands name.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The memory.
    pub memory: Umem,
    /// Bytes before it.
    pub offset: usize,
}

/// Where memory is: an address of the process or of a GPU, or an offset in a dma-buf.
enum From {
    Address(usize),
    Dmabuf(RawFd, usize),
}

impl Devx {
    /// Host memory, of the kernel's pages.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Umem`]: ENOMEM is most often the limit of locked memory (`ulimit -l`).
    pub fn host_memory(&self, memory: &HostMemory, part: Range<usize>) -> Result<Umem, Error> {
        check(part.start, part.len(), memory.len())?;
        let from = From::Address(memory.as_ptr().addr().get() + part.start);
        self.umem(from, part.len(), Memory::Host(memory.clone()))
    }

    /// GPU memory by one memory path. A dma-buf is asked for with the mapping over PCI Express, where the driver knows that, else as it thinks
    /// best; address and length of the part must be multiples of the host's page then, and are best multiples of the GPU's, 64 KiB.
    ///
    /// # Errors
    ///
    /// [`MemoryPathError`]. By [`MemoryPath::Dmabuf`] the NIC's driver needs Linux 6.1 and rdma-core 43: older ones refuse with EINVAL, EOPNOTSUPP
    /// or EPROTONOSUPPORT; by [`MemoryPath::Peermem`] EFAULT says that no peer memory client took the address.
    pub fn device_memory(
        &self,
        memory_path: MemoryPath,
        memory: &DeviceMemory,
        part: Range<usize>,
    ) -> Result<Umem, MemoryPathError> {
        if memory.gpu().is_sim() {
            return Err(Error::Simulated.into());
        }
        check(part.start, part.len(), memory.len())?;
        reachable(memory)?;
        let address = memory.device_address().get() + part.start as u64;
        match memory_path {
            MemoryPath::Peermem => {
                let from = From::Address(address as usize);
                Ok(self.umem(from, part.len(), Memory::Device(memory.clone()))?)
            }
            MemoryPath::Dmabuf => {
                let (address, bytes) = (DevicePtr::new(address), part.len());
                let file = match pointer::dmabuf(address, bytes, DmaBufMapping::Pcie) {
                    Ok(file) => file,
                    Err(_) => pointer::dmabuf(address, bytes, DmaBufMapping::Default)?,
                };
                Ok(self.dmabuf(memory, file.as_fd(), 0, bytes)?)
            }
        }
    }

    /// GPU memory by a dma-buf of it that somebody else made, and may close afterwards. `offset` is where `bytes` bytes of it begin in the
    /// file. Of a simulated GPU's memory the file is no dma-buf, which a real kernel says (EINVAL); a NIC's double takes it.
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
        // The NIC writes completions there, and its records.
        let access = Access {
            local_write: true,
            ..Access::default()
        };
        let (function, made) = match from {
            From::Address(address) => {
                let function = "mlx5dv_devx_umem_reg";
                let register = library
                    .mlx5dv_devx_umem_reg
                    .ok_or(Error::Missing { function })?;
                let address = without_provenance_mut(address);
                // SAFETY: the context is open and an mlx5 device's. The kernel pins what is at the address, or refuses it, and what is
                // there is held for as long.
                let made = unsafe { register(context.as_raw(), address, bytes, access.bits()) };
                (function, made)
            }
            From::Dmabuf(file, offset) => {
                let function = "mlx5dv_devx_umem_reg_ex";
                let register = library
                    .mlx5dv_devx_umem_reg_ex
                    .ok_or(Error::Missing { function })?;
                let mut wanted = raw::mlx5dv_devx_umem_in {
                    addr: without_provenance_mut(offset),
                    size: bytes,
                    access: access.bits(),
                    pgsz_bitmap: PAGES,
                    comp_mask: raw::mlx5dv_devx_umem_in_mask::MLX5DV_UMEM_MASK_DMABUF
                        .0
                        .into(),
                    dmabuf_fd: file,
                };
                // SAFETY: the context is open and an mlx5 device's. The file is open, and the kernel checks what it is and how far it
                // reaches; the memory is held for as long as the NIC reaches it.
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
        // SAFETY: the library has just made it, and keeps it until it is given back.
        let number = unsafe { raw.as_ref().umem_id };
        Ok(Umem(Arc::new(Owned {
            raw,
            number,
            bytes,
            context: context.clone(),
            _memory: memory,
        })))
    }
}

/// Any size of pages from 4 KiB on: the kernel takes the largest that fits.
const PAGES: u64 = !0xfff;

impl Umem {
    /// What commands name it by.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// A place in it.
    #[must_use]
    pub fn at(&self, offset: usize) -> Spot {
        Spot {
            memory: self.clone(),
            offset,
        }
    }
}

impl Spot {
    /// What commands name it by: the memory's number, and the offset.
    pub(super) fn named(&self) -> (u32, u64) {
        (self.memory.number(), self.offset as u64)
    }

    /// Whether `bytes` bytes of this device's are there.
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
        let deregister = raw::mlx5dv()
            .ok()
            .and_then(|library| library.mlx5dv_devx_umem_dereg);
        if let Some(deregister) = deregister {
            // SAFETY: it was made by the library, and is given back here alone; what was made in it held it, and is gone.
            unsafe { deregister(self.raw.as_ptr()) };
        }
    }
}
