//! The CUDA side against a simulated driver: contexts and capture modes of calls, cleanup, and
//! errors.

// Helpers unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "build.rs"]
mod build;
mod peers;

use std::error::Error as _;
use std::time::{Duration, Instant};

use build::{Count, fake};
use gpu::{Allocation, Attribute, DevicePtr, Error, Gpu, Kind, MemOp, Schedule, devices, pointer};

#[test]
fn devices_need_no_context() {
    let fake = fake(false);
    let contexts = fake.count(Count::PrimaryContexts);
    let found = devices().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name, "Fake GPU");
    // From the v2 function, which distinguishes MIG instances.
    assert_eq!(found[0].uuid, "GPU-22222222-2222-2222-2222-222222222222");
    assert_eq!(found[0].pci.unwrap().to_string(), "0000:3b:00.0");
    assert_eq!(found[0].memory, 16 << 30);
    assert_eq!(found[0].attribute(Attribute::DMA_BUF_SUPPORTED).unwrap(), Some(1240));
    assert_eq!(found[0].attribute(Attribute(5000)).unwrap(), None);
    assert_eq!(gpu::driver_version().unwrap(), 11_040);
    assert_eq!(fake.count(Count::PrimaryContexts), contexts);
}

#[test]
fn sets_how_threads_wait() {
    let fake = fake(false);
    let contexts = fake.count(Count::PrimaryContexts);
    // CU_CTX_SCHED_SPIN, YIELD and BLOCKING_SYNC of cuda.h.
    for (schedule, flags) in [
        (Schedule::Spin, 1),
        (Schedule::Yield, 2),
        (Schedule::Blocking, 4),
        // Keeps what is set.
        (Schedule::Auto, 4),
    ] {
        let gpu = Gpu::open_with(0, schedule).unwrap();
        assert_eq!(fake.count(Count::ContextFlags), flags, "{schedule:?}");
        drop(gpu);
    }
    fake.fail("cuDevicePrimaryCtxSetFlags_v2", 1);
    let error = Gpu::open_with(0, Schedule::Spin).unwrap_err();
    assert!(matches!(error, Error::Schedule { ordinal: 0, .. }), "{error:?}");
    assert_eq!(fake.count(Count::PrimaryContexts), contexts);
}

#[test]
fn context_is_retained_and_popped() {
    let fake = fake(false);
    let counts = || (fake.count(Count::PrimaryContexts), fake.count(Count::Allocations));
    let before = counts();
    let gpu = Gpu::open(0).unwrap();
    assert_eq!(counts(), (before.0 + 1, before.1));
    let memory = gpu.allocate(Allocation::Malloc, 100).unwrap();
    assert_eq!(fake.count(Count::CaptureModeOfAllocation), 2, "relaxed during the call");
    assert_eq!(fake.count(Count::CaptureModeHere), 0, "restored after the call");
    let stream = gpu.stream().unwrap();
    stream.write(&memory, 1, b"abc").unwrap();
    let mut seen = [0; 3];
    stream.read(&memory, 1, &mut seen).unwrap();
    assert_eq!(&seen, b"abc");
    assert_eq!(fake.count(Count::ContextsHere), 0);
    drop((gpu, stream));
    assert_eq!(counts(), (before.0 + 1, before.1 + 1), "held by the memory");
    memory.free().unwrap();
    assert_eq!(counts(), before);
}

#[test]
fn errors_keep_code_and_kind() {
    let fake = fake(false);
    let gpu = Gpu::open(0).unwrap();
    for (code, kind, words) in [
        (2, Kind::OutOfMemory, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"),
        (800, Kind::Denied, "cuMemAlloc: CUDA_ERROR_NOT_PERMITTED (800)"),
        (4711, Kind::Broken, "cuMemAlloc: CUDA error 4711"),
    ] {
        fake.fail("cuMemAlloc_v2", code);
        let error = gpu.allocate(Allocation::Malloc, 64).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string(), "cannot allocate 64 bytes of device memory (cuMemAlloc)");
        assert_eq!(error.source().unwrap().to_string(), words);
        assert_eq!(fake.count(Count::ContextsHere), 0);
        assert_eq!(fake.count(Count::CaptureModeHere), 0);
    }
    fake.fail("cuMemAlloc_v2", 0);
    assert!(matches!(Gpu::open(1).unwrap_err(), Error::Device { ordinal: 1, .. }));
    assert_eq!(Gpu::open(u32::MAX).unwrap_err().kind(), Kind::Invalid);
    drop(gpu);

    fake.fail("cuInit", 100);
    assert_eq!(devices().unwrap_err().kind(), Kind::Absent, "no GPU");
    fake.fail("cuInit", 803);
    let error = devices().unwrap_err();
    assert_eq!(
        error.source().unwrap().to_string(),
        "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"
    );
    fake.fail("cuInit", 0);
}

