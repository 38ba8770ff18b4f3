//! Failures that a program prints: `Last error:` and NCCL's text in the next line, as PyTorch writes it, the errors of nccl-tests,
//! and PyTorch's watchdog that is stuck itself. NCCL's own log may lack them.

use memchr::{memchr, memchr_iter, memmem, memrchr};

use super::collector::Collector;
use super::failure::{self, Detail, Failure};
use crate::model::FailureKind;

/// Begins the text of an exception.
const HEADING: &[u8] = b"Last error:";

/// A text that is read wherever it stands.
const DUPLICATE: &str = "Duplicate GPU detected : rank ";

/// `Test CUDA failure common.cu:941 'invalid device ordinal'`
const TESTS: &str = "Test CUDA failure ";

/// A terminal may have cut the line before it.
const STUCK: &str = "s watchdog got stuck for ";

pub struct LastErrors {
    heading: memmem::Finder<'static>,
    duplicate: memmem::Finder<'static>,
    tests: memmem::Finder<'static>,
    stuck: memmem::Finder<'static>,
    /// The last line was a heading.
    is_next: bool,
}

impl Default for LastErrors {
    fn default() -> Self {
        Self {
            heading: memmem::Finder::new(HEADING),
            duplicate: memmem::Finder::new(DUPLICATE),
            tests: memmem::Finder::new(TESTS),
            stuck: memmem::Finder::new(STUCK),
            is_next: false,
        }
    }
}

impl LastErrors {
    /// Reads complete lines, of which the first has this number.
    pub fn read(&mut self, bytes: &[u8], number: u64, collector: &mut Collector) {
        if std::mem::take(&mut self.is_next) && !bytes.is_empty() {
            Self::line(line_at(bytes, 0), number, collector);
        }
        for found in self.heading.find_iter(bytes) {
            let end = found + HEADING.len();
            let rest = line_at(bytes, end);
            let next = end + rest.len() + 1;
            let number = number + newlines(&bytes[..found]);
            if !rest.trim_ascii().is_empty() {
                Self::line(rest, number, collector);
            } else if next < bytes.len() {
                Self::line(line_at(bytes, next), number + 1, collector);
            } else {
                self.is_next = true;
            }
        }
        for found in self.duplicate.find_iter(bytes) {
            let start = memrchr(b'\n', &bytes[..found]).map_or(0, |end| end + 1);
            let line = line_at(bytes, start);
            Self::line(line, number + newlines(&bytes[..start]), collector);
        }
        for (finder, read) in [(&self.tests, tests as fn(&str) -> _), (&self.stuck, stuck)] {
            for found in finder.find_iter(bytes) {
                let start = memrchr(b'\n', &bytes[..found]).map_or(0, |end| end + 1);
                let text = String::from_utf8_lossy(line_at(bytes, start));
                if let Some(failure) = read(&text) {
                    collector.reported(failure, &text, number + newlines(&bytes[..start]));
                }
            }
        }
    }

    fn line(line: &[u8], number: u64, collector: &mut Collector) {
        let text = String::from_utf8_lossy(line);
        // Lines of NCCL are read as such; what people write about an error is longer.
        if text.contains("NCCL WARN") {
            return;
        }
        let message = text.find(DUPLICATE).map_or(text.trim(), |at| text[at..].trim());
        // torchrun and Ray write the rank before the text.
        let message = message.rsplit_once("]:").map_or(message, |(_, rest)| rest.trim());
        if let Some(failure::Warning::Failure(failure)) = failure::warning(message) {
            collector.reported(failure, &text, number);
        }
    }
}

fn tests(line: &str) -> Option<Failure> {
    let (_, rest) = line.split_once(TESTS)?;
    let detail = rest.split('\'').nth(1).map(|error| Detail::Text(error.to_owned()));
    Some(Failure { kind: FailureKind::CudaFailure, rank: None, detail })
}

/// `[PG ID 2 PG GUID 3 Rank 0] ProcessGroupNCCL's watchdog got stuck for 300 seconds`
fn stuck(line: &str) -> Option<Failure> {
    let (head, rest) = line.split_once(STUCK)?;
    let seconds: u32 = rest.split(' ').next()?.parse().ok()?;
    let rank = head.rsplit_once("Rank ").and_then(|(_, rest)| rest.split(']').next()?.parse().ok());
    let detail = format!("the watchdog itself got stuck for {seconds} s in a call of CUDA or NCCL");
    let kind = FailureKind::WatchdogTimeout;
    Some(Failure { kind, rank, detail: Some(Detail::Text(detail)) })
}

fn line_at(bytes: &[u8], start: usize) -> &[u8] {
    let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |end| start + end);
    &bytes[start..end]
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}
