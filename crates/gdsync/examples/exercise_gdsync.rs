//! Checks on a real GPU that an error CQE ends a stream's wait, with queues of a simulated HCA in host and GPU memory:
//! `exercise_gdsync [ORDINAL | sim]`. `gdr probe async --hca sim` covers successful work.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Hca, QueuePair, Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::{Syndrome, Wqe};
use gdsync::{Allocator, MemoryLocation};
use gpu::{Gpu, Stream};

type Outcome<T = String> = Result<T, Box<dyn std::error::Error>>;

const TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> Outcome<ExitCode> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let (gpu, gdr) = match argument.as_str() {
        "sim" => (Gpu::sim(), Gdr::open_with(BackendKind::Sim)),
        ordinal => (Gpu::open(ordinal.parse()?)?, Gdr::open()),
    };
    let mut locations = vec![("host memory", MemoryLocation::Host)];
    match &gdr {
        Ok(_) => locations.push(("GPU memory", MemoryLocation::Gpu)),
        Err(error) => print(&format!("no    queues in GPU memory: {error}"))?,
    }
    let bench = Bench { stream: gpu.stream()?, allocator: Allocator::new(gpu, gdr.ok()) };
    let mut failed = 0;
    for (name, location) in locations {
        for waiting in [Waiting::Nor, Waiting::WithoutNor] {
            let outcome = failures(&bench, location, waiting);
            failed += u32::from(outcome.is_err());
            match outcome {
                Ok(text) => print(&format!("ok    {name}, {waiting:?}: {text}"))?,
                Err(error) => print(&format!("FAIL  {name}, {waiting:?}: {error}"))?,
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Bench {
    allocator: Allocator,
    stream: Stream,
}

impl Bench {
    /// An HCA and a queue pair connected to itself, with completion queues of four CQEs.
    fn pair(&self, location: MemoryLocation, waiting: Waiting) -> Outcome<(SimHca, QueuePair)> {
        let hca = SimHca::new(self.allocator.clone())?;
        let pair = hca.create(&Request {
            send_completions: 4,
            receive_completions: 4,
            queues: location,
            records: location,
            completions: [location; 2],
            waiting,
            ..Request::default()
        })?;
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())?;
        Ok((hca, pair))
    }
}

/// Errors end waits in passes of either owner bit; without NOR, only in odd passes.
fn failures(bench: &Bench, location: MemoryLocation, waiting: Waiting) -> Outcome {
    let mut ended = 0;
    for before in 0..8 {
        let odd = before / 4 == 1;
        if waiting == Waiting::WithoutNor && !odd {
            continue;
        }
        let (hca, mut pair) = bench.pair(location, waiting)?;
        let syndrome = Syndrome::RemoteAccess;
        hca.inject(pair.send.qpn(), before, Effect::Fail { syndrome, vendor: 0x88 });
        for position in 0..=before {
            let prepared = pair.send.prepare(&Wqe::nop().signalled())?;
            let wait = pair.send_completions.take_wait()?;
            bench.stream.batch(&prepared.operations()?)?;
            bench.stream.batch(&wait.operations(false)?)?;
            bench.stream.synchronize_within(TIMEOUT)?;
            let completion = pair.send_completions.poll()?.ok_or("no completion after the wait")?;
            pair.send.complete(&completion)?;
            let failed = completion.event.failed().map(|failed| failed.syndrome);
            let expected = (position == before).then_some(syndrome);
            ensure(failed == expected, "the syndrome is not the injected one")?;
        }
        ended += 1;
    }
    Ok(format!("{ended} errors ended a wait"))
}

fn ensure(holds: bool, error: &'static str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(error.into()) }
}

fn print(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
