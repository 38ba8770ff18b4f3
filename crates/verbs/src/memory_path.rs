//! GPUDirect RDMA memory paths: how a NIC accesses GPU memory, which paths are tried for a GPU and a NIC, and why one failed.

use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};

use gpu::pointer::{self, DmaBufMapping, MemoryKind};
use gpu::{Allocation, DeviceMemory, DevicePtr, Memory as _};

use crate::{Access, Error, MemoryRegion, PathFacts, ProtectionDomain};

/// ENOTSUPP, which the kernel keeps from programs by rule, and an exporter of dma-bufs returns when it refuses a device.
const ENOTSUPP: i32 = 524;

/// How a NIC accesses GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryPath {
    /// A dma-buf with the PCIe mapping, accessed by the NIC's Data Direct function (`mlx5dv_reg_dmabuf_mr`).
    DataDirect,
    /// A dma-buf with the PCIe mapping, which bypasses NVLink-C2C.
    DmabufPcie,
    /// A dma-buf with the default mapping: over NVLink-C2C if the GPU has it, else over PCIe.
    Dmabuf,
    /// `ibv_reg_mr` with the GPU's address, which a kernel module (nvidia-peermem) resolves.
    Peermem,
}

impl MemoryPath {
    /// In the order of NCCL.
    pub const ALL: [Self; 4] = [Self::DataDirect, Self::DmabufPcie, Self::Dmabuf, Self::Peermem];

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DataDirect => "data-direct",
            Self::DmabufPcie => "dma-buf-pcie",
            Self::Dmabuf => "dma-buf",
            Self::Peermem => "peermem",
        }
    }

    /// The mapping of its dma-buf; none without a dma-buf.
    fn mapping(self) -> Option<DmaBufMapping> {
        match self {
            Self::DataDirect | Self::DmabufPcie => Some(DmaBufMapping::Pcie),
            Self::Dmabuf => Some(DmaBufMapping::Default),
            Self::Peermem => None,
        }
    }

    /// Exports a range of GPU memory as this memory path needs it; none without a dma-buf.
    pub(crate) fn export(
        self,
        address: DevicePtr,
        bytes: usize,
    ) -> Result<Option<OwnedFd>, MemoryPathError> {
        let export = |mapping| pointer::dmabuf(address, bytes, mapping);
        Ok(self.mapping().map(export).transpose()?)
    }
}

impl fmt::Display for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a memory path is not available for an allocation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryPathError {
    /// Managed memory migrates: the NIC would silently get the host pages where it happens to be.
    #[error("managed memory migrates: a registration may pin its host pages")]
    Managed,
    /// It was allocated without third-party access.
    #[error("the memory was allocated without gpuDirectRDMACapable (cuMemCreate)")]
    NotCapable,
    /// Not GPU memory.
    #[error("CUDA does not report it as GPU memory")]
    NotDevice,
    /// Queue memory (UMEM) has no Data Direct.
    #[error("Data Direct is for memory regions only, not for the memory of queues")]
    NoQueueMemory,
    /// CUDA does not report its attributes, or does not export a dma-buf.
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
    /// The NIC cannot register it.
    #[error(transparent)]
    Verbs(#[from] Error),
}

/// The step at which a memory path failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Before the export: the memory, or what libraries say of it, rules it out.
    Memory,
    /// CUDA exports no dma-buf.
    Export,
    /// The GPU's driver does not let this NIC use the dma-buf: errno 524, which comes from nowhere else.
    Attach,
    /// The kernel, the NIC's driver or its provider library does not register the memory. A failure to attach with another errno is here too,
    /// because the kernel reports both alike.
    Registration,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Export => "export",
            Self::Attach => "attach",
            Self::Registration => "registration",
        })
    }
}

impl MemoryPathError {
    /// The error number of the registration, if it was attempted.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Verbs(error) => error.errno(),
            _ => None,
        }
    }

    /// What the failed step returned: an error number, or CUDA's result of the export.
    #[must_use]
    pub fn number(&self) -> Option<i32> {
        match self {
            Self::Gpu(gpu::Error::DmaBuf { source, .. }) => {
                source.result().map(|result| result.0.cast_signed())
            }
            other => other.errno(),
        }
    }

    /// The step that failed.
    #[must_use]
    pub fn step(&self) -> Step {
        match self {
            Self::Managed | Self::NotCapable | Self::NotDevice | Self::NoQueueMemory => {
                Step::Memory
            }
            Self::Gpu(gpu::Error::DmaBuf { .. }) => Step::Export,
            Self::Gpu(_) => Step::Memory,
            Self::Verbs(error) if error.errno() == Some(ENOTSUPP) => Step::Attach,
            Self::Verbs(_) => Step::Registration,
        }
    }
}

