//! A simulated GPU: memory, streams, events, memory operations and kernels with the semantics of the real ones, and none of the
//! speed. It serves tests, examples and `--sim`; nothing falls back to it by itself.
//!
//! Device memory lies in anonymous files (`memfd`), so that a simulated mapping can map it a second time: [`locate`] says which
//! file and where. Its addresses are reserved and unreadable, so that a device address used as a pointer faults as it should.
//! As CUDA does, allocations up to 1 MiB share 2 MiB blocks at multiples of 512 bytes, and larger ones have blocks of their own.
//!
//! Simulated GPUs of one process can all access one another's memory.
//!
//! The engine is crate `gpu_sim`: a stream is a thread that does its work in order. A stream dropped while it waits for a word or an event that does not come
//! gives up after a tenth of a second; what depended on it ends with [`Error::Abandoned`](crate::Error::Abandoned).
//!
//! A [faulty](Faults) simulated GPU copies wrongly, to try out what verifies copies.
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

mod found;
mod machine;
mod space;

use gdr_sys::cuda::{DeviceAttribute, P2pAttribute};

pub use gpu_sim::{Fault, Faults};
pub(crate) use machine::SimGpu;
pub use space::{Located, is_live, locate};

/// What the simulated GPU answers when asked for an attribute: what bears on GPUDirect, true to what the simulation does.
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
        // One of a handful: a test that goes through them all is to end soon.
        DeviceAttribute::MULTIPROCESSOR_COUNT => Some(4),
        // All devices see the writes in order: 200.
        DeviceAttribute::GPU_DIRECT_RDMA_WRITES_ORDERING => Some(200),
        // No dma-buf, no descriptor, no multicast, and everything else that is a yes or no.
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

/// The same of a pair of simulated GPUs, which are all alike.
pub(crate) fn p2p_attribute(attribute: P2pAttribute) -> Option<i32> {
    match attribute {
        P2pAttribute::ACCESS_SUPPORTED | P2pAttribute::NATIVE_ATOMIC_SUPPORTED => Some(1),
        P2pAttribute::PERFORMANCE_RANK | P2pAttribute::CUDA_ARRAY_ACCESS_SUPPORTED => Some(0),
        _ => None,
    }
}
