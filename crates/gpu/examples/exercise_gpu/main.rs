//! Tests on a GPU what no `gdr probe` does: `exercise_gpu [ORDINAL]`. Prints a line for each test;
//! exit code 1 if one fails.
//!
//! It checks every condition of stream memory operations, that waiting kernels end, what CUDA
//! reports about memory, and that contexts and captures of other code stay untouched. Copies,
//! kernels and peer access are `gdr probe host`, `p2p` and `copy`, registered memory is `gdr probe
//! async`. `tests/sim` covers the simulated GPU.

mod batches;
mod foreign;
mod isolation;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use gpu::{Allocation, Gpu};

pub type Outcome<T = String> = Result<T, Box<dyn std::error::Error>>;

/// All kinds of memory.
pub const KINDS: [Allocation; 6] = [
    Allocation::Malloc,
    Allocation::Create { exportable: false, rdma: false },
    Allocation::Create { exportable: true, rdma: true },
    Allocation::Pool { exportable: false },
    Allocation::Pool { exportable: true },
    Allocation::Managed,
];

fn main() -> Outcome<ExitCode> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let mut report = Report::default();
    let before = Instant::now();
    let gpu = Gpu::open(argument.parse()?)?;
    report.print(format_args!("opened in {:.1} ms", before.elapsed().as_secs_f64() * 1e3))?;
    report.trial("load kernels", || Ok(gpu.load_kernels().map(|()| String::new())?))?;
    let (free, _) = gpu.memory_info()?;

    batches::run(&mut report, &gpu)?;
    foreign::run(&mut report, &gpu)?;
    isolation::run(&mut report, &gpu)?;

    let (after, _) = gpu.memory_info()?;
    report.print(format_args!("memory free before {free}, after {after}"))?;
    report.print(format_args!("{} tests, {} failed", report.count, report.failed))?;
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Counts of tests.
#[derive(Default)]
pub struct Report {
    count: u32,
    failed: u32,
}

impl Report {
    /// Runs a test that must pass.
    pub fn trial(&mut self, name: impl Display, body: impl FnOnce() -> Outcome) -> io::Result<()> {
        self.count += 1;
        let start = Instant::now();
        let outcome = body();
        let took = start.elapsed().as_secs_f64() * 1e3;
        match outcome {
            Ok(words) => self.print(format_args!("ok    {name} ({took:.2} ms) {words}")),
            Err(error) => {
                self.failed += 1;
                self.print(format_args!("FAIL  {name} ({took:.2} ms) {}", gpu::sentence(&*error)))
            }
        }
    }

    /// Runs a test that may fail on this machine, and prints the result.
    pub fn maybe(&mut self, name: impl Display, body: impl FnOnce() -> Outcome) -> io::Result<()> {
        match body() {
            Ok(words) => self.print(format_args!("yes   {name} {words}")),
            Err(error) => self.print(format_args!("no    {name}: {}", gpu::sentence(&*error))),
        }
    }

    pub fn print(&self, words: impl Display) -> io::Result<()> {
        writeln!(io::stdout(), "{words}")
    }
}

/// An error unless `condition`.
pub fn ensure(condition: bool, words: impl Into<String>) -> Outcome<()> {
    if condition { Ok(()) } else { Err(words.into().into()) }
}
