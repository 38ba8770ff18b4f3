//! What the programs around a job's libraries say of a failure: Python, PyTorch, launchers, the kernel, frameworks.
//!
//! A failure outside GPUDirect, such as memory that ran out or an exception of one rank, is named as what it is. What a program without a
//! job prints too counts only in the log of one.

mod block;
mod ended;
mod framework;
mod launcher;
mod number;
pub mod prefix;
mod python;
mod texts;
mod torch;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::block::{Block, HOST, STALLED};
use self::prefix::Prefixed;
use self::texts::RETRIED;
use super::collector::Collector;
use super::failure::{Detail, Failure};
use crate::model::FailureKind;

pub use self::python::is_exception;

/// Texts that each line of interest has.
pub const WORDS: [&str; 88] = [
    " received at time=",
    "Segfault encountered",
    " waiting for clients. ",
    "oo many open files",
    " items of ancdata",
    "ould not resolve hostname",
    "host not found: ",
    "IPv4 network addresses of (",
    " received by PID ",
    "died with <Signals.",
    " death signal, ",
    "waitForInput: ",
    "monitoredBarrier",
    "milliseconds before timing out",
    "\", line ",
    "[launch.py:",
    "Traceback (most recent call last)",
    "Error: ",
    "Exception: ",
    "what():  ",
    "ut of memory",
    "ut of shared memory",
    "OutOfMemory",
    "RESOURCE_EXHAUSTED",
    "emory pressure (OOM)",
    "low on memory",
    "memory usage threshold",
    "OOMKilled",
    "oom-kill",
    "oom_kill",
    "Out Of Memory",
    "bad_alloc",
    "exitcode: ",
    "exits with return code",
    "Root Cause (first observed failure)",
    "exited on",
    "Caught signal ",
    "Signal: ",
    "killed by signal: ",
    "terminated with signal SIG",
    "Fatal Python error",
    "got signal: ",
    "(core dumped)",
    "srun: error: ",
    "slurmstepd: error: ",
    "has lost communication with ",
    "BAD TERMINATION OF ONE",
    "exited with non-zero status",
    "EADDRINUSE",
    "Address already in use",
    "endezvousTimeoutError",
    "endezvousConnectionError",
    "endezvousClosedError",
    "client socket has timed out",
    "connect() timed out",
    "store based barrier",
    "Watchdog caught collective operation",
    "watchdog got stuck for ",
    "watchdog thread terminated",
    "Heartbeat monitor timed out",
    "due to a collective timeout from ",
    "Mooncake Transfer Engine Return Error",
    "Timeout at NCCL work",
    "is setting up NCCL communicator",
    "mismatch between collectives",
    "gloo/transport",
    "orker exit detail: ",
    "marked dead",
    "issing ranks:",
    "arrier timed out",
    "cluster registration failed",
    "GetKeyValue() timed out",
    "heartbeat timeout",
    "Scheduler hit an exception",
    "[TensorRT-LLM][ERROR]",
    "NCCL operation ",
    "unhandled system error",
    "unhandled cuda error",
    " NCCL failure ",
    "NCCL error",
    HOST,
    " returned non-zero exit status ",
    "unable to reliably start one or more daemons",
    "daemon has unexpectedly failed after launch",
    "failed to connect to any network address",
    "busy or unavailable",
    "no GPUs found",
    "Cuda failure ",
];

/// Texts of launchers and of their frames in a traceback, which show that a log is of a job.
const LAUNCHERS: [&str; 13] = [
    "sglang/srt/",
    "vllm/distributed/",
    "ray.exceptions.",
    ". Ray killed this worker",
    "gloo/transport",
    "[launch.py:",
    "torch/distributed/run.py",
    "torch/distributed/launch",
    "torch/distributed/elastic",
    "torch/distributed/distributed_c10d.py",
    "ProcessGroupNCCL",
    "[c10d]",
    "watchdog thread terminated with",
];

/// Lines in which a traceback may still end.
const LONGEST_TRACEBACK: u32 = 64;

/// Lines after an exception, and no other failure among them, that show that the program handled it: more than what other ranks say
/// while a job ends.
const WENT_ON: u64 = 60;

/// Lines after an exception, and no other failure among them, from which on it is a question whether the program handled it: a process that
/// ends by it writes fewer.
const GOES_ON: u64 = 10;

/// Texts of an exception that ended its thread or process.
const UNCAUGHT: [&str; 2] = ["terminated with exception", "what():  "];

