//! Finds NCCL's lines in a stream of any size. Other lines cost one search for a word.

use memchr::{memchr, memchr_iter, memchr2, memmem, memrchr};

use super::around::Around;
use super::bare::Bare;
use super::collector::Collector;
use super::flat;
use super::last_error::LastErrors;
use super::library::{self, Libraries};
use super::program::{Programs, prefix};
use super::ras::Ras;
use super::{build, why, words};
use crate::code::{is_code, is_traceback, may_be_code};
use crate::model::Job;

/// NCCL's lines have this word.
const WORD: &[u8] = b"NCCL";

/// A longer line is not NCCL's: its start is dropped.
const LONGEST: usize = 64 << 10;

/// What stands before a message of NCCL is shorter: a header, and what launchers write before it.
const LONGEST_HEADER: usize = 256;

/// What is read of a line that is not NCCL's.
const READ: usize = 4 << 10;

/// Takes a log in pieces of any size.
pub struct JobReader {
    /// An incomplete last line.
    rest: Vec<u8>,
    /// Number of the line that `rest` begins.
    line: u64,
    word: memmem::Finder<'static>,
    collector: Collector,
    last_errors: LastErrors,
    ras: Ras,
    libraries: Libraries,
    programs: Programs,
    bare: Bare,
}

impl Default for JobReader {
    fn default() -> Self {
        Self {
            rest: Vec::new(),
            line: 1,
            word: memmem::Finder::new(WORD),
            collector: Collector::default(),
            last_errors: LastErrors::default(),
            ras: Ras::default(),
            libraries: Libraries::default(),
            programs: Programs::default(),
            bare: Bare::default(),
        }
    }
}

