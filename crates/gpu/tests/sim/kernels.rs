//! Kernels on one GPU, and host memory without a device address.

use std::time::{Duration, Instant};

use gpu::{Allocation, Compare, Error, Gpu, HostMemory, Kind, MemOp, Pattern, Shape, WRONG_DATA};

use crate::{MOMENT, TIMEOUT, sim};

#[test]
fn copy_words_stays_in_range() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 4096).unwrap();
    for host in [gpu.pinned(4096).unwrap(), gpu.registered(4096).unwrap()] {
        let mut text = [0; 4096];
        Pattern::new(1).fill(&mut text, 0);
        host.write(0, &text).unwrap();
        stream.fill(&memory, 0, 4096, 0xee).unwrap();
        stream.copy_words(&memory, 16, &host, 32, 64).unwrap();
        let mut seen = [0; 4096];
        stream.read(&memory, 0, &mut seen).unwrap();
        assert_eq!(seen[16..80], text[32..96]);
        assert!(seen[..16].iter().chain(&seen[80..]).all(|&byte| byte == 0xee));
        // Back to another offset.
        stream.copy_words(&host, 1024, &memory, 16, 64).unwrap();
        stream.synchronize().unwrap();
        host.read(0, &mut seen).unwrap();
        assert_eq!(seen[1024..1088], text[32..96]);
        assert_eq!(seen[..1024], text[..1024]);
        assert_eq!(seen[1088..], text[1088..]);
    }
    stream.copy_words(&memory, 0, &memory, 2048, 0).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn copy_words_requires_vectors() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 4096).unwrap();
    for (to, from, bytes) in [(8, 0, 16), (0, 4, 16), (0, 2048, 24)] {
        let error = stream.copy_words(&memory, to, &memory, from, bytes).unwrap_err();
        assert!(matches!(error, Error::Misaligned { alignment: 16, .. }), "{error}");
    }
    for (to, from, bytes) in [(4096, 0, 16), (0, 4080, 32), (0, 0, usize::MAX - 15)] {
        let error = stream.copy_words(&memory, to, &memory, from, bytes).unwrap_err();
        assert!(matches!(error, Error::Range { .. }), "{error}");
    }
}

/// Cyclic list of `words` offsets, each of the word `step` further.
fn ring(host: &HostMemory, words: usize, step: usize) {
    for word in 0..words {
        let next = 8 * ((word + step) % words) as u64;
        host.store_u64(8 * word, next).unwrap();
    }
}

#[test]
fn chase_follows_list() {
    let (gpu, stream) = sim();
    let (host, memory) =
        (gpu.pinned(8 * 128).unwrap(), gpu.allocate(Allocation::Malloc, 8 * 128).unwrap());
    let result = gpu.allocate(Allocation::Malloc, 8).unwrap();
    let end = || {
        let mut seen = [0; 8];
        stream.read(&result, 0, &mut seen).unwrap();
        u64::from_le_bytes(seen)
    };
    ring(&host, 100, 7);
    stream.upload(&memory, 0, &host, 0, 800).unwrap();
    stream.synchronize().unwrap();
    for block in 0..4 {
        stream.chase(&memory, 8 * 3, 1000, block, &result).unwrap();
        // 3 + 1000 * 7 = 7003, which is 3 in a cycle of 100.
        assert_eq!(end(), 8 * 3);
    }
    stream.chase(&memory, 8, 0, 0, &result).unwrap();
    assert_eq!(end(), 8);
    ring(&host, 100, 1);
    stream.chase(&host, 0, 42, 0, &result).unwrap();
    assert_eq!(end(), 8 * 42);
}

#[test]
fn chase_detects_invalid_links() {
    let (gpu, stream) = sim();
    let list = gpu.pinned(64).unwrap();
    let result = gpu.allocate(Allocation::Malloc, 16).unwrap();
    for astray in [4, 57, 64, 128, 1 << 32, u64::MAX, u64::MAX - 7] {
        list.store_u64(0, 56).unwrap();
        list.store_u64(56, astray).unwrap();
        let mut seen = [0; 8];
        stream.chase(&list, 0, 1, 0, &result).unwrap();
        stream.read(&result, 0, &mut seen).unwrap();
        assert_eq!(u64::from_le_bytes(seen), 56);
        for hops in [2, 9] {
            stream.chase(&list, 0, hops, 0, &result).unwrap();
            stream.read(&result, 0, &mut seen).unwrap();
            assert_eq!(u64::from_le_bytes(seen), u64::MAX, "{astray:#x}");
        }
    }
    let odd = gpu.pinned(96).unwrap();
    let error = stream.chase(&odd, 0, 1, 0, &result).unwrap_err();
    let words = "invalid list size: 96 bytes; must be a power of two from 8 bytes to 2 GiB";
    assert_eq!((error.to_string().as_str(), error.kind()), (words, Kind::Invalid));
    for (error, kind) in [
        (stream.chase(&list, 57, 1, 0, &result), "range"),
        (stream.chase(&list, 4, 1, 0, &result), "alignment"),
        (stream.chase(&list, 0, 1, 4, &result), "block"),
    ] {
        assert_eq!(error.unwrap_err().kind(), Kind::Invalid, "{kind}");
    }
    let error = stream.chase(&list, 0, 1, 9, &result).unwrap_err();
    let words = "invalid block: 9; the GPU runs 4 blocks, one per multiprocessor";
    assert_eq!(error.to_string(), words);
}

