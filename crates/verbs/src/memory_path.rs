//! The memory paths by which a NIC reaches GPU memory itself: GPUDirect RDMA by a dma-buf, or by a peer memory client of the kernel.

use std::fmt;
use std::os::fd::AsFd as _;

use gpu::pointer::{self, DmaBufMapping, MemoryKind};
use gpu::{Allocation, DeviceMemory, Memory as _};

use crate::{Access, Error, MemoryRegion, ProtectionDomain};

/// A way by which a NIC reaches GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryPath {
    /// `cuMemGetHandleForAddressRange`, then `ibv_reg_dmabuf_mr`.
    Dmabuf,
    /// `ibv_reg_mr` of the GPU's address, which a module in the kernel (nvidia-peermem) resolves.
    Peermem,
}

impl MemoryPath {
    /// In the order in which NCCL and UCX try them.
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

/// Why a memory path does not lead to some memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryPathError {
    /// Managed memory moves: what a NIC would be given are the pages where it is now, silently of the host.
    #[error(
        "managed memory moves between host and GPU: what is registered may be its pages of the host"
    )]
    Managed,
    /// It was made for no third party.
    #[error("the memory was made without gpuDirectRDMACapable (cuMemCreate)")]
    NotCapable,
    /// Another sort of memory than a GPU's.
    #[error("CUDA does not call it a GPU's memory")]
    NotDevice,
    /// CUDA does not tell what it is, or gives no dma-buf of it.
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
    /// The NIC does not register it.
    #[error(transparent)]
    Verbs(#[from] Error),
}

impl MemoryPathError {
    /// The error number of the registration, where it came so far.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Verbs(error) => error.errno(),
            _ => None,
        }
    }
}

impl ProtectionDomain {
    /// Registers GPU memory by one memory path. The memory's traits are looked at first: some memory is registered without an error,
    /// and what a NIC reaches then is something else.
    ///
    /// A dma-buf is asked for with the mapping over PCI Express, where the driver knows that (CUDA 12.8), else as the driver
    /// thinks best. For it, address and length must be multiples of the host's page.
    ///
    /// # Errors
    ///
    /// [`MemoryPathError`]. By [`MemoryPath::Peermem`] EFAULT says that no peer memory client took the address; by [`MemoryPath::Dmabuf`] EOPNOTSUPP
    /// (95) that the NIC's provider, and EPROTONOSUPPORT (93) that the kernel has no such registration.
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

/// Whether a NIC that is given this memory reaches this memory.
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
    // Of pool memory there is a dma-buf, whatever CUDA says here.
    match traits.rdma_capable {
        Some(false) if !traits.mempool => Err(MemoryPathError::NotCapable),
        _ => Ok(()),
    }
}
