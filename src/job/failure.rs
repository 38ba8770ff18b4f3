//! Failures that NCCL's warnings report.

use super::known;
use crate::model::FailureKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// The rank that reports it, if the line says so.
    pub rank: Option<u32>,
    /// The collective, the peer and NIC, or the versions.
    pub detail: Option<Detail>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    Text(String),
    /// An address of the other host, and the NIC.
    Peer(String, String),
}

/// What a warning says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    Failure(Failure),
    GdrcopyMissing,
    NoPeerAccess,
    NoVerbs,
}

/// The numbers of `ibv_wc_status`.
const STATUS: [(&str, &str); 6] = [
    ("4", "local protection error"),
    ("5", "the queue pair was flushed after an earlier error"),
    ("9", "invalid request"),
    ("10", "remote access error"),
    ("12", "no answer after all retries"),
    ("13", "receiver not ready after all retries"),
];

pub fn warning(message: &str) -> Option<Warning> {
    let has = |text: &str| message.contains(text);
    if let Some(rest) = message.strip_prefix("Duplicate GPU detected : rank ") {
        let rank = rest.split_whitespace().next()?.parse().ok();
        let kind = FailureKind::DuplicateGpu;
        return Some(Warning::Failure(Failure { kind, rank, detail: None }));
    }
    if let Some(rest) = message.strip_prefix("Mismatched NCCL version detected : ") {
        return versions(rest);
    }
    if has("Got completion ") {
        return completion(message);
    }
    if let Some((_, rest)) = message.split_once("completed with error. ") {
        // aws-ofi-nccl: `NET/OFI Request 0x… completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0`
        let detail = rest.split(". Completed").next().map(|text| Detail::Text(text.to_owned()));
        let kind = FailureKind::Completion;
        return Some(Warning::Failure(Failure { kind, rank: None, detail }));
    }
    if has("ibv_modify_qp failed") {
        return queue_pair(message);
    }
    if has("Failed to open libgdrapi.so") {
        return Some(Warning::GdrcopyMissing);
    }
    // Up to NCCL 2.8, which then uses sockets.
    if has("Failed to open libibverbs.so") {
        return Some(Warning::NoVerbs);
    }
    if has("P2P is disabled between") {
        return Some(Warning::NoPeerAccess);
    }
    let kind = known::kind(message)?;
    let detail = match kind {
        _ if has("in the same subnet as remote address") => Some(message),
        FailureKind::CudaFailure if has("CUDA IPC handle") => {
            message.split_once(" : ").map(|(_, error)| error)
        }
        FailureKind::CudaFailure => message.split('\'').nth(1).or(Some(message)),
        // The kind says all.
        FailureKind::NoSocketInterface | FailureKind::NoNetwork | FailureKind::ConnectionClosed => {
            None
        }
        _ => Some(message),
    };
    let detail = detail.map(|text| Detail::Text(short(text)));
    Some(Warning::Failure(Failure { kind, rank: None, detail }))
}

/// Longest text of a failure that is kept.
const LONGEST: usize = 160;

/// The start of a text, in one line.
pub fn short(text: &str) -> String {
    text.trim().chars().take(LONGEST).collect()
}

/// `rank 1 version 22105 rank 0 version 21805`: of another rank, then its own.
fn versions(rest: &str) -> Option<Warning> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ["rank", other, "version", theirs, "rank", own, "version", ours] = words[..] else {
        return None;
    };
    let [theirs, ours] = [version(theirs)?, version(ours)?];
    Some(Warning::Failure(Failure {
        kind: FailureKind::VersionMismatch,
        rank: own.parse().ok(),
        detail: Some(Detail::Text(format!("NCCL {ours}, while rank {other} has {theirs}"))),
    }))
}

/// 2.18.5 of `21805`, 2.4.8 of `2408`.
fn version(code: &str) -> Option<String> {
    let code: u32 = code.parse().ok()?;
    let (major, rest) = match code {
        ..10_000 => (code / 1_000, code % 1_000),
        _ => (code / 10_000, code % 10_000),
    };
    Some(format!("{major}.{}.{}", rest / 100, rest % 100))
}

/// `NET/IB : Got completion from peer ADDRESS<PORT> with status=12 … hca mlx5_0`; `with error 12, …` up to 2.20.
fn completion(message: &str) -> Option<Warning> {
    let (_, rest) = message.split_once("with ")?;
    let rest = rest.strip_prefix("status=").or_else(|| rest.strip_prefix("error "))?;
    // As 12 or IBV_WC_RETRY_EXC_ERR(12).
    let word = rest.split([',', ' ']).next()?;
    let number = match word.split_once('(') {
        Some((_, number)) => number.trim_end_matches(')'),
        None => word,
    };
    number.parse::<u32>().ok()?;
    let meaning = STATUS.iter().find(|(status, _)| *status == number);
    let mut about = meaning.map_or(format!("status {number}"), |(_, text)| (*text).to_owned());
    if let Some(nic) = after(message, " hca ") {
        about = format!("{about}, NIC {nic}");
    }
    let detail = match after(message, "from peer ").and_then(address) {
        Some(peer) => Detail::Peer(peer.to_owned(), about),
        None => Detail::Text(about),
    };
    let kind = FailureKind::Completion;
    Some(Warning::Failure(Failure { kind, rank: None, detail: Some(detail) }))
}

/// `Call to ibv_modify_qp failed with error …`; from 2.21 on `ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, …,
/// local GID …, remote GID …`.
fn queue_pair(message: &str) -> Option<Warning> {
    let (_, rest) = message.split_once("ibv_modify_qp failed with ")?;
    let rest = rest.strip_prefix("error ").unwrap_or(rest);
    let mut text = rest.split(',').next()?.trim().to_owned();
    for (name, at) in [
        ("NIC", "on dev "),
        ("local GID index", "local GID index "),
        ("local GID", "local GID "),
        ("remote GID", "remote GID "),
    ] {
        if let Some(value) = rest.rfind(at).and_then(|found| after(&rest[found..], at)) {
            // `local GID index 3, local GID ::` has one name at the start of the other.
            text = if value == "index" { text } else { format!("{text}, {name} {value}") };
        }
    }
    let detail = Some(Detail::Text(text));
    Some(Warning::Failure(Failure { kind: FailureKind::QueuePair, rank: None, detail }))
}

fn after<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(name)?;
    let word = rest.split([' ', ',']).next()?;
    (!word.is_empty()).then_some(word)
}

/// `192.0.2.1` of `192.0.2.1<4711>`.
pub fn address(text: &str) -> Option<&str> {
    let (address, _) = text.split_once('<')?;
    (!address.is_empty()).then_some(address)
}
