//! Two GPUs: peer access, its lifetime, and copies with and without it.

use std::time::Duration;

use gpu::{Allocation, Attribute, DeviceMemory, Error, Gpu, Kind, P2pAttribute, Pattern, Stream};

use crate::TIMEOUT;

const BYTES: usize = 64 << 10;

/// Two GPUs, a stream of the first, and memory of each: the first's zeroed, the second's with the
/// pattern.
fn pair(kind: Allocation) -> (Gpu, Gpu, Stream, DeviceMemory, DeviceMemory) {
    let (near, far) = (Gpu::sim(), Gpu::sim());
    let stream = near.stream().unwrap();
    let (to, from) =
        (near.allocate(Allocation::Malloc, BYTES).unwrap(), far.allocate(kind, BYTES).unwrap());
    stream.fill(&to, 0, BYTES, 0).unwrap();
    stream.synchronize().unwrap();
    let other = far.stream().unwrap();
    other.fill_pattern(&from, 0, BYTES, PATTERN, 0).unwrap();
    other.synchronize().unwrap();
    (near, far, stream, to, from)
}

const PATTERN: Pattern = Pattern::new(3);

fn seen(memory: &DeviceMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    let stream = memory.gpu().stream().unwrap();
    stream.read(memory, 0, &mut bytes).unwrap();
    bytes
}

fn is_refused(outcome: Result<(), Error>, code: u32) -> bool {
    let Err(error @ Error::Peer { .. }) = outcome else {
        return false;
    };
    error.failure().and_then(|failure| failure.result()).map(|result| result.0) == Some(code)
}

#[test]
fn can_access() {
    let (a, b) = (Gpu::sim(), Gpu::sim());
    assert!(a.can_access(&b).unwrap() && b.can_access(&a).unwrap());
    assert!(!a.can_access(&a).unwrap());
    // CUDA_ERROR_INVALID_DEVICE, as documented for cuCtxEnablePeerAccess.
    let error = a.access(&a).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    let number = a.device().ordinal;
    assert_eq!(
        error.to_string(),
        format!("GPU {number} has no access to the memory of GPU {number}")
    );
    let requested = a.device().p2p_attribute(b.device(), P2pAttribute::ACCESS_SUPPORTED);
    assert_eq!(requested.unwrap(), Some(1));
    assert_eq!(a.multiprocessors().unwrap(), 4);
    assert_eq!(a.attribute(Attribute::COMPUTE_MODE).unwrap(), Some(0));
}

#[test]
fn kernels_need_access_copies_do_not() {
    let (near, far, stream, to, from) = pair(Allocation::Malloc);
    for outcome in [
        stream.copy_words(&to, 0, &from, 0, BYTES),
        stream.copy_words(&from, 0, &to, 0, BYTES),
        stream.ping_pong(&to, &from, 1),
        stream.ping(&from, &to, 1),
        stream.fill_pattern(&from, 0, BYTES, PATTERN, 0),
        stream.chase(&from, 0, 1, 0, &to),
    ] {
        assert!(is_refused(outcome, 705), "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED");
    }
    // The other direction needs separate access.
    let back = far.access(&near).unwrap();
    assert!(is_refused(stream.copy_words(&to, 0, &from, 0, BYTES), 705));
    drop(back);
    stream.copy(&to, 0, &from, 0, BYTES).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(PATTERN.first_difference(&seen(&to), 0), None);
}

#[test]
fn access_is_counted() {
    let (near, far, stream, to, from) = pair(Allocation::Malloc);
    let first = near.access(&far).unwrap();
    let second = near.access(&far).unwrap();
    let third = second.clone();
    assert!(first.from().is_same(&near) && first.to().is_same(&far));
    for access in [first, second, third] {
        stream.copy_words(&to, 0, &from, 0, BYTES).unwrap();
        stream.synchronize().unwrap();
        drop(access);
    }
    assert!(is_refused(stream.copy_words(&to, 0, &from, 0, BYTES), 705));
    // Once more after disabling.
    let again = near.access(&far).unwrap();
    stream.copy_words(&to, 0, &from, 0, BYTES).unwrap();
    drop(again);
}

