//! Warnings that gdr has no kind for. One is a failure if NCCL's trace of the failing call follows in its thread
//! (`NCCL INFO transport/net.cc:288 -> 3`), or if its process writes nothing more that shows progress.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::failure::{Detail, Failure, short};
use crate::model::{FailureKind, Quote};

/// Threads whose warning is kept.
const MAX_THREADS: usize = 4_096;

/// `ncclInProgress` is not an error.
const IN_PROGRESS: u32 = 7;

/// Texts, in lower case, of warnings after which NCCL goes on.
const HARMLESS: [&str; 12] = [
    "falling back",
    "can lead to",
    "ignoring",
    "ignored",
    "is deprecated",
    "failed to ipc register userbuff",
    "maximum retry reached",
    "client reregist",
    "lid change",
    "gid table change",
    "non-fatal async event",
    // TCPX waits on.
    "ctrl timeout cnt",
];

/// A process and a thread; no process for a line that does not say it.
pub type Thread = (Option<u32>, u64);

#[derive(Debug)]
struct Warning {
    kind: FailureKind,
    message: String,
    line: Quote,
    /// Another thread of the process went on after it.
    has_progressed: bool,
}

#[derive(Debug)]
struct Trace {
    detail: Detail,
    /// Its first line.
    line: Quote,
    /// It has reached a function of NCCL's interface.
    is_outermost: bool,
}

#[derive(Debug, Default)]
pub struct Unnamed {
    pending: BTreeMap<Thread, Warning>,
    /// The first trace of threads without a warning.
    traces: BTreeMap<Thread, Trace>,
}

impl Unnamed {
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.traces.is_empty()
    }

    /// Keeps the first warning of a thread: the later ones follow from it.
    pub fn warn(&mut self, thread: Thread, message: &str, quote: impl FnOnce() -> Quote) {
        let lower = message.to_ascii_lowercase();
        if HARMLESS.iter().any(|text| lower.contains(text)) {
            return;
        }
        if self.pending.len() < MAX_THREADS {
            let is_plugin = message.starts_with("NET/OFI") || message.starts_with("NET/Plugin");
            let kind = if is_plugin {
                FailureKind::NetworkPlugin
            } else if is_retry(message) {
                FailureKind::ConnectionFailed
            } else {
                FailureKind::Other
            };
            let warning =
                || Warning { kind, message: short(message), line: quote(), has_progressed: false };
            match self.pending.entry(thread) {
                Entry::Vacant(free) => _ = free.insert(warning()),
                // What follows says how the attempts ended.
                Entry::Occupied(mut known) if is_retry(&known.get().message) => {
                    known.insert(warning());
                }
                Entry::Occupied(_) => {}
            }
        }
    }

    /// The warning that a trace confirms.
    pub fn confirmed(&mut self, thread: Thread) -> Option<(Failure, Quote)> {
        self.pending.remove(&thread).map(Warning::failure)
    }

    /// A call failed without a warning. It is a failure once the trace has reached the function that the program called.
    pub fn trace(&mut self, thread: Thread, message: &str, quote: impl FnOnce() -> Quote) {
        if self.traces.len() < MAX_THREADS || self.traces.contains_key(&thread) {
            let first = || Trace { detail: detail(message), line: quote(), is_outermost: false };
            let trace = self.traces.entry(thread).or_insert_with(first);
            trace.is_outermost |= message.starts_with("init.c") || message.starts_with("group.cc");
        }
    }

    /// The calls that failed without a warning, each with its process.
    pub fn take_traces(&mut self) -> Vec<(Option<u32>, Detail, Quote)> {
        let all = std::mem::take(&mut self.traces);
        all.into_iter()
            .filter(|(_, trace)| trace.is_outermost)
            .map(|((process, _), trace)| (process, trace.detail, trace.line))
            .collect()
    }

    /// A thread went on.
    pub fn progress(&mut self, thread: Thread) {
        self.pending.remove(&thread);
        self.traces.remove(&thread);
        let of_process = (thread.0, 0)..=(thread.0, u64::MAX);
        self.pending.range_mut(of_process).for_each(|(_, warning)| warning.has_progressed = true);
    }

    /// A process has completed a communicator: it got over what it warned of.
    pub fn overcome(&mut self, process: u32) {
        self.pending.retain(|(of, _), _| *of != Some(process));
        self.traces.retain(|(of, _), _| *of != Some(process));
    }

    /// The warnings that are left, each with its process.
    pub fn take(&mut self) -> Vec<(Option<u32>, Failure, Quote)> {
        let all = std::mem::take(&mut self.pending);
        all.into_iter()
            .filter(|(_, warning)| !warning.has_progressed)
            .map(|((process, _), warning)| {
                let (failure, line) = warning.failure();
                (process, failure, line)
            })
            .collect()
    }
}

impl Warning {
    fn failure(self) -> (Failure, Quote) {
        let detail = Some(Detail::Text(self.message));
        (Failure { kind: self.kind, rank: None, detail }, self.line)
    }
}

/// What the code of a trace means.
fn detail(message: &str) -> Detail {
    let code = message.split_once(" -> ").map_or("", |(_, code)| code);
    Detail::Text(match code.split(' ').next() {
        Some("1") => "NCCL returned an error of CUDA".to_owned(),
        Some("2") => "NCCL returned a system error".to_owned(),
        Some("4") => "NCCL was called with an invalid argument".to_owned(),
        Some("5") => "NCCL was called in an invalid way".to_owned(),
        Some("6") => "NCCL returned an error of another rank or of the network".to_owned(),
        _ => "NCCL returned an internal error".to_owned(),
    })
}

/// True for what a process writes while it ends or is aborted.
pub fn is_ending(message: &str) -> bool {
    const STARTS: [&str; 2] = ["[Service thread]", "[Proxy"];
    let is_end = ["Abort COMPLETE", "Destroy COMPLETE", "Abort START", "Destroy START"];
    STARTS.iter().any(|start| message.starts_with(start))
        || is_end.iter().any(|text| message.contains(text))
}

/// `socketPollConnect: connect to 192.0.2.9<5> returned Connection refused, retrying (1/34) after sleep for 100 msec`; up to 2.23
/// `Call to connect returned Connection refused, retrying`
pub fn is_retry(message: &str) -> bool {
    message.contains("onnect") && message.contains(" returned ") && message.contains(", retrying")
}

/// `misc/socket.cc:749 -> 6`, `proxy.cc:872 -> 6 [Progress Thread]`
pub fn is_trace(message: &str) -> bool {
    let Some((place, code)) = message.split_once(" -> ") else { return false };
    let is_place = place.rsplit_once(':').is_some_and(|(file, line)| {
        file.contains('.') && !file.contains(' ') && line.parse::<u32>().is_ok()
    });
    let code = code.split(' ').next().and_then(|code| code.parse::<u32>().ok());
    is_place && code.is_some_and(|code| code != 0 && code != IN_PROGRESS)
}
