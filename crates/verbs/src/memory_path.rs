//! GPUDirect RDMA memory paths: dma-buf, or a peer memory client of the kernel.

use std::fmt;
use std::os::fd::AsFd as _;

use gpu::pointer::{self, DmaBufMapping, MemoryKind};
use gpu::{Allocation, DeviceMemory, Memory as _};

use crate::{Access, Error, MemoryRegion, ProtectionDomain};

/// How a NIC accesses GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryPath {
    /// `cuMemGetHandleForAddressRange`, then `ibv_reg_dmabuf_mr`.
    Dmabuf,
    /// `ibv_reg_mr` with the GPU's address, which a kernel module (nvidia-peermem) resolves.
    Peermem,
}

impl MemoryPath {
    /// In the order of NCCL and UCX.
    pub const ALL: [Self; 2] = [Self::Dmabuf, Self::Peermem];
}

impl fmt::Display for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dmabuf => "dmabuf",
            Self::Peermem => "peermem",
        })
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
    /// CUDA does not report its attributes, or does not export a dma-buf.
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
    /// The NIC cannot register it.
    #[error(transparent)]
    Verbs(#[from] Error),
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
}

impl ProtectionDomain {
    /// Registers GPU memory by one memory path. Attributes of the memory are checked first, because some memory registers without an error
    /// although the NIC would access something else.
    ///
    /// A dma-buf is exported with the PCIe mapping if the driver supports it (CUDA 12.8), else with the default mapping. It requires address
    /// and length in multiples of the host's page size.
    ///
    /// # Errors
    ///
    /// [`MemoryPathError`]. With [`MemoryPath::Peermem`] EFAULT means that no peer memory client accepted the address; with
    /// [`MemoryPath::Dmabuf`] EOPNOTSUPP (95) means that the provider, EPROTONOSUPPORT (93) that the kernel does not support it.
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
        match memory_path {
            MemoryPath::Peermem => Ok(self.register_device(memory, access)?),
            MemoryPath::Dmabuf => {
                let (address, bytes) = (memory.device_address(), memory.len());
                let file = match pointer::dmabuf(address, bytes, DmaBufMapping::Pcie) {
                    Ok(file) => file,
                    Err(_) => pointer::dmabuf(address, bytes, DmaBufMapping::Default)?,
                };
                Ok(self.register_dmabuf(memory, file.as_fd(), 0, access)?)
            }
        }
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
