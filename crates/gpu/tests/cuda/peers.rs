//! Two GPUs, and kernel launches.

use std::time::Duration;

use gpu::{Allocation, Error, Gpu, Kind, Pattern, Shape};

use crate::build::{Count, Fake, fake};

/// Two GPUs of the simulated driver, while the result lives.
fn two() -> (Fake, Gpu, Gpu) {
    let fake = fake(false);
    fake.devices(2);
    let (near, far) = (Gpu::open(0).unwrap(), Gpu::open(1).unwrap());
    (fake, near, far)
}

#[test]
fn access_ends_with_last_holder() {
    let (fake, near, far) = two();
    let contexts = fake.count(Count::PrimaryContexts);
    assert!(near.can_access(&far).unwrap() && !near.can_access(&near).unwrap());
    let first = near.access(&far).unwrap();
    // The same GPU opened again has the same context.
    let again = Gpu::open(0).unwrap();
    let second = again.access(&far).unwrap();
    assert_eq!(fake.count(Count::Peers), 1);
    let back = far.access(&near).unwrap();
    assert_eq!(fake.count(Count::Peers), 2);
    drop((first, back));
    assert_eq!(fake.count(Count::Peers), 1, "still held");
    drop((near, far, again));
    assert_eq!(fake.count(Count::PrimaryContexts), contexts, "both contexts are held");
    assert_eq!(fake.count(Count::ContextsHere), 0);
    drop(second);
    assert_eq!((fake.count(Count::Peers), fake.count(Count::PrimaryContexts)), (0, contexts - 2));
}

#[test]
fn current_context_is_restored() {
    let (fake, near, far) = two();
    assert!(gpu::foreign::current_device().is_err(), "none is current");
    // Calls on another GPU do not change it.
    let inside = far.with_current(|| {
        let _memory = near.allocate(Allocation::Malloc, 64).unwrap();
        assert!(gpu::foreign::current_device().is_ok());
        fake.count(Count::ContextsHere)
    });
    assert_eq!(inside.unwrap(), 1);
    assert_eq!(fake.count(Count::ContextsHere), 0);
}

#[test]
fn foreign_access_stays_on() {
    let (fake, near, far) = two();
    fake.peer(0, 1, true);
    // The driver returns PEER_ACCESS_ALREADY_ENABLED.
    let (first, second) = (near.access(&far).unwrap(), near.access(&far).unwrap());
    let memory = far.allocate(Allocation::Malloc, 64).unwrap();
    near.stream().unwrap().copy_words(&memory, 0, &memory, 32, 16).unwrap();
    drop((first, second));
    assert_eq!(fake.count(Count::Peers), 1);
    // From now on it is ours.
    fake.peer(0, 1, false);
    drop(near.access(&far).unwrap());
    assert_eq!(fake.count(Count::Peers), 0);
    fake.launches();
}

