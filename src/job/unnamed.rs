//! Warnings that gdr has no kind for. One is a failure if NCCL's trace of the failing call follows in its thread
//! (`NCCL INFO transport/net.cc:288 -> 3`), or if the log ends before any communicator does.

use std::collections::HashMap;

use crate::model::{FailureKind, Quote};

/// Threads whose warning is kept.
const MAX_THREADS: usize = 4_096;

/// `ncclInProgress` is no error.
const IN_PROGRESS: u32 = 7;

/// A process and a thread.
type Thread = (u32, u64);

#[derive(Debug, Default)]
pub struct Unnamed {
    pending: HashMap<Thread, (FailureKind, Quote)>,
}

impl Unnamed {
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Keeps the first warning of a thread: the later ones follow from it.
    pub fn warn(&mut self, thread: Thread, message: &str, quote: impl FnOnce() -> Quote) {
        if self.pending.len() < MAX_THREADS {
            let is_plugin = message.starts_with("NET/OFI") || message.starts_with("NET/Plugin");
            let kind = if is_plugin { FailureKind::NetworkPlugin } else { FailureKind::Other };
            self.pending.entry(thread).or_insert_with(|| (kind, quote()));
        }
    }

    /// The warning that a trace confirms.
    pub fn confirmed(&mut self, thread: Thread) -> Option<(FailureKind, Quote)> {
        self.pending.remove(&thread)
    }

    /// A process has completed a communicator: it got over what it warned of.
    pub fn overcome(&mut self, process: u32) {
        self.pending.retain(|(of, _), _| *of != process);
    }

    /// The warnings that are left, each with its process.
    pub fn take(&mut self) -> Vec<(u32, FailureKind, Quote)> {
        let all = std::mem::take(&mut self.pending);
        all.into_iter().map(|((process, _), (kind, line))| (process, kind, line)).collect()
    }
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