#[test]
fn gate_holds_later_work() {
    let (gpu, stream) = sim();
    let (gate, word) = (gpu.pinned(4).unwrap(), gpu.pinned(4).unwrap());
    stream.hold(&gate, TIMEOUT).unwrap();
    stream.batch(&[MemOp::write32(&word, 0, 1).unwrap()]).unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(word.load_u32(0).unwrap(), 0);
    gate.store_u32(0, 9).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(word.load_u32(0).unwrap(), 1);

    gate.store_u32(0, 0).unwrap();
    let start = Instant::now();
    stream.hold(&gate, MOMENT).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert!(start.elapsed() >= MOMENT, "it waits until its limit");
}

#[test]
fn ping_pong_on_one_gpu() {
    let gpu = Gpu::sim();
    let (left, right) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let (ours, theirs) = (gpu.pinned(4).unwrap(), gpu.pinned(4).unwrap());
    left.ping(&ours, &theirs, 50).unwrap();
    right.ping_pong(&theirs, &ours, 50).unwrap();
    left.synchronize_within(TIMEOUT).unwrap();
    right.synchronize_within(TIMEOUT).unwrap();
    assert_eq!((ours.load_u32(0).unwrap(), theirs.load_u32(0).unwrap()), (50, 50));
    left.ping(&ours, &theirs, 0).unwrap();
    left.synchronize_within(Duration::from_secs(5)).unwrap();
}

#[test]
fn kernel_performs_operations() {
    let (gpu, stream) = sim();
    let words = gpu.pinned(64).unwrap();
    let wait =
        |at, value, compare| MemOp::wait32(&words, at, value, compare).expect("a word in range");
    let operations = [
        wait(0, 5, Compare::Geq),
        MemOp::write32(&words, 4, 7).unwrap(),
        MemOp::Barrier,
        MemOp::write64(&words, 8, 1 << 40).unwrap(),
        wait(16, 3, Compare::Eq),
        wait(20, 6, Compare::And),
        wait(24, !1, Compare::Nor),
        MemOp::write32(&words, 28, 9).unwrap(),
    ];
    words.store_u32(24, u32::MAX).unwrap();
    let loaded = stream.load(&operations, TIMEOUT).unwrap();
    assert!(loaded.late().is_err());
    stream.perform(&loaded).unwrap();
    let seen = |at| words.load_u32(at).unwrap();
    let until = |at: usize, value| {
        while seen(at) != value {
            std::thread::yield_now();
        }
    };
    std::thread::sleep(MOMENT);
    assert_eq!((seen(4), seen(28)), (0, 0));
    words.store_u32(0, 5).unwrap();
    until(12, 1 << 8);
    assert_eq!((seen(4), seen(8)), (7, 0));
    for (at, early, right) in [(16, 4, 3), (20, 1, 2), (24, u32::MAX, !1)] {
        words.store_u32(at, early).unwrap();
        std::thread::sleep(MOMENT);
        assert_eq!(seen(28), 0, "{at}");
        words.store_u32(at, right).unwrap();
    }
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!((seen(28), loaded.late().unwrap()), (9, None));

    // A wait that takes too long ends it.
    words.store_u32(0, 4).unwrap();
    words.store_u32(28, 0).unwrap();
    let late = [MemOp::Barrier, wait(0, 5, Compare::Geq), operations[7].clone()];
    let late = stream.load(&late, MOMENT).unwrap();
    stream.perform(&late).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!((seen(28), late.late().unwrap()), (0, Some(1)));

    let wide = [MemOp::wait64(&words, 0, 1, Compare::Eq).unwrap()];
    let refused = stream.load(&wide, MOMENT);
    assert!(matches!(refused, Err(Error::Range { .. })), "{refused:?}");
}

