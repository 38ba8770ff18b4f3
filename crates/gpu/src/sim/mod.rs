//! Simulated GPU: memory, streams, events, memory operations and kernels with the semantics of real
//! ones, but not their speed. For tests, examples and `--sim`; never used as an automatic fallback.
//!
//! Device memory is in anonymous files (`memfd`), so that a simulated mapping can map it again:
//! [`locate`] returns file and offset. Its device addresses are reserved and inaccessible, so CPU
//! accesses fault. As in CUDA, allocations up to 1 MiB share 2 MiB blocks, aligned to 512 bytes;
//! larger ones have their own blocks.
//!
//! Simulated GPUs of one process can access one another's memory.
//!
//! [`execution`] runs the work: each stream is a thread that runs its own in order. A dropped
//! stream abandons an unsatisfied wait after 100 ms; dependent work fails with
//! [`Error::Abandoned`](crate::Error::Abandoned).
//!
//! A [faulty](Faults) simulated GPU corrupts copies, to test their verification.
//!
//! ```
//! use gpu::{Allocation, Gpu, sim};
//! use std::os::unix::fs::FileExt as _;
//!
//! let gpu = Gpu::sim();
//! let memory = gpu.allocate(Allocation::Malloc, 512)?;
//! gpu.stream()?.write(&memory, 8, b"seen from outside")?;
//! let place = sim::locate(memory.address().offset(8)).ok_or("no such memory")?;
//! let file = std::fs::File::from(place.file.try_clone()?);
//! let mut seen = [0; 4];
//! file.read_exact_at(&mut seen, place.offset)?;
//! assert_eq!(&seen, b"seen");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod execution;
mod found;
mod machine;
mod space;

use gdr_sys::cuda::{DeviceAttribute, P2pAttribute};

pub use execution::{Fault, Faults};
pub(crate) use machine::SimGpu;
pub use space::{Location, host_address, is_live, locate};

/// Attributes of the simulated GPU relevant to GPUDirect, consistent with the simulation.
pub(crate) fn attribute(attribute: DeviceAttribute) -> Option<i32> {
    match attribute {
        DeviceAttribute::UNIFIED_ADDRESSING
        | DeviceAttribute::CAN_MAP_HOST_MEMORY
        | DeviceAttribute::HOST_REGISTER_SUPPORTED
        | DeviceAttribute::MANAGED_MEMORY
        | DeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | DeviceAttribute::MEMORY_POOLS_SUPPORTED
        | DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS
        | DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR
        | DeviceAttribute::CAN_FLUSH_REMOTE_WRITES
        | DeviceAttribute::GPU_DIRECT_RDMA_SUPPORTED
        | DeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED => Some(1),
        // Few, so that a test that visits all of them is fast.
        DeviceAttribute::MULTIPROCESSOR_COUNT => Some(4),
        // 200: all devices see the writes in order.
        DeviceAttribute::GPU_DIRECT_RDMA_WRITES_ORDERING => Some(200),
        // Unsupported: dma-buf, file descriptors, multicast and the other boolean attributes.
        DeviceAttribute::INTEGRATED
        | DeviceAttribute::ECC_ENABLED
        | DeviceAttribute::COMPUTE_MODE
        | DeviceAttribute::DMA_BUF_SUPPORTED
        | DeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        | DeviceAttribute::HANDLE_TYPE_FABRIC_SUPPORTED
        | DeviceAttribute::MULTICAST_SUPPORTED
        | DeviceAttribute::MPS_ENABLED => Some(0),
        _ => None,
    }
}

/// Attributes of a pair of simulated GPUs, which are all alike.
pub(crate) fn p2p_attribute(attribute: P2pAttribute) -> Option<i32> {
    match attribute {
        P2pAttribute::ACCESS_SUPPORTED | P2pAttribute::NATIVE_ATOMIC_SUPPORTED => Some(1),
        P2pAttribute::PERFORMANCE_RANK | P2pAttribute::CUDA_ARRAY_ACCESS_SUPPORTED => Some(0),
        _ => None,
    }
}
