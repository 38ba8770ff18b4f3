//! The kernels of one GPU: copies by its threads, walks through memory, gates and ping-pong, each result checked along another way.

use std::time::{Duration, Instant};

use gpu::{Allocation, DeviceMemory, Gpu, HostMemory, Memory, MemoryOperation, Pattern, Stream};

use crate::{Outcome, Report, ensure};

const TIMEOUT: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(20);
/// What is not to be written, before and after what is.
const MARGIN: usize = 4096;
/// From one vector to more than a thread's round, and lengths that no block and no round divides.
pub const SIZES: [usize; 7] = [
    16,
    512,
    4096,
    (1 << 20) - 16,
    (1 << 20) + 5 * 16,
    (13 << 20) + 16,
    64 << 20,
];

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    let stream = gpu.stream()?;
    for bytes in SIZES {
        report.trial(
            format_args!("copy_words, device to device, {bytes} bytes"),
            || {
                let from = gpu.allocate(Allocation::Malloc, bytes)?;
                let to = gpu.allocate(Allocation::Malloc, bytes + 2 * MARGIN)?;
                words(&stream, &to, &from)
            },
        )?;
    }
    for (name, host) in [
        ("pinned", gpu.pinned(16 << 20)),
        ("registered", gpu.registered(16 << 20)),
    ] {
        report.trial(format_args!("copy_words, {name} host memory"), || {
            host_words(gpu, &stream, &host?)
        })?;
    }
    for (bytes, name) in [(2 << 20, "2 MiB"), (64 << 20, "64 MiB")] {
        report.trial(format_args!("chase, {name} of device memory"), || {
            let list = gpu.allocate(Allocation::Malloc, bytes)?;
            chase(&stream, &list)
        })?;
    }
    report.trial("chase, 2 MiB of pinned memory", || {
        chase_host(gpu, &stream, &gpu.pinned(2 << 20)?)
    })?;
    report.trial("chase, out of its list", || astray(gpu, &stream))?;
    report.trial("hold, opened", || hold(gpu, &stream))?;
    report.trial("hold, out of timeout", || {
        let gate = gpu.pinned(4)?;
        let start = Instant::now();
        stream.hold(&gate, MOMENT)?;
        stream.synchronize_within(TIMEOUT)?;
        let took = start.elapsed();
        ensure(took >= MOMENT, format!("it waited {took:?} of {MOMENT:?}"))?;
        Ok(format!("after {took:?} of {MOMENT:?}"))
    })?;
    report.trial("ping and ping-pong, two streams", || {
        let words = (
            gpu.allocate(Allocation::Malloc, 4)?,
            gpu.allocate(Allocation::Malloc, 4)?,
        );
        ping(&stream, &gpu.stream()?, &words.0, &words.1)
    })?;
    report.trial("pageable host memory", || pageable(gpu, &stream))?;
    Ok(())
}

/// `from`'s pattern is copied into the middle of `to` by the stream's GPU; the copy engine and the CPU look at every byte.
pub fn words(stream: &Stream, to: &DeviceMemory, from: &DeviceMemory) -> Outcome {
    let bytes = from.len();
    let pattern = Pattern::new(bytes as u64);
    let (source, target) = (from.gpu().stream()?, to.gpu().stream()?);
    source.fill_pattern(from, 0, bytes, pattern, 0)?;
    source.synchronize()?;
    target.fill(to, 0, to.len(), 0xa5)?;
    target.synchronize()?;
    let best = best(stream, bytes, || {
        Ok(stream.copy_words(to, MARGIN, from, 0, bytes)?)
    })?;
    let mut seen = vec![0; to.len()];
    target.read(to, 0, &mut seen)?;
    let difference = pattern.first_difference(&seen[MARGIN..MARGIN + bytes], 0);
    ensure(
        difference.is_none(),
        format!("a wrong byte at {difference:?}"),
    )?;
    let margins = seen[..MARGIN].iter().chain(&seen[MARGIN + bytes..]);
    ensure(
        margins.into_iter().all(|&byte| byte == 0xa5),
        "bytes beside the copy were written",
    )?;
    Ok(best)
}

