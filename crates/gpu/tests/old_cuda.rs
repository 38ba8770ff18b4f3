//! The CUDA side against a simulated driver without newer functions: missing ones are unsupported,
//! without a panic.

// Helpers unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "cuda/build.rs"]
#[allow(dead_code, reason = "used by other tests")]
mod build;

use std::error::Error as _;

use build::{Count, fake};
use gpu::{Allocation, Gpu, Kind, MemOp, devices, pointer};

#[test]
fn existing_functions_work() {
    let fake = fake(true);
    assert_eq!(devices().unwrap()[0].uuid, "GPU-11111111-1111-1111-1111-111111111111");
    let gpu = Gpu::open(0).unwrap();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    let stream = gpu.stream().unwrap();
    stream.write(&memory, 0, b"old").unwrap();
    let mut seen = [0; 3];
    pointer::read(memory.address(), &mut seen).unwrap();
    assert_eq!(&seen, b"old");
    drop((memory, stream, gpu));
    assert_eq!((fake.count(Count::PrimaryContexts), fake.count(Count::Allocations)), (0, 0));
}

#[test]
fn missing_functions_are_unsupported() {
    let fake = fake(true);
    let gpu = Gpu::open(0).unwrap();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    let stream = gpu.stream().unwrap();
    let create = Allocation::Create { exportable: true, rdma: true };
    for (error, words) in [
        (gpu.allocate(create, 64).unwrap_err(), "this driver has no cuMemGetAllocationGranularity"),
        (
            gpu.allocate(Allocation::Pool { exportable: false }, 64).unwrap_err(),
            "this driver has no cuDeviceGetDefaultMemPool",
        ),
        (gpu.pinned(64).unwrap_err(), "this driver has no cuMemHostAlloc"),
        (gpu.access(&gpu).unwrap_err(), "this driver has no cuCtxEnablePeerAccess"),
        (gpu.event().unwrap_err(), "this driver has no cuEventCreate"),
        (gpu.load_kernels().unwrap_err(), "this driver has no cuModuleLoadData"),
        (
            gpu.flush_remote_writes(false).unwrap_err(),
            "this driver has no cuFlushGPUDirectRDMAWrites",
        ),
        (stream.fill(&memory, 0, 1, 0).unwrap_err(), "this driver has no cuMemsetD8Async"),
        // The v1 function exists but is disabled.
        (
            stream.batch(&[MemOp::write32(&memory, 0, 1).unwrap()]).unwrap_err(),
            "cuStreamBatchMemOp_v1: CUDA_ERROR_NOT_SUPPORTED (801)",
        ),
    ] {
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert_eq!(error.source().unwrap().to_string(), words);
    }
    assert_eq!(fake.count(Count::ContextsHere), 0);
}
