//! Registered memory: what a device may reach, and by which keys.

use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use gpu::{DeviceMemory, HostMemory, Memory as _};
use ibverbs_sys as raw;

use crate::buffer::check;
use crate::{Buffer, Error, ProtectionDomain};

/// What a device may do with memory. It may read what it sends in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// This side's work may write it: what is received, what is read from afar.
    pub local_write: bool,
    /// The remote side may write it.
    pub remote_write: bool,
    /// The remote side may read it.
    pub remote_read: bool,
    /// The remote side may do atomic operations on it.
    pub remote_atomic: bool,
    /// Writes of one message may arrive in any order; the last word is no sign of the others then.
    pub relaxed_ordering: bool,
}

impl Access {
    /// Everything but relaxed ordering.
    pub const ALL: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        relaxed_ordering: false,
    };

    pub(crate) fn bits(self) -> u32 {
        use raw::ibv_access_flags as flags;
        let bit = |is_set: bool, flag: flags| if is_set { flag.0 } else { 0 };
        bit(self.local_write, flags::IBV_ACCESS_LOCAL_WRITE)
            | bit(self.remote_write, flags::IBV_ACCESS_REMOTE_WRITE)
            | bit(self.remote_read, flags::IBV_ACCESS_REMOTE_READ)
            | bit(self.remote_atomic, flags::IBV_ACCESS_REMOTE_ATOMIC)
            | bit(self.relaxed_ordering, flags::IBV_ACCESS_RELAXED_ORDERING)
    }
}

/// Registered memory; it, and what it was made of, stays until the last clone is dropped, and until no queue pair that was given
/// work with it is left.
#[derive(Debug, Clone)]
pub struct MemoryRegion(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::ibv_mr>,
    address: u64,
    bytes: usize,
    lkey: u32,
    rkey: u32,
    domain: ProtectionDomain,
    /// Dropped after the registration has ended.
    memory: Held,
}

// SAFETY: verbs are thread safe, and the registration is ended by this value alone.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// What stays for as long as a device may reach it.
#[derive(Debug)]
#[expect(dead_code, reason = "holding it is its use")]
enum Held {
    Buffer(Buffer),
    Host(HostMemory),
    Device(DeviceMemory),
}

/// A stretch of registered memory.
#[derive(Debug, Clone, Copy)]
pub struct Sge<'r> {
    region: &'r MemoryRegion,
    offset: usize,
    bytes: usize,
}

/// Memory of the remote side, as that side has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Where it starts.
    pub address: u64,
    /// The key to it.
    pub rkey: u32,
}

impl Remote {
    /// So many bytes further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self {
            address: self.address.wrapping_add(bytes),
            ..self
        }
    }
}

impl ProtectionDomain {
    /// Registers a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Register`]: ENOMEM is most often the limit of locked memory (`ulimit -l`).
    pub fn register(&self, buffer: &Buffer, access: Access) -> Result<MemoryRegion, Error> {
        self.reg_mr(
            buffer.address(),
            buffer.len(),
            access,
            Held::Buffer(buffer.clone()),
        )
    }

    /// Registers a part of a buffer: the remote side reaches nothing else.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Register`].
    pub fn register_part(
        &self,
        buffer: &Buffer,
        part: Range<usize>,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        let bytes = part.len();
        check(part.start, bytes, buffer.len())?;
        let address = buffer.address() + part.start as u64;
        self.reg_mr(address, bytes, access, Held::Buffer(buffer.clone()))
    }

    /// Registers host memory of a GPU's driver.
    ///
    /// # Errors
    ///
    /// [`Error::Register`].
    pub fn register_host(
        &self,
        memory: &HostMemory,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        self.register_host_part(memory, 0..memory.len(), access)
    }

    /// Registers a part of it: the remote side reaches nothing else.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Register`].
    pub fn register_host_part(
        &self,
        memory: &HostMemory,
        part: Range<usize>,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        let bytes = part.len();
        check(part.start, bytes, memory.len())?;
        let address = memory.as_ptr().as_ptr() as u64 + part.start as u64;
        self.reg_mr(address, bytes, access, Held::Host(memory.clone()))
    }

