//! All memory operations: writes, waits, and order of a batch.

use gpu::{Allocation, Compare, DeviceMemory, Error, Gpu, Kind, MemOp, Stream, Word};

use crate::{MOMENT, TIMEOUT, sim};

/// Checks that a stream waits for `value` on a word that is `before`, until it is `after`.
struct Case {
    compare: Compare,
    value: u64,
    before: u64,
    after: u64,
}

const fn case(compare: Compare, value: u64, before: u64, after: u64) -> Case {
    Case { compare, value, before, after }
}

#[test]
fn wait_32_bits() {
    for case in [
        case(Compare::Geq, 5, 4, 5),
        case(Compare::Geq, 5, 4, 1000),
        // The counter wraps: 3 is 4 after 0xffffffff, 0xfffffffe is 1 before.
        case(Compare::Geq, 0xffff_ffff, 0xffff_fffe, 3),
        // 0x80000004 is 0x7fffffff after 5, the furthest that counts as after.
        case(Compare::Geq, 5, 0x8000_0005, 0x8000_0004),
        case(Compare::Eq, 7, 8, 7),
        case(Compare::And, 0x0100_0000, 0xfeff_ffff, 0x0100_0000),
        case(Compare::Nor, 0xfeff_ffff, 0x0100_0000, 0xf000_0000),
    ] {
        let gpu = Gpu::sim();
        let word = gpu.allocate(Allocation::Malloc, 8).unwrap();
        set32(&gpu, &word, case.before as u32);
        let wait = MemOp::wait32(&word, 0, case.value as u32, case.compare).unwrap();
        waits_for(&gpu, wait, || set32(&gpu, &word, case.after as u32));
    }
}

#[test]
fn wait_64_bits() {
    for case in [
        case(Compare::Geq, 1 << 40, (1 << 40) - 1, 1 << 40),
        case(Compare::Geq, u64::MAX, u64::MAX - 1, 0),
        // Equal in 32 bits.
        case(Compare::Eq, (9 << 32) | 5, (8 << 32) | 5, (9 << 32) | 5),
        case(Compare::And, 1 << 63, u64::MAX >> 1, 1 << 63),
        case(Compare::Nor, u64::MAX >> 1, 1 << 63, 0),
    ] {
        let gpu = Gpu::sim();
        let word = gpu.allocate(Allocation::Malloc, 8).unwrap();
        set64(&gpu, &word, case.before);
        let wait = MemOp::wait64(&word, 0, case.value, case.compare).unwrap();
        waits_for(&gpu, wait.flushed(), || set64(&gpu, &word, case.after));
    }
}

#[test]
fn writes_change_one_word() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 32).unwrap();
    stream.fill(&memory, 0, 32, 0xee).unwrap();
    stream
        .batch(&[
            MemOp::write32(&memory, 4, 0x0403_0201).unwrap(),
            MemOp::Barrier,
            MemOp::write64(&memory, 16, 0x0807_0605_0403_0201).unwrap(),
            MemOp::FlushRemoteWrites,
        ])
        .unwrap();
    let mut seen = [0; 32];
    stream.read(&memory, 0, &mut seen).unwrap();
    let mut expected = [0xee; 32];
    expected[4..8].copy_from_slice(&[1, 2, 3, 4]);
    expected[16..24].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(seen, expected);
}

#[test]
fn batch_stops_at_wait() {
    let gpu = Gpu::sim();
    let (stream, other) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    stream.fill(&memory, 0, 64, 0).unwrap();
    stream.synchronize().unwrap();
    stream
        .batch(&[
            MemOp::write32(&memory, 0, 1).unwrap(),
            MemOp::wait32(&memory, 32, 1, Compare::Eq).unwrap(),
            MemOp::write32(&memory, 4, 2).unwrap(),
        ])
        .unwrap();
    let words = || {
        let mut seen = [0; 8];
        other.read(&memory, 0, &mut seen).unwrap();
        seen
    };
    // The first write is visible before the batch is done; the one after the wait is not.
    let first = MemOp::wait32(&memory, 0, 1, Compare::Eq).unwrap();
    other.batch(&[first]).unwrap();
    other.synchronize_within(TIMEOUT).unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(words(), [1, 0, 0, 0, 0, 0, 0, 0]);
    other.batch(&[MemOp::write32(&memory, 32, 1).unwrap()]).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(words(), [1, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn operations_on_host_memory() {
    let (gpu, stream) = sim();
    let host = gpu.pinned(4096).unwrap();
    let wait = MemOp::wait32(&host, 128, 3, Compare::Geq).unwrap();
    let write = MemOp::write64(&host, 256, 77).unwrap();
    stream.batch(&[wait, write]).unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(host.load_u64(256).unwrap(), 0);
    host.store_u32(128, 3).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(host.load_u64(256).unwrap(), 77);
}

#[test]
fn rejects_invalid_words() {
    let gpu = Gpu::sim();
    let memory = gpu.allocate(Allocation::Malloc, 16).unwrap();
    let refused = [
        MemOp::write32(&memory, 16, 0),
        MemOp::write32(&memory, 13, 0),
        MemOp::write32(&memory, 2, 0),
        MemOp::write64(&memory, 4, 0),
        MemOp::wait64(&memory, 12, 0, Compare::Eq),
        MemOp::wait32(&memory, usize::MAX, 0, Compare::Eq),
    ];
    for operation in refused {
        assert_eq!(operation.unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn rejects_invalid_raw_address() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 16).unwrap();
    // SAFETY: the simulated GPU looks up addresses before access.
    let at = unsafe { Word::at(memory.address().offset(16)) };
    let beyond = MemOp::Write32 { at, value: 1 };
    let error = stream.batch(&[beyond]).unwrap_err();
    assert!(matches!(error, Error::MemoryOperations { count: 1, .. }), "{error}");
    // SAFETY: inside `memory`, which stays alive.
    let at = unsafe { Word::at(memory.address().offset(8)) };
    let inside = MemOp::Write32 { at, value: 5 };
    stream.batch(&[inside]).unwrap();
    let mut seen = [0; 4];
    stream.read(&memory, 8, &mut seen).unwrap();
    assert_eq!(u32::from_le_bytes(seen), 5);
}

#[test]
fn rejects_64_bits_on_32_bit_word() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 16).unwrap();
    for at in [8, 12] {
        let at = Word::new(&memory, at, 4).unwrap();
        let error = stream.batch(&[MemOp::Write64 { at, value: 1 }]);
        assert!(matches!(error, Err(Error::Range { .. })), "{error:?}");
    }
    let at = Word::new(&memory, 8, 8).unwrap();
    stream.batch(&[MemOp::Write32 { at, value: 1 }]).unwrap();
}

fn waits_for(gpu: &Gpu, wait: MemOp, release: impl FnOnce()) {
    let stream: Stream = gpu.stream().unwrap();
    stream.batch(std::slice::from_ref(&wait)).unwrap();
    std::thread::sleep(MOMENT);
    assert!(!stream.is_idle().unwrap(), "{wait:?} did not wait");
    release();
    if let Err(error) = stream.synchronize_within(TIMEOUT) {
        panic!("{wait:?} did not end: {error}");
    }
}

fn set32(gpu: &Gpu, word: &DeviceMemory, value: u32) {
    gpu.stream().unwrap().write(word, 0, &value.to_le_bytes()).unwrap();
}

fn set64(gpu: &Gpu, word: &DeviceMemory, value: u64) {
    gpu.stream().unwrap().write(word, 0, &value.to_le_bytes()).unwrap();
}
