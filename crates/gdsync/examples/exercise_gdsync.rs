//! What the streams of this GPU do with the queues of a software HCA, tried out and checked: `exercise_gdsync [ORDINAL | sim]`. Prints a
//! line a trial, and fails if one does. It needs no NIC.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Access, Hca, QueuePair, Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::{Syndrome, Wqe};
use gdsync::{Allocator, MemoryLocation};
use gpu::{Gpu, Stream};

type Outcome<T = String> = Result<T, Box<dyn std::error::Error>>;
type Trial = fn(&Bench, MemoryLocation, Waiting) -> Outcome;

const TIMEOUT: Duration = Duration::from_secs(20);
const ROUNDS: u32 = 2000;

fn main() -> Outcome<ExitCode> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let (gpu, gdr) = match argument.as_str() {
        "sim" => (Gpu::sim(), Gdr::open_with(BackendKind::Sim)),
        ordinal => (Gpu::open(ordinal.parse()?)?, Gdr::open()),
    };
    let mut locations = vec![("host memory", MemoryLocation::Host)];
    match &gdr {
        Ok(_) => locations.push(("GPU memory", MemoryLocation::Gpu)),
        Err(error) => say(&format!("no    queues in GPU memory: {error}"))?,
    }
    let bench = Bench {
        stream: gpu.stream()?,
        allocator: Allocator::new(gpu, gdr.ok()),
    };
    let mut failed = 0;
    for (name, location) in locations {
        for waiting in [Waiting::Nor, Waiting::WithoutNor] {
            let trials: [(&str, Trial); 3] = [
                ("writes", writes),
                ("messages put in ahead", ahead),
                ("failures", failures),
            ];
            for (what, trial) in trials {
                let outcome = trial(&bench, location, waiting);
                failed += u32::from(outcome.is_err());
                match outcome {
                    Ok(words) => say(&format!("ok    {what}, {name}, {waiting:?}: {words}"))?,
                    Err(error) => say(&format!("FAIL  {what}, {name}, {waiting:?}: {error}"))?,
                }
            }
        }
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Bench {
    allocator: Allocator,
    stream: Stream,
}

impl Bench {
    /// An HCA and a queue pair connected to itself, with completion queues of four.
    fn pair(&self, location: MemoryLocation, waiting: Waiting) -> Outcome<(SimHca, QueuePair)> {
        let hca = SimHca::new(self.allocator.clone())?;
        let pair = hca.create(&Request {
            send_completions: 4,
            receive_completions: 4,
            queues: location,
            records: location,
            completions: location,
            waiting,
            ..Request::default()
        })?;
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())?;
        Ok((hca, pair))
    }
}

/// The stream rings and waits; what it waited for is there.
fn writes(bench: &Bench, location: MemoryLocation, waiting: Waiting) -> Outcome {
    let (hca, mut pair) = bench.pair(location, waiting)?;
    let memory = bench.allocator.place(location, 4096)?;
    let region = hca.register(&memory, Access::ALL)?;
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let word = round.to_le_bytes();
        let entry = Wqe::write(region.remote(64), &[]).inline(&word).signalled();
        let prepared = pair.send.prepare(&entry)?;
        let wait = pair.send_completions.take_wait()?;
        ensure(
            !wait.is_over()?,
            "a wait is over before its doorbell is rung",
        )?;
        bench.stream.batch(&prepared.operations()?)?;
        bench.stream.batch(&wait.operations(false)?)?;
        bench.stream.synchronize_within(TIMEOUT)?;
        let mut seen = [0; 4];
        memory.read(64, &mut seen)?;
        ensure(seen == word, "what was written is not there after the wait")?;
        let completion = pair
            .send_completions
            .poll()?
            .ok_or("the CPU finds no completion")?;
        ensure(
            pair.send.complete(&completion)? == u64::from(round),
            "another entry's completion",
        )?;
    }
    ensure(hca.violations().is_empty(), "the HCA noted violations")?;
    let each = begun.elapsed() / ROUNDS;
    Ok(format!("{ROUNDS} rung and waited for, {each:?} each"))
}

/// Rounds of three messages each, behind a gate: nothing is polled, and nothing sent, before it opens.
fn ahead(bench: &Bench, location: MemoryLocation, waiting: Waiting) -> Outcome {
    let (hca, mut pair) = bench.pair(location, waiting)?;
    let memory = bench.allocator.place(location, 4096)?;
    let region = hca.register(&memory, Access::ALL)?;
    let gate = bench.allocator.place(MemoryLocation::Host, 4)?;
    let rounds = ROUNDS / 20;
    for round in 1..=rounds {
        bench
            .stream
            .batch(&[gate.wait32(0, round, gpu::Compare::Geq)?])?;
        for message in 0..3 {
            pair.receive.post(&[region.segment(message * 64, 64)])?;
            let text = [round as u8; 64];
            let prepared = pair
                .send
                .prepare(&Wqe::send(&[]).inline(&text).signalled())?;
            let mut batch = prepared.operations()?.to_vec();
            batch.extend(pair.receive_completions.take_wait()?.operations(false)?);
            batch.extend(pair.send_completions.take_wait()?.operations(false)?);
            bench.stream.batch(&batch)?;
        }
        ensure(
            pair.receive_completions.poll()?.is_none(),
            "a message before its doorbell",
        )?;
        gate.store_u32(0, round)?;
        bench.stream.synchronize_within(TIMEOUT)?;
        let mut seen = [0; 192];
        memory.read(0, &mut seen)?;
        ensure(
            seen == [round as u8; 192],
            "a message is not there after the wait",
        )?;
        for _ in 0..3 {
            let sent = pair
                .send_completions
                .poll()?
                .ok_or("no completion of a send")?;
            pair.send.complete(&sent)?;
            let received = pair
                .receive_completions
                .poll()?
                .ok_or("no completion of a receive")?;
            pair.receive.complete(&received)?;
        }
    }
    ensure(hca.violations().is_empty(), "the HCA noted violations")?;
    Ok(format!("{rounds} rounds of three"))
}

/// A failure ends a wait, in passes of either owner bit; without NOR, in odd ones.
fn failures(bench: &Bench, location: MemoryLocation, waiting: Waiting) -> Outcome {
    let mut ended = 0;
    for before in 0..8 {
        let odd = before / 4 == 1;
        if waiting == Waiting::WithoutNor && !odd {
            continue;
        }
        let (hca, mut pair) = bench.pair(location, waiting)?;
        let syndrome = Syndrome::RemoteAccess;
        hca.inject(
            pair.send.qpn(),
            before,
            Effect::Fail {
                syndrome,
                vendor: 0x88,
            },
        );
        for position in 0..=before {
            let prepared = pair.send.prepare(&Wqe::nop().signalled())?;
            let wait = pair.send_completions.take_wait()?;
            bench.stream.batch(&prepared.operations()?)?;
            bench.stream.batch(&wait.operations(false)?)?;
            bench.stream.synchronize_within(TIMEOUT)?;
            let completion = pair
                .send_completions
                .poll()?
                .ok_or("the CPU finds no completion")?;
            pair.send.complete(&completion)?;
            let failed = completion.event.failed().map(|failed| failed.syndrome);
            let expected = (position == before).then_some(syndrome);
            ensure(failed == expected, "another outcome than was injected")?;
        }
        ended += 1;
    }
    Ok(format!("{ended} ended a wait"))
}

fn ensure(holds: bool, otherwise: &'static str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
