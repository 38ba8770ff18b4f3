//! Stream memory operations with every condition and width, and how waiting kernels end.

use std::time::{Duration, Instant};

use gpu::{Allocation, Compare, Error, Gpu, MemOp};

use crate::{Outcome, Report, ensure};

const TIMEOUT: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(5);

/// Condition, value, word that does not satisfy it, word that does.
const CASES: [(Compare, u64, u64, u64); 7] = [
    (Compare::Geq, 5, 4, 5),
    (Compare::Geq, 0xffff_ffff, 0xffff_fffe, 0x1_0000_0003),
    (Compare::Geq, 5, 0x8000_0005_8000_0005, 0x7000_0000_0000_0006),
    (Compare::Eq, 7, 8, 7),
    (Compare::And, 0x0100_0000, 0xfeff_ffff, 0x0100_0000),
    (Compare::Nor, 0xffff_ffff_feff_ffff, 0x0100_0000, 0),
    (Compare::Nor, u64::MAX >> 1, 0x8000_0000_8000_0000, 0x7000_0000_0000_0000),
];

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    for (compare, value, before, after) in CASES {
        for wide in [false, true] {
            // 64 bits only: the lower half of this NOR is never satisfied.
            if !wide && value == u64::MAX >> 1 {
                continue;
            }
            let name = format!("wait{} {compare:?} {value:#x}", if wide { 64 } else { 32 });
            report.trial(name, || wait_and_release(gpu, wide, compare, value, before, after))?;
        }
    }
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
    report.trial("stopped ping-pong kernel", || stopped(gpu))?;
    report.trial("chase that leaves its list", || chase_out_of_list(gpu))?;
    report.trial("hold kernel ends at its time limit", || hold_to_limit(gpu))?;
    report.trial("timeout of a wait", || timeout(gpu)).map_err(Into::into)
}

fn wait_and_release(
    gpu: &Gpu,
    wide: bool,
    compare: Compare,
    value: u64,
    before: u64,
    after: u64,
) -> Outcome {
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
    stream.synchronize_within(TIMEOUT)?;
    ensure(waited, "the stream did not wait")?;
    Ok(String::new())
}

fn stopped(gpu: &Gpu) -> Outcome {
    let (stream, writer) = (gpu.stream()?, gpu.stream()?);
    let (flag, reply) = (gpu.allocate(Allocation::Malloc, 4)?, gpu.pinned(4)?);
    writer.write(&flag, 0, &[0; 4])?;
    stream.ping_pong(&flag, &reply, 10)?;
    std::thread::sleep(MOMENT);
    ensure(!stream.is_idle()?, "the stream did not wait")?;
    writer.write(&flag, 0, &[0xff; 4])?;
    stream.synchronize_within(TIMEOUT)?;
    ensure(reply.load_u32(0)? == u32::MAX, "the kernel did not report that it stopped")?;
    Ok(String::new())
}

fn chase_out_of_list(gpu: &Gpu) -> Outcome {
    let stream = gpu.stream()?;
    let (list, result) = (gpu.pinned(64)?, gpu.allocate(Allocation::Malloc, 8)?);
    for next in [4, 60, 64, 1 << 32, u64::MAX] {
        list.store_u64(0, next)?;
        stream.chase(&list, 0, 2, 0, &result)?;
        let mut seen = [0; 8];
        stream.read(&result, 0, &mut seen)?;
        ensure(seen == [0xff; 8], format!("link {next:#x} returned {seen:x?}"))?;
    }
    Ok(String::new())
}

fn hold_to_limit(gpu: &Gpu) -> Outcome {
    let (stream, gate) = (gpu.stream()?, gpu.pinned(4)?);
    let start = Instant::now();
    stream.hold(&gate, MOMENT)?;
    stream.synchronize_within(TIMEOUT)?;
    let took = start.elapsed();
    ensure(took >= MOMENT, format!("ended after {took:?}, limit {MOMENT:?}"))?;
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