/// Failures that wait for the end of the log, and rows of tables that do.
const MAX_PENDING: usize = 1_024;
const MAX_ROWS: usize = 1_024;

/// Longest text of a failure that is kept.
const LONGEST: usize = 160;

/// How the text of a result of NCCL begins.
const RETURNED: &str = "NCCL returned: ";

/// A failure that a line names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    kind: FailureKind,
    rank: Option<u32>,
    /// Empty if there is nothing to add.
    detail: String,
}

/// A line that the next one continues.
const CONTINUED: [&str; 2] = ["exited on", "collective operation timeout:"];

#[derive(Debug, Default)]
pub struct Programs {
    /// With what its heading says alone.
    block: Option<(Block, Vec<Said>)>,
    held: Option<(String, u64)>,
    /// Lines that are left of a traceback.
    traceback: u32,
    /// A launcher or a prefix shows that the log is of a job.
    is_launched: bool,
    /// What NCCL returned, which says little.
    returned: Option<(Said, String, u64)>,
    /// How some process ended, in a table whose first line is not in the log.
    ended: Option<(Said, String, u64)>,
    /// Rows of such a table.
    rows: Vec<(Said, String, u64)>,
    pending: BTreeMap<(FailureKind, Option<u32>), Pending>,
}

/// A failure that a program may have handled.
#[derive(Debug)]
struct Pending {
    said: Said,
    text: String,
    /// Number of its first line.
    number: u64,
    /// Number of the last line that says the same.
    last: u64,
    /// Number of the last line of its log, once it has ended.
    log_end: Option<u64>,
}

impl Pending {
    /// Lines of its log after it.
    fn later(&self, end: u64) -> u64 {
        self.log_end.unwrap_or(end).saturating_sub(self.last)
    }

    /// The log went on for long, so the program did too.
    fn is_survived(&self, end: u64) -> bool {
        self.later(end) > WENT_ON
    }

    /// Whether the program handled it is open.
    fn is_question(&self, end: u64) -> bool {
        self.later(end) > GOES_ON && !UNCAUGHT.iter().any(|text| self.text.contains(text))
    }
}

impl Programs {
    /// The next line belongs to this one.
    pub fn is_open(&self) -> bool {
        self.block.is_some() || self.held.is_some() || self.traceback > 0
    }

    pub fn line(&mut self, line: &str, number: u64, collector: &mut Collector) {
        if let Some((mut held, at)) = self.held.take() {
            held = format!("{} {}", held.trim_end(), line.trim());
            return self.whole(&held, at, collector);
        }
        let end = line.trim_end();
        if CONTINUED.iter().any(|text| end.ends_with(text)) {
            self.held = Some((line.to_owned(), number));
            return;
        }
        self.whole(line, number, collector);
    }

    /// What follows the line is another log of the job.
    pub fn next_log(&mut self, line: u64) {
        for pending in self.pending.values_mut() {
            pending.log_end.get_or_insert(line);
        }
    }

    /// The last log has ended, with this line.
    pub fn end(&mut self, line: u64, collector: &mut Collector) {
        if let Some((held, at)) = self.held.take() {
            self.whole(&held, at, collector);
        }
        self.close(collector);
        let is_of_job = self.is_launched || collector.has_lines() || collector.has_failed();
        let has_failed = collector.has_failed() || self.ended.is_some() || !self.rows.is_empty();
        let pending = std::mem::take(&mut self.pending);
        let is_survived = !has_failed && pending.values().all(|pending| pending.is_survived(line));
        let has_returned = self.returned.is_some();
        let is_question = !has_failed
            && !has_returned
            && pending.values().all(|pending| pending.is_question(line));
        for Pending { mut said, text, number, .. } in pending.into_values() {
            if is_question {
                said.kind = FailureKind::PerhapsHandled;
            }
            // A line that is cut before the words that name its failure.
            let is_cut = said.kind == FailureKind::Exception
                && collector
                    .failures
                    .values()
                    .any(|(quote, _)| quote.text.starts_with(text.trim()));
            if is_of_job && !is_survived && !is_cut {
                report(said, &text, number, collector);
            }
        }
        if let Some((said, text, number)) =
            self.returned.take().filter(|_| !collector.is_explained())
        {
            report(said, &text, number, collector);
        }
        if !collector.has_failed() {
            let rows = std::mem::take(&mut self.rows);
            rows.into_iter().for_each(|(said, text, at)| report(said, &text, at, collector));
        }
        if let Some((said, text, number)) = self.ended.take().filter(|_| !collector.has_failed()) {
            report(said, &text, number, collector);
        }
    }

