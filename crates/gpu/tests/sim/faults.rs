//! Copies of a faulty GPU: always wrong, reproducible, and within their range.

use gpu::sim::{Fault, Faults};
use gpu::{Allocation, DeviceMemory, Error, Gpu, HostMemory, Mismatches, Pattern, Stream};

const KINDS: [Fault; 4] = [Fault::Drop, Fault::Zero, Fault::Swap, Fault::Delay];
const BYTES: usize = 16 << 10;
const PATTERN: Pattern = Pattern::new(17);

struct Bench {
    gpu: Gpu,
    /// Faulty and correct streams.
    stream: Stream,
    eyes: Stream,
    memory: DeviceMemory,
    host: HostMemory,
}

impl Bench {
    /// Memory without the pattern, host memory with it.
    fn new(kind: Fault, seed: u64) -> Self {
        let gpu = Gpu::sim_with(Faults { kind, seed });
        let (stream, eyes) = (gpu.stream().unwrap(), gpu.stream().unwrap());
        let memory = gpu.allocate(Allocation::Malloc, BYTES).unwrap();
        let host = gpu.pinned(BYTES).unwrap();
        let mut text = vec![0; BYTES];
        PATTERN.fill(&mut text, 0);
        host.write(0, &text).unwrap();
        eyes.fill(&memory, 0, BYTES, 0x11).unwrap();
        eyes.synchronize().unwrap();
        Self { gpu, stream, eyes, memory, host }
    }

    fn upload(&self, bytes: usize) {
        self.stream.upload(&self.memory, 0, &self.host, 0, bytes).unwrap();
        self.stream.synchronize().unwrap();
    }

    fn found(&self, bytes: usize) -> Mismatches {
        self.eyes.check_pattern(&self.memory, 0, bytes, PATTERN, 0).unwrap()
    }
}

#[test]
fn uploads_have_faults() {
    for kind in KINDS {
        for seed in 0..100 {
            let sizes: &[usize] = match seed {
                0..10 => &[BYTES, 8192, 8196, 1024, 512, 64, 4],
                _ => &[BYTES, 4],
            };
            for &bytes in sizes {
                // Refilled: a late write of an earlier copy would repair a later one of the same
                // bytes.
                let bench = Bench::new(kind, seed);
                bench.upload(bytes);
                let found = bench.found(bytes);
                // At most the one page, or the two swapped ones; a few of a pattern's 1024 words
                // may be equal by chance.
                let pages = if kind == Fault::Swap { 2 } else { 1 };
                let most = (pages * 1024).min(bytes as u64 / 4);
                assert!((1..=most).contains(&found.words), "{kind:?} {seed} {bytes} {found:?}");
            }
        }
    }
}

#[test]
fn faulty_stream_sees_faults() {
    for kind in KINDS {
        for seed in 0..100 {
            let bench = Bench::new(kind, seed);
            bench.upload(BYTES);
            let found = bench.stream.check_pattern(&bench.memory, 0, BYTES, PATTERN, 0).unwrap();
            assert!(found.words > 0, "{kind:?} {seed}");
        }
    }
}

