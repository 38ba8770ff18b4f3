//! Stress test of the RM backend on a real GPU: `rm_stress [--minutes N] [--seed N] [--only KINDS]
//! [--without KINDS] [--nobody] [--sim]`.
//!
//! KINDS is a comma-separated list of [`KINDS`]. All kinds run at once, each in several threads.
//! Counts are printed every 30 seconds. Exit code 0: no error; 1: an error; 2: usage; 3: a thread
//! made no progress for [`HANG`]. `--sim` runs the same work on a simulated GPU, which proves
//! nothing about the RM backend.

mod footprint;
#[path = "../exercise_gdrcopy/machine.rs"]
mod machine;
mod rounds;
mod stale;
mod watch;

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gpu::{Allocation, Gpu, Pattern, Stream};

use footprint::{Footprint, footprint};
use machine::{ALLOCATIONS, become_nobody};
use watch::{Watch, Worker};

type Outcome = Result<(), Box<dyn Error>>;
type Round = fn(&Setup, &Worker, &mut Random, &Stream) -> Outcome;

/// A thread without progress for this long hangs. The longest step copies 64 MiB while all
/// processors are busy.
const HANG: Duration = Duration::from_secs(90);
/// Number of errors that end the run.
const MAX_WRONG: usize = 20;

/// Name, number of threads, and the round that each thread repeats.
const KINDS: [(&str, usize, Round); 6] = [
    ("copy", 8, rounds::copy),
    ("reuse", 6, stale::reuse),
    ("fork", 3, rounds::fork),
    ("witness", 1, rounds::witness),
    ("engine", 2, rounds::engine),
    ("spin", 4, rounds::spin),
];

struct Setup {
    gdr: Gdr,
    gpu: Gpu,
    /// Only used between rounds.
    stream: Stream,
    watch: Watch,
    witnesses: Vec<rounds::Witness>,
}

/// SplitMix64, for sizes and orders.
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn allocation(&mut self) -> Allocation {
        ALLOCATIONS[self.below(ALLOCATIONS.len())]
    }

    fn pattern(&mut self) -> Pattern {
        Pattern::new(self.next())
    }
}

struct Arguments {
    minutes: f64,
    seed: u64,
    kinds: Vec<&'static str>,
    is_nobody: bool,
    is_sim: bool,
}

fn main() {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            let kinds = KINDS.map(|(name, ..)| name).join(", ");
            let _ = writeln!(std::io::stderr(), "rm_stress: {why}; kinds are {kinds}");
            std::process::exit(2);
        }
    };
    let code = match run(&arguments) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "rm_stress: {}", gpu::sentence(&*error));
            1
        }
    };
    std::process::exit(code);
}

