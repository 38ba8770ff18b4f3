//! The processes of a log, by the headers of their lines.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use memchr::memchr;

use super::header::{Line, Source};

/// Maps that each line of a log is looked up in: the hash of the standard library takes a third of the reader's time.
pub type FastMap<K, V> = HashMap<K, V, RandomState>;

const MAX_PROCESSES: usize = 64 << 10;

/// Headers that are kept, and their longest: lines of one thread repeat theirs.
const MAX_HEADERS: usize = 64 << 10;
const LONGEST_HEADER: usize = 64;

/// A process and the number of a thread.
pub type Thread = (u32, u64);

#[derive(Debug, Default)]
pub struct Processes {
    /// Host and process id.
    all: Vec<(String, u64)>,
    /// By host.
    ids: HashMap<String, FastMap<u64, u32>>,
    /// By the hash of a header: comparing the texts would fetch each from memory for each line.
    headers: FastMap<u64, Thread>,
    hashes: RandomState,
    /// Number of the log, from 0.
    log: u64,
    /// The log has more of them than are kept.
    pub cut: bool,
}

impl Processes {
    /// Number of processes that are kept at most.
    pub const MOST: usize = MAX_PROCESSES;

    /// The lines that follow are of another log.
    pub fn next_log(&mut self) {
        self.log += 1;
        self.headers.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &(String, u64)> {
        self.all.iter()
    }

    pub fn get(&self, at: u32) -> Option<&(String, u64)> {
        self.all.get(at as usize)
    }

    pub fn of(&mut self, source: Source<'_>) -> Option<u32> {
        let known = self.ids.get(source.host);
        if let Some(known) = known.and_then(|of_host| of_host.get(&source.process)) {
            return Some(*known);
        }
        let at = u32::try_from(self.all.len()).ok()?;
        if self.all.len() >= MAX_PROCESSES {
            self.cut = true;
            return None;
        }
        self.all.push((source.host.to_owned(), source.process));
        self.ids.entry(source.host.to_owned()).or_default().insert(source.process, at);
        Some(at)
    }

    /// The thread that printed a line. Lines of a log without a header are of one process.
    pub fn thread(&mut self, line: &Line<'_>) -> Option<Thread> {
        let header = line.header;
        let hash = self.hashes.hash_one(header);
        if let Some(known) = self.headers.get(&hash) {
            return Some(*known);
        }
        let source = line.source();
        let source = source.unwrap_or(Source { process: self.log, ..Source::default() });
        let thread = (self.of(source)?, source.thread);
        if is_repeated(header) && self.headers.len() < MAX_HEADERS {
            self.headers.insert(hash, thread);
        }
        Some(thread)
    }
}

/// A header of `host:pid:tid [gpu] ` alone: a time before it would differ in each line.
fn is_repeated(header: &str) -> bool {
    let blank = memchr(b' ', header.as_bytes());
    let is_gpu = |at: usize| header[at..].starts_with(" [") && header.ends_with("] ");
    header.len() <= LONGEST_HEADER && blank.is_some_and(is_gpu)
}