#[test]
fn all_copies_have_faults() {
    for kind in KINDS {
        for seed in 0..20 {
            let bench = Bench::new(kind, seed);
            let from = bench.gpu.allocate(Allocation::Malloc, BYTES).unwrap();
            bench.eyes.fill_pattern(&from, 0, BYTES, PATTERN, 0).unwrap();
            bench.eyes.synchronize().unwrap();
            let stream = &bench.stream;
            stream.copy(&bench.memory, 0, &from, 0, BYTES).unwrap();
            stream.synchronize().unwrap();
            assert!(bench.found(BYTES).words > 0, "copy, {kind:?} {seed}");

            let other = bench.gpu.allocate(Allocation::Malloc, BYTES).unwrap();
            bench.eyes.fill(&other, 0, BYTES, 0x11).unwrap();
            bench.eyes.synchronize().unwrap();
            stream.copy_words(&other, 0, &from, 0, BYTES).unwrap();
            stream.synchronize().unwrap();
            let found = bench.eyes.check_pattern(&other, 0, BYTES, PATTERN, 0).unwrap();
            assert!(found.words > 0, "copy_words, {kind:?} {seed}");

            let back = bench.gpu.pinned(BYTES).unwrap();
            stream.download(&back, 0, &from, 0, BYTES).unwrap();
            stream.synchronize().unwrap();
            let mut seen = vec![0; BYTES];
            back.read(0, &mut seen).unwrap();
            assert!(PATTERN.first_difference(&seen, 0).is_some(), "download, {kind:?} {seed}");

            let mut seen = vec![0; BYTES];
            stream.read(&from, 0, &mut seen).unwrap();
            assert!(PATTERN.first_difference(&seen, 0).is_some(), "read, {kind:?} {seed}");

            // Between two GPUs, the stream's faults apply.
            let far = Gpu::sim();
            let there = far.allocate(Allocation::Malloc, BYTES).unwrap();
            let look = far.stream().unwrap();
            look.fill(&there, 0, BYTES, 0x11).unwrap();
            look.synchronize().unwrap();
            stream.copy(&there, 0, &from, 0, BYTES).unwrap();
            stream.synchronize().unwrap();
            let found = look.check_pattern(&there, 0, BYTES, PATTERN, 0).unwrap();
            assert!(found.words > 0, "between two, {kind:?} {seed}");
        }
    }
}

#[test]
fn single_word_fault() {
    // From 0xffffffff to 0x00000001, and the result.
    for (kind, expected) in [
        (Fault::Drop, u32::MAX),
        (Fault::Zero, 0),
        (Fault::Swap, 0x0001_0000),
        (Fault::Delay, u32::MAX),
    ] {
        let bench = Bench::new(kind, 1);
        bench.eyes.fill(&bench.memory, 0, 4, 0xff).unwrap();
        bench.eyes.synchronize().unwrap();
        bench.stream.write(&bench.memory, 0, &1_u32.to_le_bytes()).unwrap();
        let (reader, place) = (Gpu::sim(), bench.memory.clone());
        let mut seen = [0; 4];
        reader.stream().unwrap().read(&place, 0, &mut seen).unwrap();
        assert_eq!(u32::from_le_bytes(seen), expected, "{kind:?}");
    }
}

#[test]
fn seed_determines_faults() {
    let places = |kind, seed| {
        let bench = Bench::new(kind, seed);
        let place = |_| {
            bench.eyes.fill(&bench.memory, 0, BYTES, 0x11).unwrap();
            bench.eyes.synchronize().unwrap();
            bench.upload(BYTES);
            bench.found(BYTES)
        };
        (0..8).map(place).collect::<Vec<_>>()
    };
    for kind in KINDS {
        assert_eq!(places(kind, 5), places(kind, 5));
        assert_ne!(places(kind, 5), places(kind, 6));
        let first: Vec<_> = places(kind, 5).iter().map(|found| found.first).collect();
        assert!(first.iter().any(|place| *place != first[0]), "not always the same page");
    }
}

#[test]
fn dropped_and_zeroed_pages() {
    for (kind, byte) in [(Fault::Drop, 0x11), (Fault::Zero, 0)] {
        let bench = Bench::new(kind, 9);
        bench.upload(BYTES);
        let page = bench.found(BYTES).first.unwrap() as usize * 4 / 4096;
        let mut seen = vec![0; BYTES];
        let reader = Gpu::sim().stream().unwrap();
        reader.read(&bench.memory, 0, &mut seen).unwrap();
        for (number, held) in seen.chunks(4096).enumerate() {
            if number == page {
                assert!(held.iter().all(|&seen| seen == byte));
            } else {
                assert_eq!(PATTERN.first_difference(held, number as u64 * 1024), None);
            }
        }
    }
}