#[test]
fn pageable_memory() {
    let (gpu, stream) = sim();
    let mut host = gpu.pageable(8192).unwrap();
    assert!(host.is_pageable() && !gpu.pinned(1).unwrap().is_pageable());
    assert_eq!(host.device_address().get(), 0);
    assert_eq!(host.as_mut_slice().unwrap(), [0; 8192]);
    let memory = gpu.allocate(Allocation::Malloc, 8192).unwrap();
    host.write(100, b"pageable").unwrap();
    stream.upload(&memory, 5, &host, 100, 8).unwrap();
    stream.download(&host, 4000, &memory, 5, 8).unwrap();
    stream.synchronize().unwrap();
    let mut seen = [0; 8];
    host.read(4000, &mut seen).unwrap();
    assert_eq!(&seen, b"pageable");

    let refused = [
        stream.copy_words(&memory, 0, &host, 0, 16),
        stream.copy_words(&host, 0, &memory, 0, 16),
        stream.chase(&host, 0, 1, 0, &memory),
        stream.hold(&host, MOMENT),
        stream.ping_pong(&memory, &host, 1),
        stream.ping(&host, &memory, 1),
        MemOp::write32(&host, 0, 1).map(drop),
        MemOp::wait64(&host, 0, 1, Compare::Eq).map(drop),
    ];
    for outcome in refused {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Pageable), "{error}");
        assert_eq!(error.kind(), Kind::Invalid);
    }
    assert!(matches!(gpu.pageable(0).unwrap_err(), Error::Empty));
}

fn words(memory: &HostMemory, count: usize) -> Vec<u32> {
    (0..count).map(|word| memory.load_u32(word * 4).unwrap()).collect()
}

fn wait_for(memory: &HostMemory, expected: &[u32]) {
    let begun = Instant::now();
    while words(memory, expected.len()) != expected {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", words(memory, expected.len()));
        std::thread::yield_now();
    }
}

#[test]
fn ping_pong_data_checks_each_round() {
    let (gpu, stream) = sim();
    let [flags, replies, data] = [8, 8, 36].map(|bytes| gpu.pinned(bytes).unwrap());
    let shape = Shape { blocks: 2, threads: 3, rounds: 4 };
    let set = |memory: &HostMemory, word: u32| {
        let bytes: Vec<u8> =
            std::iter::repeat_n(word.to_le_bytes(), memory.len() / 4).flatten().collect();
        memory.write(0, &bytes).unwrap();
    };
    stream.ping_pong_data(&flags, &replies, &data, shape).unwrap();
    for round in 1..=3 {
        set(&data, [0xa5a5_a5a5, 0x5a5a_5a5a][round as usize % 2]);
        set(&flags, round);
        wait_for(&replies, &[round, round]);
    }
    // The data of round 3, and one word of it right: the other block finds the rest.
    data.write(32, &0xa5a5_a5a5_u32.to_le_bytes()).unwrap();
    set(&flags, 4);
    wait_for(&replies, &[WRONG_DATA; 2]);
    stream.synchronize().unwrap();
}

#[test]
fn ping_data_writes_before_it_replies() {
    let (gpu, stream) = sim();
    let [flags, replies, data] = [8, 8, 36].map(|bytes| gpu.pinned(bytes).unwrap());
    let shape = Shape { blocks: 2, threads: 3, rounds: 3 };
    stream.ping_data(&flags, &replies, &data, shape).unwrap();
    for round in 1..=3_u32 {
        wait_for(&replies, &[round, round]);
        let written = [0xa5a5_a5a5, 0x5a5a_5a5a][round as usize % 2];
        assert_eq!(words(&data, 9), [written; 9]);
        flags.store_u32(0, round).unwrap();
        flags.store_u32(4, round).unwrap();
    }
    stream.synchronize().unwrap();
    stream.ping_data(&flags, &replies, &data, shape).unwrap();
    flags.store_u32(0, u32::MAX).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(words(&replies, 1), [u32::MAX]);
    let error = stream.ping_data(&flags, &replies, &data, Shape { blocks: 3, ..shape });
    assert!(matches!(error, Err(Error::Range { .. })), "{error:?}");
}

#[test]
fn ping_pong_data_ends_and_rejects_shapes() {
    let (gpu, stream) = sim();
    let [flags, replies, data] = [8, 8, 16].map(|bytes| gpu.pinned(bytes).unwrap());
    let shape = |blocks| Shape { blocks, threads: 1, rounds: 1 };
    flags.write(0, &[0xff; 8]).unwrap();
    stream.ping_pong_data(&flags, &replies, &data, shape(2)).unwrap();
    stream.synchronize().unwrap();
    assert!(words(&replies, 2).contains(&u32::MAX));
    // More blocks than flags would wait for words beyond the buffer, as gdrcopy's pplat does.
    let error = stream.ping_pong_data(&flags, &replies, &data, shape(3));
    assert!(matches!(error, Err(Error::Range { .. })), "{error:?}");
    let most = gpu.multiprocessors().unwrap();
    let error = stream.ping_pong_data(&flags, &replies, &data, shape(most + 1));
    assert!(matches!(error, Err(Error::Block { .. })), "{error:?}");
}
