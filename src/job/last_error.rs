//! Failures that a program prints in NCCL's words: `Last error:` and NCCL's text in the next line, as PyTorch writes it, and the errors of
//! nccl-tests. NCCL's own log may lack them.

use super::collector::Collector;
use super::failure::{self, Detail, Failure};
use super::program::prefix;
use crate::model::FailureKind::{self, ConnectionFailed, HostName, OpenFiles};

/// Begins the text of an exception.
const HEADING: &str = "Last error:";

/// A text that is read wherever it stands.
const DUPLICATE: &str = "Duplicate GPU detected : rank ";

/// `Test CUDA failure common.cu:941 'invalid device ordinal'`
const TESTS: &str = "Test CUDA failure ";

/// Texts that each line of interest has.
pub const WORDS: [&str; 3] = [HEADING, DUPLICATE, TESTS];

#[derive(Debug, Default)]
pub struct LastErrors {
    /// The last line was a heading.
    is_next: bool,
}

impl LastErrors {
    /// The next line belongs to this one.
    pub fn is_open(&self) -> bool {
        self.is_next
    }

    pub fn line(&mut self, line: &str, number: u64, collector: &mut Collector) {
        if std::mem::take(&mut self.is_next) {
            return Self::text(line, true, number, collector);
        }
        if let Some((_, rest)) = line.split_once(HEADING) {
            self.is_next = rest.trim().is_empty();
            if !self.is_next {
                Self::text(rest, true, number, collector);
            }
        } else if let Some(failure) = tests(line) {
            collector.reported(failure, line, number);
        } else {
            Self::text(line, false, number, collector);
        }
    }

    /// `is_error`: the text is NCCL's, whatever it says.
    fn text(text: &str, is_error: bool, number: u64, collector: &mut Collector) {
        // Lines of NCCL are read as such; what people write about an error is longer.
        if text.contains("NCCL WARN") {
            return;
        }
        let prefixed = prefix::strip(text);
        let message = text.find(DUPLICATE).map_or(prefixed.text.trim(), |at| text[at..].trim());
        let message = message.rsplit_once("]:").map_or(message, |(_, rest)| rest.trim());
        match failure::warning(message) {
            Some(failure::Warning::Failure(failure)) => {
                // No symptom says more than that a call of the system failed: it is not a quotation.
                let says_more = matches!(failure.kind, ConnectionFailed | OpenFiles | HostName);
                collector.program_lines += u64::from(is_error && says_more);
                collector.reported(failure, text, number);
            }
            None if is_error && !message.is_empty() => {
                let kind = FailureKind::Other;
                let detail = Some(Detail::Text(failure::short(message)));
                let rank = prefixed.rank;
                collector.reported(Failure { kind, rank, detail }, text, number);
            }
            _ => {}
        }
    }
}

fn tests(line: &str) -> Option<Failure> {
    let (_, rest) = line.split_once(TESTS)?;
    let detail = rest.split('\'').nth(1).map(|error| Detail::Text(error.to_owned()));
    Some(Failure { kind: FailureKind::CudaFailure, rank: None, detail })
}
