//! Stream memory operations: every condition, both widths, across streams, and what they cost; and
//! the ends of the kernels that wait.

use std::time::{Duration, Instant};

use gpu::{Allocation, Compare, Error, Gpu, MemOp};

use crate::{Outcome, Report, ensure};

const TIMEOUT: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(5);

/// Condition, value, a word that does not satisfy it, one that does.
const CASES: [(Compare, u64, u64, u64); 7] = [
    (Compare::Geq, 5, 4, 5),
    (Compare::Geq, 0xffff_ffff, 0xffff_fffe, 0x1_0000_0003),
    (
        Compare::Geq,
        5,
        0x8000_0005_8000_0005,
        0x7000_0000_0000_0006,
    ),
    (Compare::Eq, 7, 8, 7),
    (Compare::And, 0x0100_0000, 0xfeff_ffff, 0x0100_0000),
    (Compare::Nor, 0xffff_ffff_feff_ffff, 0x0100_0000, 0),
    (
        Compare::Nor,
        u64::MAX >> 1,
        0x8000_0000_8000_0000,
        0x7000_0000_0000_0000,
    ),
];

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    for (compare, value, before, after) in CASES {
        for wide in [false, true] {
            // The last NOR is of 64 bits alone: in its lower half nothing is left to wait for.
            if !wide && value == u64::MAX >> 1 {
                continue;
            }
            let name = format!("wait{} {compare:?} {value:#x}", if wide { 64 } else { 32 });
            report.trial(name, || waits(gpu, wide, compare, value, before, after))?;
        }
    }
    report.trial("writes, barrier, across streams", || writes(gpu))?;
    report.maybe("flush of remote writes as an operation", || {
        let stream = gpu.stream()?;
        stream.batch(&[MemOp::FlushRemoteWrites])?;
        stream.synchronize_within(TIMEOUT)?;
        Ok(String::new())
    })?;
    report.maybe("flush of remote writes behind a wait", || {
        let stream = gpu.stream()?;
        let word = gpu.pinned(4)?;
        stream.batch(&[MemOp::wait32(&word, 0, 0, Compare::Eq)?.flushed()])?;
        stream.synchronize_within(TIMEOUT)?;
        Ok(String::new())
    })?;
    report.maybe("flush of remote writes by the host", || {
        gpu.flush_remote_writes(false)?;
        let start = Instant::now();
        for _ in 0..100 {
            gpu.flush_remote_writes(false)?;
        }
        Ok(format!("{:?} each", start.elapsed() / 100))
    })?;
    report.maybe("wait on managed memory", || {
        let stream = gpu.stream()?;
        let word = gpu.allocate(Allocation::Managed, 4)?;
        stream.fill(&word, 0, 4, 0)?;
        stream.batch(&[MemOp::wait32(&word, 0, 0, Compare::Eq)?])?;
        stream.synchronize_within(TIMEOUT)?;
        Ok(String::new())
    })?;
    report.trial(
        "round trip CPU store, stream wait, stream write, CPU load",
        || poll_latency(gpu),
    )?;
    report.trial("batch of 1000 operations", || long_batch(gpu))?;
    report.trial("ping-pong kernel, flag written by a second stream", || {
        ping_pong(gpu)
    })?;
    report.trial("ping-pong kernel, stopped", || stopped(gpu))?;
    report.trial("chase, out of its list", || astray(gpu))?;
    report.trial("hold, until its limit", || held_to_its_limit(gpu))?;
    report
        .trial("a wait that does not end is seen, and released", || {
            timeout(gpu)
        })
        .map_err(Into::into)
}

fn waits(gpu: &Gpu, wide: bool, compare: Compare, value: u64, before: u64, after: u64) -> Outcome {
    let (stream, other) = (gpu.stream()?, gpu.stream()?);
    let word = gpu.allocate(Allocation::Malloc, 16)?;
    other.write(&word, 0, &before.to_le_bytes())?;
    let wait = if wide {
        MemOp::wait64(&word, 0, value, compare)?
    } else {
        MemOp::wait32(&word, 0, value as u32, compare)?
    };
    stream.batch(&[wait, MemOp::write32(&word, 8, 1)?])?;
    std::thread::sleep(MOMENT);
    let waited = !stream.is_idle()?;
    let release = if wide {
        MemOp::write64(&word, 0, after)?
    } else {
        MemOp::write32(&word, 0, after as u32)?
    };
    other.batch(&[release])?;
    // Where it does not end, nothing here could end it: the other stream may wait behind it
    // (`Stream::batch` says when).
    stream.synchronize_within(TIMEOUT)?;
    ensure(waited, "it did not wait")?;
    Ok(String::new())
}