/// The best of some runs, by events around them.
pub fn best(stream: &Stream, bytes: usize, mut body: impl FnMut() -> Outcome<()>) -> Outcome {
    let (start, end) = (stream.gpu().event()?, stream.gpu().event()?);
    let mut best = Duration::MAX;
    for _ in 0..5 {
        stream.record(&start)?;
        body()?;
        stream.record(&end)?;
        stream.synchronize_within(TIMEOUT)?;
        best = best.min(end.elapsed_since(&start)?);
    }
    let rate = bytes as f64 / best.as_secs_f64().max(1e-9) / 1e9;
    Ok(format!("{rate:.1} GB/s, {best:?}"))
}

/// Written by the CPU, pulled by the GPU's threads, seen by the copy engine; then pushed back and seen by the CPU.
fn host_words(gpu: &Gpu, stream: &Stream, host: &HostMemory) -> Outcome {
    let bytes = host.len();
    let pattern = Pattern::new(21);
    let mut seen = vec![0; bytes];
    pattern.fill(&mut seen, 0);
    host.write(0, &seen)?;
    let memory = gpu.allocate(Allocation::Malloc, bytes)?;
    let to_gpu = best(stream, bytes, || {
        Ok(stream.copy_words(&memory, 0, host, 0, bytes)?)
    })?;
    seen.fill(0);
    stream.read(&memory, 0, &mut seen)?;
    let difference = pattern.first_difference(&seen, 0);
    ensure(
        difference.is_none(),
        format!("to the GPU: a wrong byte at {difference:?}"),
    )?;
    host.write(0, &vec![0; bytes])?;
    let to_host = best(stream, bytes, || {
        Ok(stream.copy_words(host, 0, &memory, 0, bytes)?)
    })?;
    host.read(0, &mut seen)?;
    let difference = pattern.first_difference(&seen, 0);
    ensure(
        difference.is_none(),
        format!("to the host: a wrong byte at {difference:?}"),
    )?;
    Ok(format!("to the GPU {to_gpu}; to the host {to_host}"))
}

/// A ring with a word in each 256 bytes, each of which leads to one far away: `index` × `STEP` words after the first.
struct Ring {
    places: usize,
}

const SPACING: usize = 256;
/// Odd, so that a ring of a power of two is gone through whole.
const STEP: usize = 4097;
const HOPS: u32 = 10_000;

impl Ring {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.places * SPACING];
        for place in 0..self.places {
            let next = offset((place + STEP) % self.places);
            bytes[place * SPACING..][..8].copy_from_slice(&next.to_le_bytes());
        }
        bytes
    }

    /// Follows it from the first place by every few multiprocessors of the stream's GPU.
    fn follow(&self, stream: &Stream, list: &impl Memory) -> Outcome {
        let gpu = stream.gpu();
        let result = gpu.allocate(Allocation::Malloc, 8)?;
        let (start, end) = (gpu.event()?, gpu.event()?);
        let count = gpu.multiprocessors()?;
        let expected = offset(HOPS as usize * STEP % self.places);
        let mut least = Duration::MAX;
        for block in [0, count / 2, count - 1] {
            stream.write(&result, 0, &[0; 8])?;
            stream.record(&start)?;
            stream.chase(list, 0, HOPS, block, &result)?;
            stream.record(&end)?;
            stream.synchronize_within(TIMEOUT)?;
            let mut seen = [0; 8];
            stream.read(&result, 0, &mut seen)?;
            let seen = u64::from_le_bytes(seen);
            ensure(
                seen == expected,
                format!("block {block} ended at {seen:#x}, not {expected:#x}"),
            )?;
            least = least.min(end.elapsed_since(&start)?);
        }
        Ok(format!(
            "{:.1} ns a hop",
            least.as_nanos() as f64 / f64::from(HOPS)
        ))
    }
}

fn offset(place: usize) -> u64 {
    (place * SPACING) as u64
}

/// Over device memory of whichever GPU; the stream's GPU walks.
pub fn chase(stream: &Stream, list: &DeviceMemory) -> Outcome {
    let ring = Ring {
        places: list.len() / SPACING,
    };
    list.gpu().stream()?.write(list, 0, &ring.bytes())?;
    ring.follow(stream, list)
}

fn chase_host(gpu: &Gpu, stream: &Stream, list: &HostMemory) -> Outcome {
    ensure(list.gpu().is_same(gpu), "another GPU's memory")?;
    let ring = Ring {
        places: list.len() / SPACING,
    };
    list.write(0, &ring.bytes())?;
    ring.follow(stream, list)
}

