//! Memory regions.

use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use gpu::{DeviceMemory, HostMemory, Memory as _};
use ibverbs_sys as raw;

use crate::buffer::check;
use crate::{Buffer, Error, ProtectionDomain};

/// Access rights of a device. Reading memory for sends is always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Local write: received data and results of reads.
    pub local_write: bool,
    /// Remote write.
    pub remote_write: bool,
    /// Remote read.
    pub remote_read: bool,
    /// Remote atomic operations.
    pub remote_atomic: bool,
    /// Relaxed ordering: writes of a message may arrive in any order, so the last word does not imply the others. A kernel or a NIC
    /// without it ignores the flag.
    pub relaxed_ordering: bool,
    /// On-demand paging: the registration pins no page, and the device takes a page fault where it finds none. For host memory, on
    /// devices that offer it ([`Context::on_demand_paging`](crate::Context::on_demand_paging)).
    pub on_demand: bool,
}

impl Access {
    /// All rights without relaxed ordering and on-demand paging.
    pub const ALL: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        relaxed_ordering: false,
        on_demand: false,
    };

    /// Without the order of writes and the kind of registration, which belong to memory.
    pub(crate) fn rights(self) -> u32 {
        Self { relaxed_ordering: false, on_demand: false, ..self }.bits()
    }

    pub(crate) fn bits(self) -> u32 {
        use raw::ibv_access_flags as flags;
        let bit = |is_set: bool, flag: flags| if is_set { flag.0 } else { 0 };
        bit(self.local_write, flags::IBV_ACCESS_LOCAL_WRITE)
            | bit(self.remote_write, flags::IBV_ACCESS_REMOTE_WRITE)
            | bit(self.remote_read, flags::IBV_ACCESS_REMOTE_READ)
            | bit(self.remote_atomic, flags::IBV_ACCESS_REMOTE_ATOMIC)
            | bit(self.relaxed_ordering, flags::IBV_ACCESS_RELAXED_ORDERING)
            | bit(self.on_demand, flags::IBV_ACCESS_ON_DEMAND)
    }

    /// Checks that they are possible for GPU memory. Its pages are not those of the process, where the kernel would look for them.
    fn check_gpu(self) -> Result<(), Error> {
        if self.on_demand { Err(Error::OnDemandGpu) } else { Ok(()) }
    }
}

/// Registered memory. Memory and registration stay until the last clone is dropped and no queue pair is left that was given work with it.
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
    /// Dropped after the registration.
    memory: Held,
}

// SAFETY: verbs are thread safe, and only this value deregisters it.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// Keeps the memory alive while a device can access it.
#[derive(Debug)]
#[expect(dead_code, reason = "holding it is its use")]
enum Held {
    Buffer(Buffer),
    Host(HostMemory),
    Device(DeviceMemory),
}

/// A range of registered memory.
#[derive(Debug, Clone, Copy)]
pub struct Sge<'r> {
    region: &'r MemoryRegion,
    offset: usize,
    bytes: usize,
}

/// Memory of the remote end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Start address.
    pub address: u64,
    /// The rkey.
    pub rkey: u32,
}

impl Remote {
    /// The memory `bytes` bytes further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self { address: self.address.wrapping_add(bytes), ..self }
    }
}

impl ProtectionDomain {
    /// Registers a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Register`]: ENOMEM usually means the limit of locked memory (`ulimit -l`).
    pub fn register(&self, buffer: &Buffer, access: Access) -> Result<MemoryRegion, Error> {
        self.reg_mr(buffer.address(), buffer.len(), access, Held::Buffer(buffer.clone()))
    }

    /// Registers a part of a buffer; the remote end can access nothing else.
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

    /// Registers host memory allocated by a GPU's driver.
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

    /// Registers a part of it; the remote end can access nothing else.
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

    /// Registers GPU memory by its address, which requires a peer memory client in the kernel (nvidia-peermem).
    ///
    /// # Errors
    ///
    /// [`Error::Register`]: EFAULT without such a client. [`Error::Simulated`], [`Error::OnDemandGpu`].
    pub fn register_device(
        &self,
        memory: &DeviceMemory,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        if memory.gpu().is_sim() {
            // Simulated addresses are not valid, and the kernel could mistake them for others.
            return Err(Error::Simulated);
        }
        access.check_gpu()?;
        let (address, bytes) = (memory.address().get(), memory.len());
        self.reg_mr(address, bytes, access, Held::Device(memory.clone()))
    }

