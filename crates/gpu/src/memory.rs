//! Device memory.

use std::fmt;

/// What sort of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// `cuMemAlloc`: what `cudaMalloc` gives; small ones share 2 MiB blocks.
    Malloc,
    /// `cuMemCreate`, mapped at an address of its own.
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
            Self::Create { exportable: false, .. } => "cuMemCreate",
            Self::Create { exportable: true, .. } => "cuMemCreate, exportable",
            Self::Pool { exportable: false } => "cuMemAllocAsync",
            Self::Pool { exportable: true } => "cuMemAllocAsync, exportable pool",
            Self::Managed => "cuMemAllocManaged",
        })
    }
}
