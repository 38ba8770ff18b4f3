//! The failures of a job: those of one kind are one, with the ranks that report it and those that do not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::collector::{Collector, FailureKey, is_asked};
use super::failure::Detail;
use super::library::OPEN_MPI;
use crate::model::{FailureDetail, FailureKind, Quote, RankFailure};

/// Ranks that are listed as silent.
const MAX_SILENT: usize = 64;

pub fn of(log: &Collector, members: &[u32]) -> Vec<RankFailure> {
    let all = log.members.ranks(members);
    // A process with several ranks does not say which one.
    let mut rank_of: HashMap<u32, Option<u32>> = HashMap::new();
    for member in members.iter().map(|at| &log.members[*at as usize]) {
        rank_of.entry(member.process).and_modify(|rank| *rank = None).or_insert(member.rank);
    }
    let hosts: BTreeSet<&String> = log.processes.iter().map(|(host, _)| host).collect();
    let size = members.iter().filter_map(|at| log.members[*at as usize].ranks).max();
    let is_one_node =
        hosts.len() == 1 && size.is_some_and(|size| all.len() as u64 == u64::from(size));
    let mut found: BTreeMap<FailureKind, RankFailure> = BTreeMap::new();
    let ended = Ended::of(log);
    for ((kind, rank, process), (line, detail)) in &log.failures {
        if ended.explains(*kind, line, detail.as_ref()) {
            continue;
        }
        let rank = rank.or_else(|| *rank_of.get(process.as_ref()?)?);
        let failure = found.entry(*kind).or_insert_with(|| new_failure(*kind, line));
        if line.number < failure.line.number {
            failure.line = line.clone();
        }
        if is_of_address(*kind) {
            let said = detail.as_ref().map_or(line.text.clone(), |detail| text(log, detail));
            if let Some(about) = log.interfaces.about(&said, *process, is_one_node) {
                add(failure, about, rank);
            }
        }
        if let Some(detail) = detail {
            add(failure, text(log, detail), rank);
        }
        match (rank, process.and_then(|at| log.processes.get(at))) {
            (Some(rank), _) => failure.ranks.push(rank),
            (None, Some((host, process))) => failure.processes.push(format!("{host}:{process}")),
            (None, None) => {}
        }
    }
    let mut found: Vec<RankFailure> = found.into_values().collect();
    let reporting: BTreeSet<u32> = found.iter().flat_map(|failure| failure.ranks.clone()).collect();
    for failure in &mut found {
        failure.ranks.sort_unstable();
        failure.ranks.dedup();
        failure.processes.sort_unstable();
        failure.processes.dedup();
        failure.details.iter_mut().for_each(|detail| detail.ranks.sort_unstable());
        failure.details.sort_by(|a, b| a.ranks.cmp(&b.ranks));
        if let Some(text) = variable(log, failure.kind) {
            failure.details.insert(0, FailureDetail { text, ranks: Vec::new() });
        }
        let is_absence =
            matches!(failure.kind, FailureKind::ConnectionClosed | FailureKind::WatchdogTimeout);
        if is_absence && failure.processes.is_empty() {
            failure.silent = all.difference(&reporting).copied().take(MAX_SILENT).collect();
        }
    }
    found.sort_by_key(|failure| (failure.kind.depth(), failure.line.number));
    found
}

/// What follows from another failure: what a launcher does to the other processes, and what a library says of the one below it.
struct Ended {
    /// Some failure says more than that a process was asked to end, or lost another one.
    is_known: bool,
    /// Some failure explains itself, or those of other libraries.
    is_explained: bool,
    /// The first line with an exit status.
    exited: Option<u64>,
}

impl Ended {
    fn of(log: &Collector) -> Self {
        let exited = log.failures.iter().filter(|((kind, ..), (_, detail))| {
            *kind == FailureKind::Exited && has_text(detail.as_ref(), "exit status ")
        });
        let is_known = |((kind, ..), (_, detail)): (&FailureKey, &(Quote, Option<Detail>))| {
            kind.depth() < 3 || *kind == FailureKind::Exited && !is_asked(detail.as_ref())
        };
        Self {
            is_known: log.failures.iter().any(is_known),
            is_explained: log.failures.keys().any(|(kind, ..)| kind.depth() < 2),
            exited: exited.map(|(_, (line, _))| line.number).min(),
        }
    }

    /// True if the end of a process follows from another failure. What ended by SIGKILL after another process had exited is most often what a
    /// launcher ended.
    fn explains(&self, kind: FailureKind, line: &Quote, detail: Option<&Detail>) -> bool {
        let is_killed = has_text(detail, "signal 9 ");
        match kind {
            FailureKind::Exited => self.is_known && is_asked(detail),
            FailureKind::Other => self.is_explained && has_text(detail, OPEN_MPI),
            FailureKind::Signal => is_killed && self.exited.is_some_and(|at| at < line.number),
            _ => false,
        }
    }
}

fn has_text(detail: Option<&Detail>, start: &str) -> bool {
    matches!(detail, Some(Detail::Text(text)) if text.starts_with(start))
}

/// Failures that the address of a connection may explain.
fn is_of_address(kind: FailureKind) -> bool {
    use FailureKind::{ConnectionFailed, NoSocketInterface, Rendezvous};
    matches!(kind, ConnectionFailed | NoSocketInterface | Rendezvous)
}

/// The variable of the log that such a failure rests on.
fn variable(log: &Collector, kind: FailureKind) -> Option<String> {
    let name = match kind {
        FailureKind::NoSocketInterface | FailureKind::ConnectionFailed => "NCCL_SOCKET_IFNAME",
        FailureKind::NoNetwork => "NCCL_NET",
        FailureKind::QueuePair => "NCCL_IB_GID_INDEX",
        _ => return None,
    };
    let (value, line) = log.settings.get(name)?;
    Some(format!("{name}={value} is set ({})", line.place()))
}

fn new_failure(kind: FailureKind, line: &Quote) -> RankFailure {
    RankFailure {
        kind,
        ranks: Vec::new(),
        processes: Vec::new(),
        silent: Vec::new(),
        line: line.clone(),
        details: Vec::new(),
    }
}

fn text(log: &Collector, detail: &Detail) -> String {
    match detail {
        Detail::Text(text) => text.clone(),
        Detail::Peer(address, about) => match log.hosts.get(address) {
            Some(host) => format!("peer {address} (node {host}): {about}"),
            None => format!("peer {address}: {about}"),
        },
    }
}

fn add(failure: &mut RankFailure, text: String, rank: Option<u32>) {
    let known = failure.details.iter().position(|detail| detail.text == text);
    let at = known.unwrap_or_else(|| {
        failure.details.push(FailureDetail { text, ranks: Vec::new() });
        failure.details.len() - 1
    });
    failure.details[at].ranks.extend(rank);
}
