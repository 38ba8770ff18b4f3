//! Tries on a GPU what no `gdr probe` does: `exercise_gpu [ORDINAL | sim]`. Prints a line for each
//! trial, and fails if one that must work does not. Copies, kernels and peers are `gdr probe host`,
//! `p2p` and `copy`, attributes `gdr doctor --live`.
//!
//! On a real GPU it proves every condition of stream memory operations, that a kernel that waits
//! ends, that access between GPUs is counted, what CUDA says of memory that others allocated, and
//! that the contexts and captures of other code are left alone.

mod batches;
mod borrowed;
mod foreign;
mod manners;
mod peers;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use gpu::{Allocation, Gpu};

/// Whatever went wrong, with its causes.
pub type Outcome<T = String> = Result<T, Box<dyn std::error::Error>>;

/// Every kind of memory.
pub const KINDS: [Allocation; 6] = [
    Allocation::Malloc,
    Allocation::Create {
        exportable: false,
        rdma: false,
    },
    Allocation::Create {
        exportable: true,
        rdma: true,
    },
    Allocation::Pool { exportable: false },
    Allocation::Pool { exportable: true },
    Allocation::Managed,
];

fn main() -> Outcome<ExitCode> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let mut report = Report::default();
    let before = Instant::now();
    let gpu = match argument.as_str() {
        "sim" => Gpu::sim(),
        ordinal => Gpu::open(ordinal.parse()?)?,
    };
    report.say(format_args!(
        "opened in {:.1} ms",
        before.elapsed().as_secs_f64() * 1e3
    ))?;
    report.trial("load kernels", || {
        Ok(gpu.load_kernels().map(|()| String::new())?)
    })?;
    let (free, _) = gpu.memory_info()?;

    batches::run(&mut report, &gpu)?;
    borrowed::run(&mut report, &gpu)?;
    match peers::other(&gpu)? {
        Some(other) => peers::run(&mut report, &gpu, &other)?,
        None => report.say("no    a second GPU")?,
    }
    if !gpu.is_sim() {
        foreign::run(&mut report, &gpu)?;
    }
    manners::run(&mut report, &gpu)?;

    let (left, _) = gpu.memory_info()?;
    report.say(format_args!("memory free before {free}, after {left}"))?;
    report.say(format_args!(
        "{} trials, {} failed",
        report.tried, report.failed
    ))?;
    Ok(if report.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What was tried, and how much of it failed.
#[derive(Default)]
pub struct Report {
    tried: u32,
    failed: u32,
}

impl Report {
    /// Tries something that must work.
    pub fn trial(&mut self, name: impl Display, body: impl FnOnce() -> Outcome) -> io::Result<()> {
        self.tried += 1;
        let start = Instant::now();
        let outcome = body();
        let took = start.elapsed().as_secs_f64() * 1e3;
        match outcome {
            Ok(words) => self.say(format_args!("ok    {name} ({took:.2} ms) {words}")),
            Err(error) => {
                self.failed += 1;
                self.say(format_args!(
                    "FAIL  {name} ({took:.2} ms) {}",
                    gpu::sentence(&*error)
                ))
            }
        }
    }

    /// Tries something that may well not work here, and says which.
    pub fn maybe(&mut self, name: impl Display, body: impl FnOnce() -> Outcome) -> io::Result<()> {
        match body() {
            Ok(words) => self.say(format_args!("yes   {name} {words}")),
            Err(error) => self.say(format_args!("no    {name}: {}", gpu::sentence(&*error))),
        }
    }

    pub fn say(&self, words: impl Display) -> io::Result<()> {
        writeln!(io::stdout(), "{words}")
    }
}

/// An error unless `condition`.
pub fn ensure(condition: bool, words: impl Into<String>) -> Outcome<()> {
    if condition {
        Ok(())
    } else {
        Err(words.into().into())
    }
}