#[test]
fn swapped_pages() {
    let bench = Bench::new(Fault::Swap, 2);
    bench.upload(BYTES);
    let mut seen = vec![0; BYTES];
    Gpu::sim().stream().unwrap().read(&bench.memory, 0, &mut seen).unwrap();
    let wrong: Vec<usize> = (0..BYTES / 4096)
        .filter(|page| {
            let held = &seen[page * 4096..][..4096];
            PATTERN.first_difference(held, *page as u64 * 1024).is_some()
        })
        .collect();
    assert_eq!(wrong.len(), 2);
    for (place, content) in [(wrong[0], wrong[1]), (wrong[1], wrong[0])] {
        let held = &seen[place * 4096..][..4096];
        assert_eq!(PATTERN.first_difference(held, content as u64 * 1024), None);
    }
}

#[test]
fn late_page_arrives_eventually() {
    for seed in 0..20 {
        let bench = Bench::new(Fault::Delay, seed);
        bench.upload(BYTES);
        assert!(bench.found(BYTES).words > 0);
        let scrap = bench.gpu.allocate(Allocation::Malloc, 16).unwrap();
        for _ in 0..4 {
            bench.stream.fill(&scrap, 0, 16, 0).unwrap();
        }
        bench.stream.synchronize().unwrap();
        assert_eq!(bench.found(BYTES).words, 0, "with the fourth item at the latest, {seed}");
    }
    let bench = Bench::new(Fault::Delay, 3);
    bench.upload(BYTES);
    assert!(bench.found(BYTES).words > 0);
    let Bench { stream, eyes, memory, .. } = bench;
    stream.close().unwrap();
    let found = eyes.check_pattern(&memory, 0, BYTES, PATTERN, 0).unwrap();
    assert_eq!(found.words, 0);
}

#[test]
fn late_page_holds_destination() {
    let bench = Bench::new(Fault::Delay, 4);
    bench.upload(BYTES);
    let number = gpu::sim::locate(bench.memory.address()).unwrap().buffer_id;
    let mut back = bench.gpu.pinned(BYTES).unwrap();
    bench.eyes.download(&back, 0, &bench.memory, 0, BYTES).unwrap();
    bench.eyes.synchronize().unwrap();
    assert!(matches!(back.as_mut_slice().unwrap_err(), Error::InUse));
    let Bench { stream, eyes, memory, .. } = bench;
    drop(memory);
    assert!(gpu::sim::is_live(number));
    drop(stream);
    assert!(!gpu::sim::is_live(number));
    drop(eyes);
    back.as_mut_slice().unwrap();
}

#[test]
fn late_page_skips_borrowed_buffer() {
    for seed in 0..20 {
        let bench = Bench::new(Fault::Delay, seed);
        bench.eyes.fill_pattern(&bench.memory, 0, BYTES, PATTERN, 0).unwrap();
        bench.eyes.synchronize().unwrap();
        let mut seen = vec![0x33; BYTES];
        bench.stream.read(&bench.memory, 0, &mut seen).unwrap();
        let before = seen.clone();
        bench.stream.close().unwrap();
        assert_eq!(seen, before);
        assert!(PATTERN.first_difference(&seen, 0).is_some());
    }
}

#[test]
fn only_copies_have_faults() {
    for kind in KINDS {
        let bench = Bench::new(kind, 6);
        let stream = &bench.stream;
        assert_eq!(bench.gpu.device().name, "simulated GPU, faulty");
        stream.fill_pattern(&bench.memory, 0, BYTES, PATTERN, 0).unwrap();
        let found = stream.check_pattern(&bench.memory, 0, BYTES, PATTERN, 0).unwrap();
        assert_eq!((found.words, found.first), (0, None));
        stream.fill_words(&bench.memory, 400, 1, 0).unwrap();
        let found = stream.check_pattern(&bench.memory, 0, BYTES, PATTERN, 0).unwrap();
        assert_eq!((found.words, found.first), (1, Some(100)), "{kind:?}");
    }
}