/// A memory path that was tried and failed.
#[derive(Debug)]
pub struct Rejection {
    /// The memory path.
    pub memory_path: MemoryPath,
    /// Why it failed.
    pub error: MemoryPathError,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory_path, error) = (self.memory_path, gpu::sentence(&self.error));
        write!(f, "{memory_path} ({}): {error}", self.error.step())
    }
}

/// The memory paths that failed, in the order in which they were tried.
#[derive(Debug, Default)]
pub struct Rejections(pub Vec<Rejection>);

impl fmt::Display for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, rejection) in self.0.iter().enumerate() {
            let between = if number == 0 { "" } else { "; " };
            write!(f, "{between}{rejection}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejections {}

/// What a memory path gave, after those that failed.
#[derive(Debug)]
pub struct Chosen<T> {
    /// The result: a region, or a UMEM.
    pub result: T,
    /// The memory path.
    pub memory_path: MemoryPath,
    /// The memory paths that were tried before it.
    pub rejections: Rejections,
}

impl<T> Chosen<T> {
    /// Tries memory paths in order until one works.
    ///
    /// # Errors
    ///
    /// [`Rejections`]: each one and why it failed.
    pub fn first(
        memory_paths: &[MemoryPath],
        mut attempt: impl FnMut(MemoryPath) -> Result<T, MemoryPathError>,
    ) -> Result<Self, Rejections> {
        let mut rejections = Rejections::default();
        for &memory_path in memory_paths {
            match attempt(memory_path) {
                Ok(result) => {
                    return Ok(Self { result, memory_path, rejections });
                }
                Err(error) => rejections.0.push(Rejection { memory_path, error }),
            }
        }
        Err(rejections)
    }
}

impl ProtectionDomain {
    /// Registers GPU memory by the first memory path that works, in the order of [`PathFacts::memory_paths`] for this GPU and this NIC.
    ///
    /// # Errors
    ///
    /// [`Rejections`]: each memory path and why it failed.
    pub fn register_gpu(
        &self,
        memory: &DeviceMemory,
        access: Access,
    ) -> Result<Chosen<MemoryRegion>, Rejections> {
        let facts = PathFacts::read(self.context(), memory);
        Chosen::first(&facts.memory_paths(), |memory_path| {
            self.register_by(memory_path, memory, access)
        })
    }

    /// Registers GPU memory by one memory path. Attributes of the memory are checked first, because some memory registers without an error
    /// although the NIC would access something else.
    ///
    /// A dma-buf requires address and length in multiples of the host's page size. The PCIe mapping needs CUDA 12.8.
    ///
    /// # Errors
    ///
    /// [`MemoryPathError`]. With [`MemoryPath::Peermem`] EFAULT means that no peer memory client accepted the address; with a dma-buf
    /// EOPNOTSUPP (95) means that the provider, EPROTONOSUPPORT (93) that the kernel does not support it, and ENOTSUPP (524) that the GPU's
    /// driver does not map it for this NIC: with the PCIe mapping both must be in one IOMMU group.
    pub fn register_by(
        &self,
        memory_path: MemoryPath,
        memory: &DeviceMemory,
        access: Access,
    ) -> Result<MemoryRegion, MemoryPathError> {
        if memory.gpu().is_sim() {
            return Err(Error::Simulated.into());
        }
        reachable(memory)?;
        let file = memory_path.export(memory.device_address(), memory.len())?;
        Ok(match file {
            None => self.register_device(memory, access)?,
            Some(file) if memory_path == MemoryPath::DataDirect => {
                self.register_data_direct(memory, file.as_fd(), access)?
            }
            Some(file) => self.register_dmabuf(memory, file.as_fd(), 0, access)?,
        })
    }
}

/// Checks that a NIC would access this memory itself.
pub(crate) fn reachable(memory: &DeviceMemory) -> Result<(), MemoryPathError> {
    match memory.kind() {
        Allocation::Managed => return Err(MemoryPathError::Managed),
        Allocation::Create { rdma: false, .. } => return Err(MemoryPathError::NotCapable),
        Allocation::Create { rdma: true, .. } | Allocation::Malloc | Allocation::Pool { .. } => {}
    }
    let traits = pointer::describe(memory.device_address())?;
    match traits.kind {
        MemoryKind::Device => {}
        MemoryKind::Managed => return Err(MemoryPathError::Managed),
        _ => return Err(MemoryPathError::NotDevice),
    }
    // Pool memory can be exported whatever this attribute says.
    match traits.rdma_capable {
        Some(false) if !traits.mempool => Err(MemoryPathError::NotCapable),
        _ => Ok(()),
    }
}