impl JobReader {
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if !self.rest.is_empty() {
            let Some(end) = memchr(b'\n', bytes) else {
                return self.keep(bytes);
            };
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(&bytes[..=end]);
            self.read(&line);
            bytes = &bytes[end + 1..];
        }
        let complete = memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        self.read(&bytes[..complete]);
        self.keep(&bytes[complete..]);
    }

    /// True if some line may be a job's.
    pub fn has_lines(&self) -> bool {
        self.collector.has_lines()
    }

    /// Number of the next line, from 1; it grows over all logs.
    pub fn next_line(&self) -> u64 {
        self.line
    }

    /// Ends a log: what follows is another one of the same job.
    pub fn next_log(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.read(&rest);
        self.line += u64::from(!rest.is_empty());
        self.programs.next_log(self.line);
        self.collector.next_log();
    }

    /// The job; `None` if the text is not a log of one.
    pub fn finish(self) -> Option<Job> {
        self.finish_in(&Around::default())
    }

    /// The job, of which the rest of the text says more.
    pub fn finish_in(mut self, around: &Around<'_>) -> Option<Job> {
        let rest = std::mem::take(&mut self.rest);
        self.read(&rest);
        self.bare.end(&mut self.collector);
        self.ras.end(&mut self.collector);
        self.programs.end(self.line, &mut self.collector);
        self.collector.end();
        self.collector.add_settings(around.settings);
        let is_job = self.collector.is_job(around.is_explained);
        let excluded = why::excluded(&self.collector);
        if !is_job && (around.is_explained || excluded.is_empty()) {
            return None;
        }
        let mut job = build::job(&self.collector);
        job.lost = why::lost(&self.collector, &job);
        job.lost.extend(excluded);
        job.lost.extend(library::lost(&self.collector.libraries, &self.collector.settings));
        Some(job)
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > LONGEST {
            self.rest.drain(..self.rest.len() - LONGEST / 2);
        }
    }

    /// Reads complete lines.
    fn read(&mut self, bytes: &[u8]) {
        // Most logs have no other line ends, and are valid: one look at all of it costs less than one at each line.
        let text = str::from_utf8(bytes).ok().filter(|_| memchr2(b'\r', b'\\', bytes).is_none());
        let mut at = 0;
        while let Some(found) = self.word.find(&bytes[at..]).map(|found| at + found) {
            let start = memrchr(b'\n', &bytes[at..found]).map_or(at, |end| at + end + 1);
            let end = memchr(b'\n', &bytes[found..]).map_or(bytes.len(), |end| found + end);
            self.others(&bytes[at..start]);
            match text.and_then(|text| text.get(start..end)) {
                Some(text) if self.word.find(&bytes[found + WORD.len()..end]).is_none() => {
                    self.single(text, found - start);
                }
                _ => self.line(&bytes[start..end]),
            }
            at = end;
        }
        self.others(&bytes[at..]);
    }

    /// A line that has the word here alone.
    fn single(&mut self, text: &str, at: usize) {
        let line = text.as_bytes();
        if may_be_code(&line[..at]) && is_code(line) {
            return;
        }
        if !self.collector.single(text, at, self.line) {
            if !self.flat(line, false) {
                self.other(line, false);
            }
        } else if at > LONGEST_HEADER {
            self.other(&line[..at], false);
        }
    }

    /// What stands in a line before its first message of NCCL: a paste without line ends has an exception there.
    fn before(&mut self, line: &[u8]) {
        let is_message = |at: &usize| {
            let rest = &line[at + WORD.len()..];
            rest.starts_with(b" INFO ") || rest.starts_with(b" WARN ")
        };
        let first = self.word.find_iter(line).find(is_message);
        if let Some(at) = first.filter(|at| *at > LONGEST_HEADER) {
            self.other(&line[..at], false);
        }
    }

    /// Lines that are not NCCL's, after the end of one that may be.
    fn others(&mut self, bytes: &[u8]) {
        // Most lines of a log of NCCL follow each other.
        if bytes == b"\n" {
            self.line += 1;
            return;
        }
        let (end, bytes) = bytes.split_at(usize::from(bytes.starts_with(b"\n")));
        self.line += end.len() as u64;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let Some(found) = self.is_open().then_some(0).or_else(|| words::find(rest)) else {
                break;
            };
            let start = memrchr(b'\n', &rest[..found]).map_or(0, |end| end + 1);
            let end = memchr(b'\n', &rest[found..]).map_or(rest.len(), |end| found + end);
            self.line += newlines(&rest[..start]);
            let line = &rest[start..end];
            // What follows an open line is its rest: a traceback has code.
            if !self.flat(line, true) && (self.is_open() || !is_code(line)) {
                self.other(line, true);
            }
            self.line += u64::from(end < rest.len());
            at += end + 1;
        }
        self.line += newlines(bytes.get(at..).unwrap_or_default());
    }

    /// The next line belongs to the last one.
    fn is_open(&self) -> bool {
        self.programs.is_open()
            || self.libraries.is_open()
            || self.last_errors.is_open()
            || self.ras.is_open()
    }

    /// Reads a traceback in one line, as a copy into a chat or into JSON has it; false if the line has none.
    fn flat(&mut self, line: &[u8], has_library: bool) -> bool {
        if !is_traceback(line) || is_code(line) {
            return false;
        }
        let text = String::from_utf8_lossy(line);
        let lines = flat::lines(&text);
        lines.iter().for_each(|line| self.other(line.as_bytes(), has_library));
        !lines.is_empty()
    }

    /// A line that is not NCCL's. `has_library`: it may be another library's.
    fn other(&mut self, line: &[u8], has_library: bool) {
        let text = String::from_utf8_lossy(&line[..line.len().min(READ)]);
        let (number, collector) = (self.line, &mut self.collector);
        let found = words::of(&text);
        if found.is_ras || self.ras.is_open() {
            self.ras.line(&text, number, collector);
        }
        if found.is_last_error || self.last_errors.is_open() {
            self.last_errors.line(&text, number, collector);
        }
        if has_library && (found.library.is_some() || self.libraries.is_open()) {
            self.libraries.line(&text, found.library, number, collector);
        }
        if found.is_program || self.programs.is_open() {
            self.programs.line(&text, number, collector);
        }
        if found.is_old {
            collector.old(&text, number);
        } else if found.is_path {
            self.bare.line(prefix::strip(&text).text, number);
        }
    }

    /// A line; as part of JSON it may hold several, and a progress bar ends in a carriage return.
    fn line(&mut self, line: &[u8]) {
        let before = &line[..self.word.find(line).unwrap_or_default()];
        if may_be_code(before) && is_code(line) {
            return;
        }
        let is_read = match str::from_utf8(line) {
            Ok(text) if memchr2(b'\r', b'\\', line).is_none() => {
                self.collector.line(text, self.line)
            }
            _ => {
                let text = String::from_utf8_lossy(line);
                let parts = text.split('\r').flat_map(|part| part.split("\\n"));
                // Each part is read.
                parts.filter(|part| self.collector.line(part, self.line)).count() > 0
            }
        };
        if is_read {
            self.before(line);
        } else if !self.flat(line, false) {
            self.other(line, false);
        }
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}