    fn whole(&mut self, line: &str, number: u64, collector: &mut Collector) {
        let prefixed = prefix::strip(line);
        self.is_launched |=
            prefixed.is_of_process || LAUNCHERS.iter().any(|text| line.contains(text));
        if let Some((block, _)) = &mut self.block {
            if block.line(&prefixed) {
                return;
            }
            self.close(collector);
        }
        let ended = launcher::received(prefixed.text).or_else(|| launcher::command(prefixed.text));
        if let Some(said) = ended {
            self.ended.get_or_insert_with(|| (said, line.to_owned(), number));
        }
        let mut found = self.failures(&prefixed, prefix::is_info(line, prefixed.text));
        found.iter_mut().for_each(|said| said.rank = said.rank.or(prefixed.rank));
        match Block::open(prefixed.text, line, number) {
            Some(block) => self.block = Some((block, found)),
            None => found.into_iter().for_each(|said| self.add(said, line, number, collector)),
        }
    }

    fn close(&mut self, collector: &mut Collector) {
        if let Some((block, heading)) = self.block.take() {
            let (text, number) = (block.text.clone(), block.number);
            let is_row = block.is_row();
            let said = block.said().map_or(heading, |said| vec![said]);
            if is_row {
                let rows = said.into_iter().map(|said| (said, text.clone(), number));
                return self.rows.extend(rows.take(MAX_ROWS.saturating_sub(self.rows.len())));
            }
            said.into_iter().for_each(|said| self.add(said, &text, number, collector));
        }
    }

    fn failures(&mut self, line: &Prefixed<'_>, is_info: bool) -> Vec<Said> {
        let text = line.text;
        let is_in_traceback = self.traceback > 0;
        self.traceback = self.traceback.saturating_sub(1);
        if python::is_of_traceback(text) {
            self.traceback = LONGEST_TRACEBACK;
        }
        let launched = launcher::read(text);
        if !launched.is_empty() {
            self.is_launched = true;
            return launched;
        }
        if is_info {
            return Vec::new();
        }
        if let Some(said) = torch::read(text).or_else(|| framework::read(text)) {
            self.is_launched = true;
            return vec![said];
        }
        let exception = python::exception(text);
        // `Error: 0.31` alone may be a figure.
        let is_end = |name: &str| {
            is_in_traceback || line.is_of_process && !["Error", "Exception"].contains(&name)
        };
        if let Some((name, message)) = exception.filter(|(name, _)| is_end(name)) {
            self.traceback = 0;
            return self.exception(name, message, text).into_iter().collect();
        }
        let thrown = text.trim_start().strip_prefix("what():  ");
        if let Some(kind) = texts::kind(text) {
            return vec![Said { kind, rank: None, detail: short(thrown.unwrap_or(text)) }];
        }
        let thrown = thrown.map(|message| Said {
            kind: FailureKind::Exception,
            rank: None,
            detail: short(message),
        });
        thrown.into_iter().collect()
    }

    /// The end of a traceback.
    fn exception(&mut self, name: &str, message: &str, text: &str) -> Option<Said> {
        if python::is_of_others(name, message) {
            return None;
        }
        let kind = texts::kind(text).unwrap_or(FailureKind::Exception);
        Some(Said { kind, rank: None, detail: short(text) })
    }

    fn add(&mut self, said: Said, line: &str, number: u64, collector: &mut Collector) {
        if said.detail.starts_with(RETURNED) {
            self.returned.get_or_insert_with(|| (said, line.to_owned(), number));
            return;
        }
        let may_pass =
            said.detail.ends_with(STALLED) || said.detail.to_ascii_lowercase().contains(RETRIED);
        if !texts::is_of_any_program(said.kind) && !may_pass {
            return report(said, line, number, collector);
        }
        if self.pending.len() < MAX_PENDING {
            let entry = self.pending.entry((said.kind, said.rank));
            let pending = entry.or_insert_with(|| Pending {
                said,
                text: line.to_owned(),
                number,
                last: number,
                log_end: None,
            });
            (pending.last, pending.log_end) = (number, None);
        }
    }
}

fn report(said: Said, line: &str, number: u64, collector: &mut Collector) {
    let detail = (!said.detail.is_empty()).then_some(Detail::Text(said.detail));
    collector.reported(Failure { kind: said.kind, rank: said.rank, detail }, line, number);
}

/// The start of a text, in one line.
fn short(text: &str) -> String {
    text.trim().chars().take(LONGEST).collect()
}
