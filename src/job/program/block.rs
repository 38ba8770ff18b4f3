//! Messages of several lines: what follows a heading belongs to it.

use super::Said;
use super::ended::{self, End};
use super::launcher;
use super::number::first;
use super::prefix::Prefixed;
use crate::model::FailureKind;

/// Lines that may follow a heading.
const LONGEST: u32 = 16;

/// What ranks did not do, by Horovod's warning of a stall. They may do it later.
pub const STALLED: &str = "submit what the others wait for";

/// How torchrun names the host of a row (`_FAILURE_FORMAT_TEMPLATE` of torch/distributed/elastic/multiprocessing/errors/__init__.py, 1.9 to
/// 2.9).
pub const HOST: &str = "host      : ";

/// Ranks that one message names.
const MAX_RANKS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// torchrun's table of the first failure.
    First { rank: Option<u32>, host: Option<String>, end: Option<End> },
    /// A row of that table.
    Row { rank: Option<u32>, host: Option<String>, end: Option<End> },
    /// Open MPI's launcher lost a node.
    Daemon { node: Option<String> },
    /// MPICH's launcher.
    Hydra { node: Option<String>, end: Option<End> },
    /// Open MPI's and Horovod's launchers: a process with an exit status.
    Process { rank: Option<u32>, end: Option<End> },
    /// Horovod: the ranks whose tensors are missing.
    Missing { ranks: Vec<u32> },
    /// XLA: the tasks that did not reach a barrier.
    Tasks { ranks: Vec<u32> },
}

#[derive(Debug)]
pub struct Block {
    kind: Kind,
    left: u32,
    is_complete: bool,
    /// The heading.
    pub text: String,
    pub number: u64,
}

impl Block {
    pub fn open(text: &str, line: &str, number: u64) -> Option<Self> {
        let kind = if text.contains("Root Cause (first observed failure)") {
            Kind::First { rank: None, host: None, end: None }
        } else if let Some(host) = text.trim_start().strip_prefix(HOST) {
            Kind::Row { rank: None, host: Some(host.trim().to_owned()), end: None }
        } else if text.contains("has lost communication with ") {
            Kind::Daemon { node: None }
        } else if text.contains("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES") {
            Kind::Hydra { node: None, end: None }
        } else if text.contains("processes exited with non-zero status") {
            Kind::Process { rank: None, end: None }
        } else if text.starts_with("Missing ranks:") {
            Kind::Missing { ranks: Vec::new() }
        } else if text.contains("Timed out task names:") {
            Kind::Tasks { ranks: Vec::new() }
        } else {
            return None;
        };
        Some(Self { kind, left: LONGEST, is_complete: false, text: line.to_owned(), number })
    }

    /// What a row of a table says follows from the first failure, if some line names it.
    pub fn is_row(&self) -> bool {
        matches!(self.kind, Kind::Row { .. })
    }

    /// Takes a line; false if the message has ended before it.
    pub fn line(&mut self, line: &Prefixed<'_>) -> bool {
        if self.is_complete || self.left == 0 {
            return false;
        }
        self.left -= 1;
        let (key, value) = line.text.split_once(':').unwrap_or((line.text, ""));
        let (key, value) = (key.trim_matches([' ', '=', '\t']), value.trim());
        match &mut self.kind {
            Kind::First { rank, host, end } | Kind::Row { rank, host, end } => {
                match key {
                    "host" => *host = (!value.is_empty()).then(|| value.to_owned()),
                    "rank" => *rank = first(value),
                    "exitcode" => *end = first(value).and_then(ended::by_code),
                    // A page that was copied as text has other line breaks: `rank2 (local_rank: 2)exitcode`.
                    "traceback" => {
                        *end = launcher::received(value).map(|said| (said.kind, said.detail))
                    }
                    _ => *rank = rank.or_else(|| first(key.strip_prefix("rank")?)),
                }
                self.is_complete = end.is_some();
            }
            Kind::Daemon { node } => {
                let found = match key {
                    "Remote daemon" => value.rsplit_once("on node ").map(|(_, node)| node),
                    "hostname" => Some(value),
                    _ => None,
                };
                *node = found.map(str::to_owned);
                self.is_complete = node.is_some();
            }
            Kind::Hydra { node, end } => {
                if let Some((_, at)) = key.split_once("RUNNING AT ") {
                    *node = Some(at.to_owned());
                } else if key == "EXIT CODE" {
                    *end = first(value).and_then(ended::by_code);
                } else if key.ends_with("EXIT STRING") {
                    // Of the processes that were ended after it, if it exited itself.
                    let is_of_others = end.is_some() && value.contains("(signal 15)");
                    let said = ended::by_words(value).filter(|_| !is_of_others);
                    *end = said.or_else(|| end.take());
                    self.is_complete = true;
                }
            }
            Kind::Process { rank, end } => match key {
                "Process name" => {
                    let name = value.trim_matches(['[', ']']);
                    *rank = name.rsplit(',').next().and_then(first);
                }
                "Exit code" => {
                    *end = first(value).and_then(ended::by_code);
                    self.is_complete = true;
                }
                _ => {}
            },
            // A prefix of a line and a rank look the same.
            Kind::Missing { ranks } => match line.rank.filter(|_| line.text.starts_with('[')) {
                Some(rank) => push(ranks, rank),
                None => return false,
            },
            Kind::Tasks { ranks } => match task(line.text) {
                Some(rank) => push(ranks, rank),
                None => return false,
            },
        }
        true
    }

    pub fn said(self) -> Option<Said> {
        let on =
            |node: Option<String>| node.map_or(String::new(), |node| format!(" on node {node}"));
        let said = |kind, rank, detail| Some(Said { kind, rank, detail });
        match self.kind {
            Kind::First { rank, host, end } | Kind::Row { rank, host, end } => {
                let (kind, detail) = end?;
                said(kind, rank, format!("{detail}{}", on(host)))
            }
            Kind::Daemon { node } => {
                let detail = node.map(|node| format!("node {node}"));
                said(FailureKind::NodeLost, None, detail?)
            }
            Kind::Hydra { node, end } => {
                let (kind, detail) = end?;
                said(kind, None, format!("{detail}{}", on(node)))
            }
            Kind::Process { rank, end } => {
                let (kind, detail) = end?;
                said(kind, rank, detail)
            }
            Kind::Missing { ranks } if !ranks.is_empty() => {
                said(FailureKind::Timeout, None, missing(&ranks, STALLED))
            }
            Kind::Tasks { ranks } if !ranks.is_empty() => {
                said(FailureKind::Timeout, None, missing(&ranks, "reach the barrier"))
            }
            Kind::Missing { .. } | Kind::Tasks { .. } => None,
        }
    }
}

fn push(ranks: &mut Vec<u32>, rank: u32) {
    if ranks.len() < MAX_RANKS && !ranks.contains(&rank) {
        ranks.push(rank);
    }
}

/// `ranks 1, 6 did not reach the barrier`
pub fn missing(ranks: &[u32], what: &str) -> String {
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let word = if names.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {} did not {what}", names.join(", "))
}

/// The number of `/job:jax_worker/replica:0/task:3`.
pub fn task(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("/task:")?;
    first(rest)
}