    /// Registers GPU memory by its address, for which the kernel needs a peer memory client (nvidia-peermem).
    ///
    /// # Errors
    ///
    /// [`Error::Register`]: EFAULT where there is no such client. [`Error::Simulated`].
    pub fn register_device(
        &self,
        memory: &DeviceMemory,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        if memory.gpu().is_sim() {
            // Its addresses are nobody's, and the kernel might take them for somebody's.
            return Err(Error::Simulated);
        }
        let (address, bytes) = (memory.address().get(), memory.len());
        self.reg_mr(address, bytes, access, Held::Device(memory.clone()))
    }

    /// Registers GPU memory by a dma-buf of it, which may be closed afterwards. `offset` is where the memory starts in the
    /// dma-buf.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], [`Error::Register`]: EOPNOTSUPP (95) from the provider and EPROTONOSUPPORT (93) from the kernel say that
    /// there is no such operation. [`Error::Simulated`].
    pub fn register_dmabuf(
        &self,
        memory: &DeviceMemory,
        file: BorrowedFd<'_>,
        offset: u64,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        if memory.gpu().is_sim() {
            return Err(Error::Simulated);
        }
        self.context().needs("ibv_reg_dmabuf_mr", |functions| {
            functions.ibv_reg_dmabuf_mr.is_some()
        })?;
        let (address, bytes) = (memory.device_address().get(), memory.len());
        // SAFETY: the domain is alive; the file is open, and the kernel checks what it is and how far it reaches. The memory is
        // held for as long as the registration lasts.
        let raw = unsafe {
            raw::ibv_reg_dmabuf_mr(
                self.as_raw(),
                offset,
                bytes,
                address,
                file.as_raw_fd(),
                access.bits().cast_signed(),
            )
        };
        self.region(
            "ibv_reg_dmabuf_mr",
            raw,
            (address, bytes),
            Held::Device(memory.clone()),
        )
    }

    fn reg_mr(
        &self,
        address: u64,
        bytes: usize,
        access: Access,
        memory: Held,
    ) -> Result<MemoryRegion, Error> {
        let bits = access.bits().cast_signed();
        // SAFETY: the domain is alive, and the memory is held for as long as the registration lasts.
        let raw = unsafe { raw::ibv_reg_mr(self.as_raw(), address as *mut _, bytes, bits) };
        self.region("ibv_reg_mr", raw, (address, bytes), memory)
    }

    fn region(
        &self,
        function: &'static str,
        raw: *mut raw::ibv_mr,
        (address, bytes): (u64, usize),
        memory: Held,
    ) -> Result<MemoryRegion, Error> {
        let Some(raw) = NonNull::new(raw) else {
            return Err(Error::Register {
                name: self.context().name().to_owned(),
                function,
                bytes,
                source: std::io::Error::last_os_error(),
            });
        };
        // SAFETY: the library has just made it, and keeps it until the registration ends.
        let (lkey, rkey) = unsafe { (raw.as_ref().lkey, raw.as_ref().rkey) };
        Ok(MemoryRegion(Arc::new(Owned {
            raw,
            address,
            bytes,
            lkey,
            rkey,
            domain: self.clone(),
            memory,
        })))
    }
}

impl MemoryRegion {
    /// What the remote side is told of it.
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote {
            address: self.0.address,
            rkey: self.0.rkey,
        }
    }

    /// The key that work of this side names it by.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.0.lkey
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Never: nothing cannot be registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A stretch of it, of at most 4 GiB.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn piece(&self, offset: usize, bytes: usize) -> Result<Sge<'_>, Error> {
        check(
            offset,
            bytes,
            self.len().min(offset.saturating_add(u32::MAX as usize)),
        )?;
        Ok(Sge {
            region: self,
            offset,
            bytes,
        })
    }

    /// The domain it is registered in.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.0.domain
    }

    /// Whether it is memory of a GPU, which the CPU does not reach by its address.
    pub(crate) fn is_device(&self) -> bool {
        matches!(self.0.memory, Held::Device(_))
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<'r> Sge<'r> {
    pub(crate) fn region(&self) -> &'r MemoryRegion {
        self.region
    }

    pub(crate) fn entry(&self) -> raw::ibv_sge {
        raw::ibv_sge {
            addr: self.region.0.address + self.offset as u64,
            // A piece is no larger: `MemoryRegion::piece`.
            length: self.bytes as u32,
            lkey: self.region.0.lkey,
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: queue pairs that were given work with it held it, and are gone; it is ended here alone.
        unsafe { raw::ibv_dereg_mr(self.raw.as_ptr()) };
    }
}
