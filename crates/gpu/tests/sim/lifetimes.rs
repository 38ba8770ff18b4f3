//! Lifetimes and shutdown.

use std::time::{Duration, Instant};

use gpu::sim::is_live;
use gpu::{Allocation, Compare, Error, Gpu, Kind, MemOp};

use crate::{MOMENT, TIMEOUT, sim};

#[test]
fn dropped_stream_abandons_wait() {
    let (gpu, stream) = sim();
    let other = gpu.stream().unwrap();
    let word = gpu.pinned(8).unwrap();
    let (event, after) = (gpu.event().unwrap(), gpu.event().unwrap());
    stream.batch(&[MemOp::wait32(&word, 0, 1, Compare::Eq).unwrap()]).unwrap();
    stream.batch(&[MemOp::write32(&word, 4, 1).unwrap()]).unwrap();
    stream.record(&event).unwrap();
    other.wait(&event).unwrap();
    other.record(&after).unwrap();

    let start = Instant::now();
    let error = stream.close().unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(matches!(error, Error::Abandoned(_)));
    assert!(error.to_string().contains("Eq 0x1; it is 0x0"), "{error}");
    // Dependent work ends too, and nothing after the wait ran.
    assert!(event.synchronize().unwrap_err().to_string().contains("dropped"));
    assert!(matches!(after.synchronize().unwrap_err(), Error::Abandoned(_)));
    assert!(matches!(other.synchronize().unwrap_err(), Error::Abandoned(_)));
    assert!(matches!(other.record(&after).unwrap_err(), Error::Abandoned(_)));
    assert_eq!(word.load_u32(4).unwrap(), 0);
}

#[test]
fn dropped_stream_finishes_possible_work() {
    let gpu = Gpu::sim();
    let (stream, other) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let word = gpu.pinned(8).unwrap();
    stream.batch(&[MemOp::wait32(&word, 0, 1, Compare::Eq).unwrap()]).unwrap();
    stream.batch(&[MemOp::write32(&word, 4, 7).unwrap()]).unwrap();
    // The release is in progress when the stream is dropped.
    other.batch(&[MemOp::write32(&word, 0, 1).unwrap()]).unwrap();
    stream.close().unwrap();
    assert_eq!(word.load_u32(4).unwrap(), 7);
}

#[test]
fn dropping_everything_does_not_hang() {
    let start = Instant::now();
    let gpu = Gpu::sim();
    let word = gpu.allocate(Allocation::Malloc, 4).unwrap();
    let streams: Vec<_> = (0..8).map(|_| gpu.stream().unwrap()).collect();
    for stream in &streams {
        stream.batch(&[MemOp::wait32(&word, 0, 1, Compare::Eq).unwrap()]).unwrap();
    }
    let reply = gpu.pinned(4).unwrap();
    streams[0].ping_pong(&word, &reply, 3).unwrap();
    drop((streams, word, reply, gpu));
    assert!(start.elapsed() < TIMEOUT);
}

#[test]
fn stream_holds_memory() {
    let (gpu, stream) = sim();
    let gate = gpu.pinned(4).unwrap();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    let number = gpu::sim::locate(memory.address()).unwrap().buffer_id;
    stream.batch(&[MemOp::wait32(&gate, 0, 1, Compare::Eq).unwrap()]).unwrap();
    stream.fill(&memory, 0, 64, 1).unwrap();
    assert_eq!(memory.holders(), 2);
    drop(memory);
    assert!(is_live(number), "held by the stream");
    gate.store_u32(0, 1).unwrap();
    stream.synchronize().unwrap();
    assert!(!is_live(number));
}

#[test]
fn free_fails_while_in_use() {
    let gpu = Gpu::sim();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    let clone = memory.clone();
    let error = memory.free().unwrap_err();
    assert!(matches!(error, Error::Held { holders: 1, .. }), "{error}");
    assert_eq!(error.kind(), Kind::Busy);
    clone.free().unwrap();
}

#[test]
fn slice_requires_only_holder() {
    let (gpu, stream) = sim();
    let mut host = gpu.pinned(64).unwrap();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    host.as_mut_slice().unwrap().fill(9);
    stream.upload(&memory, 0, &host, 0, 64).unwrap();
    assert!(matches!(host.as_mut_slice().unwrap_err(), Error::InUse));
    stream.synchronize().unwrap();
    assert_eq!(host.as_mut_slice().unwrap(), [9; 64]);
}

#[test]
fn objects_hold_gpu() {
    let gpu = Gpu::sim();
    let memory = gpu.allocate(Allocation::Malloc, 16).unwrap();
    let stream = gpu.stream().unwrap();
    drop(gpu);
    stream.write(&memory, 0, &[5; 16]).unwrap();
    let mut seen = [0; 16];
    stream.read(&memory, 0, &mut seen).unwrap();
    assert_eq!(seen, [5; 16]);
}

#[test]
fn simulated_gpus_are_separate() {
    let (a, b) = (Gpu::sim(), Gpu::sim());
    assert!(a.is_sim() && !a.is_same(&b) && a.is_same(&a.clone()));
    assert_ne!(a.device().ordinal, b.device().ordinal);
    let (stream, event) = (a.stream().unwrap(), b.event().unwrap());
    assert!(matches!(stream.record(&event).unwrap_err(), Error::Foreign(_)));
    // CUDA allows waits across GPUs.
    let other = b.stream().unwrap();
    let gate = b.pinned(4).unwrap();
    other.batch(&[MemOp::wait32(&gate, 0, 1, Compare::Eq).unwrap()]).unwrap();
    other.record(&event).unwrap();
    stream.wait(&event).unwrap();
    std::thread::sleep(MOMENT);
    assert!(!stream.is_idle().unwrap());
    gate.store_u32(0, 1).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
}