#[test]
fn stream_holds_access() {
    let (near, far, stream, to, from) = pair(Allocation::Malloc);
    let (gate, other) = (near.pinned(4).unwrap(), near.stream().unwrap());
    let access = near.access(&far).unwrap();
    stream.hold(&gate, TIMEOUT).unwrap();
    stream.copy_words(&to, 0, &from, 0, BYTES).unwrap();
    drop(access);
    other.copy_words(&to, 0, &from, 0, 16).unwrap();
    other.synchronize().unwrap();
    gate.store_u32(0, 1).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(PATTERN.first_difference(&seen(&to), 0), None);
    assert!(is_refused(other.copy_words(&to, 0, &from, 0, 16), 705));
}

#[test]
fn access_holds_both_gpus() {
    let (near, far) = (Gpu::sim(), Gpu::sim());
    let access = near.access(&far).unwrap();
    drop((near, far));
    let memory = access.to().allocate(Allocation::Malloc, 16).unwrap();
    let stream = access.from().stream().unwrap();
    stream.fill_pattern(&memory, 0, 16, PATTERN, 0).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(PATTERN.first_difference(&seen(&memory), 0), None);
}

#[test]
fn access_covers_cumemalloc_only() {
    let refused = [
        Allocation::Create { exportable: false, rdma: false },
        Allocation::Pool { exportable: false },
    ];
    for kind in refused {
        let (near, far, stream, to, from) = pair(kind);
        let _access = near.access(&far).unwrap();
        let outcome = stream.copy_words(&to, 0, &from, 0, BYTES);
        assert!(is_refused(outcome, 217), "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: {kind}");
        stream.copy(&to, 0, &from, 0, BYTES).unwrap();
    }
    let (_near, _far, stream, to, from) = pair(Allocation::Managed);
    stream.copy_words(&to, 0, &from, 0, BYTES).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(PATTERN.first_difference(&seen(&to), 0), None);
}

#[test]
fn push_to_and_pull_from_peer() {
    let (near, far, stream, to, from) = pair(Allocation::Malloc);
    let _access = near.access(&far).unwrap();
    stream.copy_words(&to, 4096, &from, 8192, 16).unwrap();
    stream.synchronize().unwrap();
    let bytes = seen(&to);
    assert_eq!(PATTERN.first_difference(&bytes[4096..4112], 8192 / 4), None);
    assert!(bytes[..4096].iter().chain(&bytes[4112..]).all(|&byte| byte == 0));

    stream.fill(&to, 0, BYTES, 0x77).unwrap();
    stream.copy_words(&from, 16, &to, 32, BYTES - 32).unwrap();
    stream.synchronize().unwrap();
    let bytes = seen(&from);
    assert_eq!(PATTERN.first_difference(&bytes[..16], 0), None);
    assert!(bytes[16..BYTES - 16].iter().all(|&byte| byte == 0x77));
    assert_eq!(PATTERN.first_difference(&bytes[BYTES - 16..], (BYTES as u64 - 16) / 4), None);
}

#[test]
fn ping_pong_of_two_gpus() {
    let (a, b) = (Gpu::sim(), Gpu::sim());
    let (_there, _back) = (a.access(&b).unwrap(), b.access(&a).unwrap());
    let (ours, theirs) =
        (a.allocate(Allocation::Malloc, 4).unwrap(), b.allocate(Allocation::Malloc, 4).unwrap());
    let (left, right) = (a.stream().unwrap(), b.stream().unwrap());
    let reset = || {
        left.write(&ours, 0, &[0; 4]).unwrap();
        right.write(&theirs, 0, &[0; 4]).unwrap();
    };
    let word = |memory: &DeviceMemory| u32::from_le_bytes(seen(memory).try_into().unwrap());
    reset();
    right.ping_pong(&theirs, &ours, 30).unwrap();
    left.ping(&ours, &theirs, 30).unwrap();
    left.synchronize_within(TIMEOUT).unwrap();
    right.synchronize_within(TIMEOUT).unwrap();
    assert_eq!((word(&ours), word(&theirs)), (30, 30));

    // One side stops earlier: the other continues until it is stopped, and reports it.
    reset();
    right.ping_pong(&theirs, &ours, 5).unwrap();
    left.ping(&ours, &theirs, 6).unwrap();
    right.synchronize_within(TIMEOUT).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert!(!left.is_idle().unwrap());
    right.copy(&ours, 0, &ours, 0, 0).unwrap();
    right.write(&ours, 0, &[0xff; 4]).unwrap();
    left.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(word(&theirs), u32::MAX);
}
