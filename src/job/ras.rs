//! What NCCL's RAS client (`ncclras`) prints of a running job: communicators whose ranks differ or do not answer.
//!
//! The wording was read in NCCL's sources (`src/ras/client_support.cc`, 2.24 to 2.28).

use super::collector::Collector;
use super::failure::{Detail, Failure};
use crate::model::FailureKind;

/// In the first line: `NCCL version 2.26.2 compiled with CUDA 12.6`.
pub const HEADING: &str = " compiled with CUDA ";

/// Lines that a report may have after its heading.
const LONGEST: usize = 65_536;

/// Sentences of one report that are kept.
const MAX_SENTENCES: usize = 16;

#[derive(Default)]
pub struct Ras {
    /// Lines that may still be of RAS.
    left: usize,
    open: Option<Open>,
}

/// A report about a communicator: `#0-0 (fa93daea854b060b) MISMATCH`, then indented lines.
struct Open {
    kind: FailureKind,
    text: String,
    number: u64,
    sentences: Vec<String>,
    ranks: Vec<u32>,
}

impl Ras {
    /// The next lines belong to a report.
    pub fn is_open(&self) -> bool {
        self.left > 0
    }

    pub fn line(&mut self, line: &str, number: u64, collector: &mut Collector) {
        if line.contains(HEADING) {
            self.left = LONGEST;
        } else if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            self.report(line, number, collector);
        }
    }

    /// Reports what is still open.
    pub fn end(&mut self, collector: &mut Collector) {
        let Some(open) = self.open.take() else { return };
        let detail = (!open.sentences.is_empty()).then(|| Detail::Text(open.sentences.join("; ")));
        let report = |rank| Failure { kind: open.kind, rank, detail: detail.clone() };
        for rank in &open.ranks {
            collector.reported(report(Some(*rank)), &open.text, open.number);
        }
        if open.ranks.is_empty() {
            collector.reported(report(None), &open.text, open.number);
        }
    }

    fn report(&mut self, line: &str, number: u64, collector: &mut Collector) {
        if let Some(kind) = kind(line) {
            self.end(collector);
            let (sentences, ranks) = (Vec::new(), Vec::new());
            self.open = Some(Open { kind, text: line.to_owned(), number, sentences, ranks });
            return;
        }
        let Some(open) = &mut self.open else { return };
        let Some(text) = line.strip_prefix("  ").map(str::trim).filter(|text| !text.is_empty())
        else {
            return self.end(collector);
        };
        let words: Vec<&str> = text.split(' ').collect();
        match words.as_slice() {
            ["Rank", rank, rest @ ..] => {
                open.ranks.extend(rank.parse::<u32>());
                // `Rank 3 has status ABORT -- GPU 3 …`: the rank alone differs.
                if rest.first() == Some(&"has") {
                    let sentence = text.split(" -- ").next().unwrap_or(text);
                    open.say(sentence);
                }
            }
            _ => open.say(text),
        }
    }
}

impl Open {
    fn say(&mut self, sentence: &str) {
        if self.sentences.len() < MAX_SENTENCES {
            self.sentences.push(sentence.to_owned());
        }
    }
}

/// `#0-0 (27a079b828ff1a75) MISMATCH`
fn kind(line: &str) -> Option<FailureKind> {
    let (number, rest) = line.strip_prefix('#')?.split_once(" (")?;
    let is_number = number.split('-').all(|part| part.parse::<u32>().is_ok());
    let (_, status) = rest.split_once(") ").filter(|_| is_number)?;
    match status.trim() {
        "INCOMPLETE" => Some(FailureKind::RasIncomplete),
        "MISMATCH" => Some(FailureKind::RasMismatch),
        _ => None,
    }
}