    /// Registers the host memory that stands for a simulated GPU's: the NIC's part of a simulation is real.
    ///
    /// # Errors
    ///
    /// [`Error::NotSimulated`], [`Error::Register`].
    pub fn register_simulated(
        &self,
        memory: &DeviceMemory,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        let start = gpu::sim::host_address(memory).ok_or(Error::NotSimulated)?;
        let address = start.as_ptr().expose_provenance() as u64;
        self.reg_mr(address, memory.len(), access, Held::Device(memory.clone()))
    }

    /// Registers GPU memory by an exported dma-buf, which may be closed afterwards. `offset` is where the memory starts in the dma-buf.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], [`Error::Register`]: EOPNOTSUPP (95) from the provider or EPROTONOSUPPORT (93) from the kernel mean that it is
    /// not supported. [`Error::Simulated`], [`Error::OnDemandGpu`].
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
        access.check_gpu()?;
        self.context()
            .needs("ibv_reg_dmabuf_mr", |functions| functions.ibv_reg_dmabuf_mr.is_some())?;
        let (address, bytes) = (memory.device_address().get(), memory.len());
        // SAFETY: the domain is alive; the file is open, and the kernel checks its type and length. The memory is kept while it is
        // registered.
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
        self.region("ibv_reg_dmabuf_mr", raw, (address, bytes), Held::Device(memory.clone()))
    }

    /// Registers GPU memory by a dma-buf that was exported with the PCIe mapping, for the NIC's Data Direct function. The dma-buf may be
    /// closed afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] without libmlx5, [`Error::Missing`] below rdma-core 54, [`Error::NotMlx5`], [`Error::Register`],
    /// [`Error::Simulated`], [`Error::OnDemandGpu`].
    pub fn register_data_direct(
        &self,
        memory: &DeviceMemory,
        file: BorrowedFd<'_>,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        if memory.gpu().is_sim() {
            return Err(Error::Simulated);
        }
        access.check_gpu()?;
        let function = "mlx5dv_reg_dmabuf_mr";
        let register = raw::mlx5dv()?.mlx5dv_reg_dmabuf_mr.ok_or(Error::Missing { function })?;
        // The library does not check the type of the device.
        if !self.context().is_mlx5() {
            let name = self.context().name().to_owned();
            let what = "GPU memory by Data Direct";
            return Err(Error::NotMlx5 { name, what });
        }
        let (address, bytes) = (memory.device_address().get(), memory.len());
        // SAFETY: the domain is alive and an mlx5 device's; the file is open, and the kernel checks its type and length. The memory is kept
        // while it is registered.
        let raw = unsafe {
            register(
                self.as_raw(),
                0,
                bytes,
                address,
                file.as_raw_fd(),
                access.bits().cast_signed(),
                raw::MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT,
            )
        };
        self.region(function, raw, (address, bytes), Held::Device(memory.clone()))
    }

    fn reg_mr(
        &self,
        address: u64,
        bytes: usize,
        access: Access,
        memory: Held,
    ) -> Result<MemoryRegion, Error> {
        let bits = access.bits().cast_signed();
        // SAFETY: the domain is alive, and the memory is kept while it is registered.
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
        // SAFETY: just created by the library, which keeps it until it is deregistered.
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
    /// Address and rkey, for the remote end.
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote { address: self.0.address, rkey: self.0.rkey }
    }

    /// The lkey.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.0.lkey
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Always false: empty memory cannot be registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A range of at most 4 GiB.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn sge(&self, offset: usize, bytes: usize) -> Result<Sge<'_>, Error> {
        check(offset, bytes, self.len().min(offset.saturating_add(u32::MAX as usize)))?;
        Ok(Sge { region: self, offset, bytes })
    }

    /// Its protection domain.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.0.domain
    }

    /// True for GPU memory, which the CPU cannot access by its address.
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
            // `MemoryRegion::sge` limits the length.
            length: self.bytes as u32,
            lkey: self.region.0.lkey,
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: queue pairs that were given work with it hold it, so none is left; deregistered only here.
        unsafe { raw::ibv_dereg_mr(self.raw.as_ptr()) };
    }
}