#[test]
fn failed_access_leaves_nothing() {
    let (fake, near, far) = two();
    for (code, kind, words) in [
        (217, Kind::Unsupported, "cuCtxEnablePeerAccess: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)"),
        (711, Kind::Busy, "cuCtxEnablePeerAccess: CUDA_ERROR_TOO_MANY_PEERS (711)"),
    ] {
        fake.fail("cuCtxEnablePeerAccess", code);
        let error = near.access(&far).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(matches!(error, Error::Peer { from: 0, to: 1, .. }));
        assert_eq!(error.failure().unwrap().to_string(), words);
        assert_eq!(fake.count(Count::ContextsHere), 0);
    }
    fake.fail("cuCtxEnablePeerAccess", 0);
    fake.fail("cuDeviceCanAccessPeer", 101);
    assert!(matches!(near.can_access(&far).unwrap_err(), Error::Peer { from: 0, to: 1, .. }));
    fake.fail("cuDeviceCanAccessPeer", 0);
    // A real GPU and a simulated one cannot access each other.
    let sim = Gpu::sim();
    assert!(!near.can_access(&sim).unwrap() && !sim.can_access(&near).unwrap());
    assert_eq!(near.access(&sim).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(sim.access(&near).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(fake.count(Count::Peers), 0);
    drop(near.access(&far).unwrap());
    assert_eq!(fake.count(Count::Peers), 0);
}

#[test]
fn peer_copy_names_both_contexts() {
    let (fake, near, far) = two();
    let (a, b) = (
        near.allocate(Allocation::Malloc, 64).unwrap(),
        far.allocate(Allocation::Malloc, 64).unwrap(),
    );
    let stream = near.stream().unwrap();
    stream.write(&a, 0, b"between two GPUs").unwrap();
    stream.copy(&b, 8, &a, 0, 16).unwrap();
    assert_eq!((fake.count(Count::CopiedTo), fake.count(Count::CopiedFrom)), (1, 0));
    stream.copy(&a, 32, &b, 8, 16).unwrap();
    assert_eq!((fake.count(Count::CopiedTo), fake.count(Count::CopiedFrom)), (0, 1));
    let mut seen = [0; 16];
    stream.read(&a, 32, &mut seen).unwrap();
    assert_eq!(&seen, b"between two GPUs");

    fake.fail("cuMemcpyPeerAsync", 1);
    let error = stream.copy(&a, 0, &b, 0, 16).unwrap_err();
    assert!(matches!(error, Error::Copy { bytes: 16, .. }), "{error}");
    // Not needed within one GPU, even if opened twice.
    let again = Gpu::open(0).unwrap();
    let other = again.allocate(Allocation::Malloc, 64).unwrap();
    stream.copy(&other, 0, &a, 32, 16).unwrap();
    stream.copy(&a, 0, &a, 32, 16).unwrap();
    fake.fail("cuMemcpyPeerAsync", 0);
}

#[test]
fn launch_parameters() {
    let (fake, near, far) = two();
    fake.launches();
    let memory = near.allocate(Allocation::Malloc, 1 << 20).unwrap();
    let (host, there) = (near.pinned(64).unwrap(), far.allocate(Allocation::Malloc, 64).unwrap());
    let (at, pinned) = (memory.address().get(), host.device_address().get());
    let stream = near.stream().unwrap();

    assert!(matches!(
        stream.copy_words(&memory, 0, &there, 0, 16).unwrap_err(),
        Error::Peer { from: 0, to: 1, .. }
    ));
    assert!(fake.launches().is_empty());
    let _access = near.access(&far).unwrap();

    // 160 multiprocessors: this driver returns ten times the attribute's number.
    assert_eq!(near.multiprocessors().unwrap(), 160);
    stream.copy_words(&memory, 16, &there, 32, 16).unwrap();
    stream.copy_words(&memory, 0, &memory, 512 << 10, 512 << 10).unwrap();
    stream.copy_words(&host, 0, &memory, 0, 0).unwrap();
    stream.chase(&memory, 24, 100, 159, &memory).unwrap();
    assert!(matches!(
        stream.chase(&memory, 24, 100, 160, &memory).unwrap_err(),
        Error::Block { block: 160, multiprocessors: 160 }
    ));
    stream.hold(&host, Duration::from_micros(3)).unwrap();
    stream.ping(&memory, &there, 7).unwrap();
    stream.ping_pong(&there, &host, 8).unwrap();
    let shape = Shape { blocks: 3, threads: 96, rounds: 9 };
    stream.ping_pong_data(&memory, &host, &there, shape).unwrap();
    stream.ping_data(&there, &memory, &host, shape).unwrap();
    stream.fill_pattern(&memory, 0, 64, Pattern::new(0), 5).unwrap();
    let found = stream.check_pattern(&memory, 0, 64, Pattern::new(0), 5).unwrap();
    // Nothing ran, so the result is still reset: no mismatch.
    assert_eq!((found.words, found.first), (0, None));

    let far_at = there.address().get();
    let launches = fake.launches();
    let ten_seconds = 10_000_000_000_u64;
    let expected = [
        format!("copy_words 1x512: {:#x} {:#x} 0x1", at + 16, far_at + 32),
        // 32768 vectors are 64 blocks of 512.
        format!("copy_words 64x512: {at:#x} {:#x} 0x8000", at + (512 << 10)),
        format!("chase 160x1: {at:#x} 0x18 0x64 0x9f {at:#x} {:#x}", (1 << 20) - 8),
        format!("hold 1x1: {pinned:#x} 0xbb8"),
        format!("ping 1x1: {at:#x} {far_at:#x} 0x7 {ten_seconds:#x}"),
        format!("ping_pong 1x1: {far_at:#x} {pinned:#x} 0x8 {ten_seconds:#x}"),
        format!("ping_pong_data 3x96: {at:#x} {pinned:#x} 0x9 {ten_seconds:#x} {far_at:#x} 0x10"),
        format!("ping_data 3x96: {far_at:#x} {at:#x} 0x9 {ten_seconds:#x} {pinned:#x} 0x10"),
        format!("fill_pattern 1x256: {at:#x} 0x10 0x0 0x5"),
    ];
    assert_eq!(launches[..expected.len()], expected);
    assert_eq!(launches.len(), expected.len() + 1);
    assert!(
        launches[expected.len()]
            .starts_with(&format!("check_pattern 1x256: {at:#x} 0x10 0x0 0x5 0x"))
    );
}

#[test]
fn pageable_memory_needs_no_driver() {
    let (fake, near, _far) = two();
    fake.fail("cuMemHostRegister_v2", 800);
    let host = near.pageable(4096).unwrap();
    let memory = near.allocate(Allocation::Malloc, 64).unwrap();
    let stream = near.stream().unwrap();
    host.write(0, b"pages").unwrap();
    stream.upload(&memory, 0, &host, 0, 5).unwrap();
    stream.download(&host, 100, &memory, 0, 5).unwrap();
    stream.synchronize().unwrap();
    let mut seen = [0; 5];
    host.read(100, &mut seen).unwrap();
    assert_eq!(&seen, b"pages");
    assert!(matches!(stream.copy_words(&memory, 0, &host, 0, 16).unwrap_err(), Error::Pageable));
    fake.fail("cuMemHostRegister_v2", 0);
}