fn writes(gpu: &Gpu) -> Outcome {
    let (first, second) = (gpu.stream()?, gpu.stream()?);
    let (device, host) = (gpu.allocate(Allocation::Malloc, 64)?, gpu.pinned(64)?);
    first.fill(&device, 0, 64, 0)?;
    first.synchronize()?;
    second.batch(&[
        MemOp::wait32(&device, 0, 3, Compare::Geq)?,
        MemOp::write64(&host, 8, 0x1122_3344_5566_7788)?,
        MemOp::Barrier,
        MemOp::write32(&host, 0, 9)?,
    ])?;
    first.batch(&[MemOp::write32(&device, 0, 3)?])?;
    let start = Instant::now();
    while host.load_u32(0)? != 9 {
        ensure(start.elapsed() < TIMEOUT, "the last write did not arrive")?;
    }
    ensure(
        host.load_u64(8)? == 0x1122_3344_5566_7788,
        "the writes are out of order",
    )?;
    second.synchronize_within(TIMEOUT)?;
    let event = gpu.event()?;
    first.fill(&device, 32, 4, 0x5a)?;
    first.record(&event)?;
    second.wait(&event)?;
    second.download(&host, 32, &device, 32, 4)?;
    second.synchronize_within(TIMEOUT)?;
    ensure(
        host.load_u32(32)? == 0x5a5a_5a5a,
        "the event did not order the copy",
    )?;
    Ok(String::new())
}

fn poll_latency(gpu: &Gpu) -> Outcome {
    let stream = gpu.stream()?;
    let host = gpu.pinned(4096)?;
    let mut times = Vec::new();
    for round in 1..=1000 {
        stream.batch(&[
            MemOp::wait32(&host, 0, round, Compare::Geq)?,
            MemOp::write32(&host, 2048, round)?,
        ])?;
        let deadline = Instant::now() + Duration::from_micros(30);
        while Instant::now() < deadline {}
        let start = Instant::now();
        host.store_u32(0, round)?;
        while host.load_u32(2048)? != round {
            if start.elapsed() > TIMEOUT {
                return Err("no answer".into());
            }
        }
        times.push(start.elapsed());
    }
    stream.synchronize_within(TIMEOUT)?;
    Ok(median(times))
}

fn long_batch(gpu: &Gpu) -> Outcome {
    let stream = gpu.stream()?;
    let words = gpu.pinned(4000)?;
    let batch: Vec<_> = (0..1000_u32)
        .map(|word| MemOp::write32(&words, 4 * word as usize, word ^ 0xaaaa))
        .collect::<Result<_, _>>()?;
    let start = Instant::now();
    stream.batch(&batch)?;
    let put_in = start.elapsed();
    stream.synchronize_within(TIMEOUT)?;
    for word in 0..1000_u32 {
        ensure(
            words.load_u32(4 * word as usize)? == word ^ 0xaaaa,
            format!("word {word}"),
        )?;
    }
    Ok(format!(
        "put in in {put_in:?}, done after {:?}",
        start.elapsed()
    ))
}

fn ping_pong(gpu: &Gpu) -> Outcome {
    let (stream, writer) = (gpu.stream()?, gpu.stream()?);
    let (flag, reply) = (gpu.allocate(Allocation::Malloc, 4)?, gpu.pinned(4)?);
    writer.write(&flag, 0, &[0; 4])?;
    let rounds = 1000;
    stream.ping_pong(&flag, &reply, rounds)?;
    let mut times = Vec::new();
    for round in 1..=rounds {
        let operation = [MemOp::write32(&flag, 0, round)?];
        let start = Instant::now();
        writer.batch(&operation)?;
        while reply.load_u32(0)? != round {
            ensure(
                start.elapsed() < TIMEOUT,
                format!("no answer in round {round}"),
            )?;
        }
        times.push(start.elapsed());
    }
    stream.synchronize_within(TIMEOUT)?;
    Ok(median(times))
}

fn stopped(gpu: &Gpu) -> Outcome {
    let (stream, writer) = (gpu.stream()?, gpu.stream()?);
    let (flag, reply) = (gpu.allocate(Allocation::Malloc, 4)?, gpu.pinned(4)?);
    writer.write(&flag, 0, &[0; 4])?;
    stream.ping_pong(&flag, &reply, 10)?;
    std::thread::sleep(MOMENT);
    ensure(!stream.is_idle()?, "it did not wait")?;
    writer.write(&flag, 0, &[0xff; 4])?;
    stream.synchronize_within(TIMEOUT)?;
    ensure(
        reply.load_u32(0)? == u32::MAX,
        "it did not say that it stopped",
    )?;
    Ok(String::new())
}

fn astray(gpu: &Gpu) -> Outcome {
    let stream = gpu.stream()?;
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

fn held_to_its_limit(gpu: &Gpu) -> Outcome {
    let (stream, gate) = (gpu.stream()?, gpu.pinned(4)?);
    let start = Instant::now();
    stream.hold(&gate, MOMENT)?;
    stream.synchronize_within(TIMEOUT)?;
    let took = start.elapsed();
    ensure(took >= MOMENT, format!("it waited {took:?} of {MOMENT:?}"))?;
    Ok(format!("after {took:?} of {MOMENT:?}"))
}

fn timeout(gpu: &Gpu) -> Outcome {
    let stream = gpu.stream()?;
    let word = gpu.pinned(4)?;
    stream.batch(&[MemOp::wait32(&word, 0, 1, Compare::Eq)?])?;
    let seen = stream.synchronize_within(Duration::from_millis(20));
    word.store_u32(0, 1)?;
    stream.synchronize_within(TIMEOUT)?;
    match seen {
        Err(Error::Timeout { .. }) => Ok(String::new()),
        other => Err(format!("{other:?}").into()),
    }
}

fn median(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    format!(
        "median {:?}, 5% {:?}, 95% {:?}, least {:?}",
        at(50),
        at(5),
        at(95),
        at(0)
    )
}