fn astray(gpu: &Gpu, stream: &Stream) -> Outcome {
    let (list, result) = (gpu.pinned(64)?, gpu.allocate(Allocation::Malloc, 8)?);
    for next in [4, 60, 64, 1 << 32, u64::MAX] {
        list.store_u64(0, next)?;
        stream.chase(&list, 0, 2, 0, &result)?;
        let mut seen = [0; 8];
        stream.read(&result, 0, &mut seen)?;
        ensure(seen == [0xff; 8], format!("{next:#x} led to {seen:x?}"))?;
    }
    Ok(String::new())
}

fn hold(gpu: &Gpu, stream: &Stream) -> Outcome {
    let (gate, word) = (gpu.pinned(4)?, gpu.pinned(4)?);
    let memory = gpu.allocate(Allocation::Malloc, 1 << 20)?;
    let start = Instant::now();
    stream.hold(&gate, TIMEOUT)?;
    for value in 0..100 {
        stream.fill(&memory, 0, 1 << 20, value)?;
    }
    stream.batch(&[MemoryOperation::write32(&word, 0, 1)?])?;
    let put_in = start.elapsed();
    std::thread::sleep(MOMENT);
    ensure(word.load_u32(0)? == 0, "the gate was not closed")?;
    let opened = Instant::now();
    gate.store_u32(0, 1)?;
    stream.synchronize_within(TIMEOUT)?;
    ensure(
        word.load_u32(0)? == 1,
        "what was behind the gate was not done",
    )?;
    let mut seen = vec![0; 1 << 20];
    stream.read(&memory, 0, &mut seen)?;
    ensure(
        seen.iter().all(|&byte| byte == 99),
        "the last fill is not what is there",
    )?;
    Ok(format!(
        "101 pieces put in in {put_in:?}, done {:?} after it opened",
        opened.elapsed()
    ))
}

/// `ping` by the first stream, `ping_pong` by the second, each with its word in memory of its own GPU.
pub fn ping(left: &Stream, right: &Stream, ours: &DeviceMemory, theirs: &DeviceMemory) -> Outcome {
    let rounds = 1000;
    for word in [ours, theirs] {
        word.gpu().stream()?.write(word, 0, &[0; 4])?;
    }
    let (start, end) = (left.gpu().event()?, left.gpu().event()?);
    right.ping_pong(theirs, ours, rounds)?;
    left.record(&start)?;
    left.ping(ours, theirs, rounds)?;
    left.record(&end)?;
    left.synchronize_within(TIMEOUT)?;
    right.synchronize_within(TIMEOUT)?;
    for word in [ours, theirs] {
        let mut seen = [0; 4];
        word.gpu().stream()?.read(word, 0, &mut seen)?;
        let seen = u32::from_le_bytes(seen);
        ensure(
            seen == rounds,
            format!("a word is {seen} after {rounds} rounds"),
        )?;
    }
    Ok(format!("{:?} a round", end.elapsed_since(&start)? / rounds))
}

fn pageable(gpu: &Gpu, stream: &Stream) -> Outcome {
    let bytes = 16 << 20;
    let (host, memory) = (
        gpu.pageable(bytes)?,
        gpu.allocate(Allocation::Malloc, bytes)?,
    );
    let pattern = Pattern::new(31);
    let mut seen = vec![0; bytes];
    pattern.fill(&mut seen, 0);
    host.write(0, &seen)?;
    let to_gpu = best(stream, bytes, || {
        Ok(stream.upload(&memory, 0, &host, 0, bytes)?)
    })?;
    let found = stream.check_pattern(&memory, 0, bytes, pattern, 0)?;
    ensure(found.words == 0, format!("the GPU sees {found:?}"))?;
    host.write(0, &vec![0; bytes])?;
    let to_host = best(stream, bytes, || {
        Ok(stream.download(&host, 0, &memory, 0, bytes)?)
    })?;
    host.read(0, &mut seen)?;
    let difference = pattern.first_difference(&seen, 0);
    ensure(
        difference.is_none(),
        format!("a wrong byte at {difference:?}"),
    )?;
    Ok(format!("to the GPU {to_gpu}; to the host {to_host}"))
}
