//! Memory: kinds, copies, fills, patterns, and its files.

use std::os::unix::fs::FileExt as _;

use gpu::sim::{is_live, locate};
use gpu::{Allocation, Error, Gpu, Kind, Pattern};

use crate::sim;

const KINDS: [Allocation; 6] = [
    Allocation::Malloc,
    Allocation::Create { exportable: false, rdma: false },
    Allocation::Create { exportable: true, rdma: true },
    Allocation::Pool { exportable: false },
    Allocation::Pool { exportable: true },
    Allocation::Managed,
];

#[test]
fn all_kinds_store_data() {
    let (gpu, stream) = sim();
    for kind in KINDS {
        for bytes in [1, 511, 4096, (2 << 20) + 4096] {
            let memory = gpu.allocate(kind, bytes).unwrap();
            assert_eq!((memory.len(), memory.kind()), (bytes, kind));
            let written: Vec<u8> = (0..bytes).map(|position| (position % 251) as u8).collect();
            stream.write(&memory, 0, &written).unwrap();
            let mut seen = vec![0; bytes];
            stream.read(&memory, 0, &mut seen).unwrap();
            assert!(seen == written, "{kind}, {bytes} bytes");
        }
    }
}

#[test]
fn host_copies() {
    let (gpu, stream) = sim();
    for host in [gpu.pinned(8192).unwrap(), gpu.registered(8192).unwrap()] {
        let (a, b) = (
            gpu.allocate(Allocation::Malloc, 8192).unwrap(),
            gpu.allocate(Allocation::Malloc, 8192).unwrap(),
        );
        host.write(100, b"GPUDirect").unwrap();
        stream.upload(&a, 7, &host, 100, 9).unwrap();
        stream.copy(&b, 1000, &a, 7, 9).unwrap();
        stream.download(&host, 5000, &b, 1000, 9).unwrap();
        stream.synchronize().unwrap();
        let mut seen = [0; 9];
        host.read(5000, &mut seen).unwrap();
        assert_eq!(&seen, b"GPUDirect");
    }
}

#[test]
fn fills_stay_in_range() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 24).unwrap();
    stream.fill(&memory, 0, 24, 0).unwrap();
    stream.fill(&memory, 1, 3, 0xab).unwrap();
    stream.fill_words(&memory, 8, 2, 0x0403_0201).unwrap();
    let mut seen = [0; 24];
    stream.read(&memory, 0, &mut seen).unwrap();
    let expected =
        [0, 0xab, 0xab, 0xab, 0, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(seen, expected);
    assert_eq!(stream.fill_words(&memory, 2, 1, 0).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(stream.fill(&memory, 20, 5, 0).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn pattern_kernels_match_pattern() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 1 << 20).unwrap();
    let pattern = Pattern::new(42);
    stream.fill_pattern(&memory, 0, 1 << 20, pattern, 10).unwrap();
    let mut seen = vec![0; 1 << 20];
    stream.read(&memory, 0, &mut seen).unwrap();
    assert_eq!(pattern.first_difference(&seen, 10), None);

    let whole = stream.check_pattern(&memory, 0, 1 << 20, pattern, 10).unwrap();
    assert_eq!((whole.words, whole.first), (0, None));
    // Two words shifted, of which the GPU sees the first at 1000 - 100.
    stream.fill(&memory, 4000, 1, !seen[4000]).unwrap();
    stream.fill(&memory, 8003, 1, !seen[8003]).unwrap();
    let part = stream.check_pattern(&memory, 400, (1 << 20) - 400, pattern, 110).unwrap();
    assert_eq!((part.words, part.first), (2, Some(900)));
    let other = stream.check_pattern(&memory, 0, 1024, Pattern::new(43), 10).unwrap();
    assert_eq!((other.words, other.first), (256, Some(0)));
}

#[test]
fn memory_file_can_be_mapped() {
    let (gpu, stream) = sim();
    let first = gpu.allocate(Allocation::Malloc, 100).unwrap();
    let second = gpu.allocate(Allocation::Malloc, 3 << 20).unwrap();
    for memory in [&first, &second] {
        stream.write(memory, 60, b"seen twice").unwrap();
        let place = locate(memory.address().offset(60)).unwrap();
        assert_eq!(
            (place.base, place.size, place.kind),
            (memory.address(), memory.len(), memory.kind())
        );
        let file = std::fs::File::from(place.file.try_clone().unwrap());
        let mut seen = [0; 10];
        file.read_exact_at(&mut seen, place.offset).unwrap();
        assert_eq!(&seen, b"seen twice");
        file.write_all_at(b"SEEN", place.offset).unwrap();
        stream.read(memory, 60, &mut seen).unwrap();
        assert_eq!(&seen, b"SEEN twice");
    }
}

#[test]
fn file_outlives_allocation() {
    let gpu = Gpu::sim();
    let memory = gpu.allocate(Allocation::Malloc, 4096).unwrap();
    gpu.stream().unwrap().write(&memory, 0, b"kept").unwrap();
    let place = locate(memory.address()).unwrap();
    let address = memory.address();
    memory.free().unwrap();
    assert!(locate(address).is_none() && !is_live(place.buffer_id));
    let mut seen = [0; 4];
    std::fs::File::from(place.file.try_clone().unwrap())
        .read_exact_at(&mut seen, place.offset)
        .unwrap();
    assert_eq!(&seen, b"kept");
}

#[test]
fn rejects_ranges_outside() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 64).unwrap();
    let host = gpu.pinned(64).unwrap();
    let errors = [
        stream.write(&memory, 60, &[0; 5]).unwrap_err(),
        stream.read(&memory, 65, &mut []).unwrap_err(),
        stream.upload(&memory, 0, &host, 1, 64).unwrap_err(),
        stream.download(&host, usize::MAX, &memory, 0, 2).unwrap_err(),
        host.write(63, &[1, 2]).unwrap_err(),
        host.load_u32(61).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Range { .. }), "{error}");
    }
    assert!(matches!(host.load_u64(4).unwrap_err(), Error::Misaligned { .. }));
}

#[test]
fn out_of_memory() {
    let gpu = Gpu::sim();
    let (free, total) = gpu.memory_info().unwrap();
    assert_eq!((free, total), (64 << 30, 64 << 30));
    let error = gpu.allocate(Allocation::Malloc, (64 << 30) + 1).unwrap_err();
    assert_eq!(error.kind(), Kind::OutOfMemory);
    // Host memory is used only once touched.
    let large = gpu.allocate(Allocation::Malloc, 6 << 30).unwrap();
    let stream = gpu.stream().unwrap();
    stream.write(&large, (6 << 30) - 4, b"last").unwrap();
    assert_eq!(gpu.memory_info().unwrap().0, 58 << 30);
    assert!(matches!(gpu.allocate(Allocation::Malloc, 0).unwrap_err(), Error::Empty));
    assert!(matches!(gpu.pinned(0).unwrap_err(), Error::Empty));
}