fn arguments() -> Result<Arguments, String> {
    let mut chosen = Arguments {
        minutes: 10.0,
        seed: std::process::id().into(),
        kinds: KINDS.map(|(name, ..)| name).to_vec(),
        is_nobody: false,
        is_sim: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let invalid = |value: &str| format!("invalid value of {word}: {value}");
        match word.as_str() {
            "--nobody" => chosen.is_nobody = true,
            "--sim" => chosen.is_sim = true,
            "--minutes" => {
                let text = value()?;
                let minutes =
                    text.parse().ok().filter(|minutes: &f64| *minutes > 0.0 && *minutes < 1e6);
                chosen.minutes = minutes.ok_or(invalid(&text))?;
            }
            "--seed" => {
                let text = value()?;
                chosen.seed = text.parse().map_err(|_| invalid(&text))?;
            }
            "--only" | "--without" => {
                let text = value()?;
                let named: Vec<&str> = text.split(',').collect();
                if let Some(unknown) =
                    named.iter().find(|name| KINDS.iter().all(|(kind, ..)| kind != *name))
                {
                    return Err(invalid(unknown));
                }
                let is_only = word == "--only";
                chosen.kinds.retain(|kind| named.contains(kind) == is_only);
            }
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(chosen)
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    if arguments.is_nobody {
        become_nobody()?;
    }
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` lives through the call. Children that fault by design leave no core dumps.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    let (gdr, gpu) = if arguments.is_sim {
        print_line(
            "SIMULATION: no GPU and no resource manager is used; this proves nothing about the RM backend",
        )?;
        (Gdr::open_with(BackendKind::Sim)?, Gpu::sim())
    } else {
        (Gdr::open_with(BackendKind::Rm)?, Gpu::open(0)?)
    };
    let (minutes, seed, kinds) = (arguments.minutes, arguments.seed, &arguments.kinds);
    print_line(&format!(
        "backend {}, {}, {minutes} minutes, seed {seed}, {}",
        gdr.backend(),
        gpu.device().name,
        kinds.join(" ")
    ))?;
    let setup = Setup {
        stream: gpu.stream()?,
        witnesses: rounds::witnesses(&gdr, &gpu, seed)?,
        watch: Watch::default(),
        gdr,
        gpu,
    };
    // The first part fills what the driver, CUDA and the backend keep; what grows after it is a
    // leak.
    let whole = Duration::from_secs_f64(minutes * 60.0);
    let first = (whole / 10).min(Duration::from_secs(30));
    phase(&setup, kinds, seed, first);
    let before = footprint(&setup)?;
    phase(&setup, kinds, !seed, whole.saturating_sub(first));
    let after = footprint(&setup)?;
    print_line(&format!("after {first:.0?}: {before:?}\nat the end: {after:?}"))?;
    for leak in leaks(&before, &after) {
        setup.watch.wrong(&format!("leak: {leak}"));
    }
    // On a GPU without contention nearly every second one is; in a short run of one kind, none may
    // be requested.
    for count in ["reuse: the same address again", "fork: children"] {
        let kind = count.split(':').next().unwrap_or_default();
        if kinds.contains(&kind) && setup.watch.number(count) == 0 {
            setup.watch.wrong(&format!("never happened: {count}"));
        }
    }
    setup.watch.table("final");
    let wrong = setup.watch.wrongs();
    print_line(&format!("{wrong} wrong{}", if arguments.is_sim { " (SIMULATION)" } else { "" }))?;
    Ok(wrong == 0)
}

/// Runs all threads of all kinds for this time.
fn phase(setup: &Setup, kinds: &[&str], seed: u64, length: Duration) {
    let end = Instant::now() + length;
    std::thread::scope(|scope| {
        let mut number = 0;
        for (kind, threads, round) in KINDS.iter().filter(|(kind, ..)| kinds.contains(kind)) {
            for index in 0..*threads {
                number += 1;
                let worker = setup.watch.worker(kind, index);
                let mut random = Random(seed ^ (number << 48));
                scope.spawn(move || {
                    match setup.gpu.stream() {
                        Ok(stream) => {
                            while Instant::now() < end && setup.watch.wrongs() < MAX_WRONG {
                                if let Err(error) = round(setup, &worker, &mut random, &stream) {
                                    let (step, error) =
                                        (worker.step_name(), gpu::sentence(&*error));
                                    setup
                                        .watch
                                        .wrong(&format!("{} at {step}: {error}", worker.name()));
                                }
                            }
                        }
                        Err(error) => setup.watch.wrong(&format!(
                            "{}: {}",
                            worker.name(),
                            gpu::sentence(&error)
                        )),
                    }
                    worker.end();
                });
            }
        }
        scope.spawn(|| setup.watch.until_all_ended());
    });
}

fn leaks(before: &Footprint, after: &Footprint) -> Vec<String> {
    let mut leaks = Vec::new();
    // The CUDA driver keeps a file or a block now and then; a leak of the backend would be one for
    // each of many thousand rounds.
    let mut limit = |what: &str, before: u64, after: u64, more: u64| {
        if after > before + more {
            leaks.push(format!("{what}: {before} before, {after} after"));
        }
    };
    limit("open files", before.files as u64, after.files as u64, 16);
    limit("mappings", before.mappings as u64, after.mappings as u64, 400);
    limit("bytes of GPU memory", before.memory, after.memory, 256 << 20);
    limit("MiB of BAR1", before.bar1.unwrap_or(0), after.bar1.unwrap_or(0), 256);
    leaks
}

fn print_line(line: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