#[test]
fn long_batches_are_split() {
    let fake = fake(false);
    let gpu = Gpu::open(0).unwrap();
    let stream = gpu.stream().unwrap();
    let memory = gpu.allocate(Allocation::Malloc, 4 * 600).unwrap();
    let before = fake.count(Count::Operations);
    let batch: Vec<_> = (0..600_u32)
        .map(|word| MemOp::write32(&memory, 4 * word as usize, word + 1).unwrap())
        .collect();
    stream.batch(&batch).unwrap();
    assert_eq!(fake.count(Count::Operations) - before, 600);
    let mut seen = vec![0; 2400];
    stream.read(&memory, 0, &mut seen).unwrap();
    let last = u32::from_le_bytes([seen[2396], seen[2397], seen[2398], seen[2399]]);
    assert_eq!(last, 600);
    stream.batch(&[]).unwrap();
}

#[test]
fn stuck_stream_keeps_memory() {
    let fake = fake(false);
    let allocations = fake.count(Count::Allocations);
    let contexts = fake.count(Count::PrimaryContexts);
    let gpu = Gpu::open(0).unwrap();
    let stream = gpu.stream().unwrap();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    stream.batch(&[MemOp::write32(&memory, 0, 1).unwrap()]).unwrap();
    fake.busy(true);
    assert!(!stream.is_idle().unwrap());
    let start = Instant::now();
    let error = stream.synchronize_within(Duration::from_millis(10)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
    drop(memory);
    let error = stream.close().unwrap_err();
    fake.busy(false);
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));
    drop(gpu);
    assert_eq!(fake.count(Count::Allocations) - allocations, 1, "not freed under a running stream");
    assert_eq!(fake.count(Count::PrimaryContexts) - contexts, 1, "context kept");
}

#[test]
fn pointer_queries_use_own_context() {
    let fake = fake(false);
    let gpu = Gpu::open(0).unwrap();
    let contexts = fake.count(Count::PrimaryContexts);
    let memory = gpu.allocate(Allocation::Malloc, 4096).unwrap();
    let inside = memory.address().offset(4000);
    let found = pointer::describe(inside).unwrap();
    assert_eq!((found.base, found.size), (memory.address(), 4096));
    assert_eq!(found.kind, pointer::MemoryKind::Device);
    assert_eq!(found.buffer_id, memory.address().get() ^ 0xff);
    assert!(found.ipc_capable && found.has_context && !found.mempool);
    assert_eq!(found.rdma_capable, None, "unknown attribute");

    assert_eq!(pointer::ipc_handle(inside).unwrap(), [7; 64]);
    gpu.stream().unwrap().write(&memory, 4000, b"read me").unwrap();
    let mut seen = [0; 7];
    pointer::read(inside, &mut seen).unwrap();
    assert_eq!(&seen, b"read me");
    assert_eq!(fake.count(Count::ContextsHere), 0);
    assert_eq!(fake.count(Count::CaptureModeHere), 0);
    assert_eq!(fake.count(Count::PrimaryContexts), contexts, "only the GPU's own");

    let beyond = pointer::describe(DevicePtr::new(64)).unwrap_err();
    assert!(pointer::is_unknown(&beyond));
    assert_eq!(beyond.kind(), Kind::Invalid);
    fake.fail("cuIpcGetMemHandle", 1);
    assert!(matches!(pointer::ipc_handle(inside).unwrap_err(), Error::IpcHandle { .. }));
    fake.fail("cuIpcGetMemHandle", 0);
    for missing in [
        pointer::export_fd(inside).map(drop),
        pointer::retain_handle(inside).map(drop),
        pointer::dmabuf(memory.address(), 4096, pointer::DmaBufMapping::Default).map(drop),
    ] {
        assert_eq!(missing.unwrap_err().kind(), Kind::Unsupported);
    }
}
