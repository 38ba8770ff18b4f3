//! What PyTorch's parts for distributed programs say: the watchdog, the store, the rendezvous, Gloo.

use memchr::memmem;

use super::number::first;
use super::{Said, short, texts};
use crate::model::FailureKind;

pub fn read(text: &str) -> Option<Said> {
    watchdog(text)
        .or_else(|| stuck(text))
        .or_else(|| signalled(text))
        .or_else(|| thread(text))
        .or_else(|| store(text))
        .or_else(|| gloo(text))
}

/// `[../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:59463: Connection refused`;
/// `[enforce fail at …/gloo/transport/tcp/device.cc:127] rp != nullptr. Unable to find address for: gpu01`
fn gloo(line: &str) -> Option<Said> {
    let at = line.find("gloo/transport")?;
    let rest = &line[at..];
    let kind = if rest.contains("Unable to find address for") {
        FailureKind::HostName
    } else if rest.contains("] connect [") {
        FailureKind::ConnectionFailed
    } else {
        return None;
    };
    Some(Said { kind, rank: None, detail: short(rest) })
}

/// The rank in `[Rank 3`, `[PG 0 (default_pg) Rank 3]` or `[rank3` before the end of a text.
fn rank(head: &str) -> Option<u32> {
    let lower = head.to_ascii_lowercase();
    let at = lower.rfind("rank")?;
    first(&lower[at + "rank".len()..])
}

/// `[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, …`
fn watchdog(line: &str) -> Option<Said> {
    const TEXT: &str = "] Watchdog caught collective operation timeout";
    let (found, rank) = match memmem::find(line.as_bytes(), TEXT.as_bytes()) {
        Some(found) => (found, Some(rank(&line[..found])?)),
        // The start of the line is cut off.
        None if line.contains("OpType=") && line.contains("milliseconds before timing out") => {
            (0, rank_of(line))
        }
        None => return None,
    };
    let value = |name: &str| {
        let (_, rest) = line[found..].split_once(name)?;
        rest.split([',', ')', ' ']).next().filter(|value| !value.is_empty())
    };
    let detail = match (value("OpType="), value("SeqNum=")) {
        (Some(collective), Some(number)) => format!("{collective}, sequence number {number}"),
        (Some(collective), None) => collective.to_owned(),
        _ => String::new(),
    };
    Some(Said { kind: FailureKind::WatchdogTimeout, rank, detail })
}

/// The rank in `[Rank 3]` of a line.
fn rank_of(line: &str) -> Option<u32> {
    rank(line.split_once("] ")?.0)
}

/// `[PG ID 2 PG GUID 3 Rank 0] ProcessGroupNCCL's watchdog got stuck for 300 seconds`; a terminal may have cut the line before it.
fn stuck(line: &str) -> Option<Said> {
    let (head, rest) = line.split_once("s watchdog got stuck for ")?;
    let seconds: u32 = first(rest)?;
    let rank = head.rsplit_once("Rank ").and_then(|(_, rest)| first(rest));
    let detail = format!("the watchdog itself got stuck for {seconds} s in a call of CUDA or NCCL");
    Some(Said { kind: FailureKind::WatchdogTimeout, rank, detail })
}

/// `[PG ID 0 PG GUID 0(default_pg) Rank 6] Received a dump signal due to a collective timeout from  rank 7 and we …`: another rank's watchdog
/// was first. `[PG 0 Rank 144] Heartbeat monitor timed out! …`
fn signalled(line: &str) -> Option<Said> {
    let kind = FailureKind::WatchdogTimeout;
    if let Some((_, rest)) =
        line.split_once("] Received a dump signal due to a collective timeout from ")
    {
        let first: u32 = first(rest.trim_start().strip_prefix("rank ")?)?;
        let detail = "its watchdog was the first to signal a timeout".to_owned();
        return Some(Said { kind, rank: Some(first), detail });
    }
    let (head, _) = line.split_once("] Heartbeat monitor timed out!")?;
    let detail = "the watchdog itself got stuck in a call of CUDA or NCCL".to_owned();
    Some(Said { kind, rank: rank(head), detail })
}

/// `[PG ID 0 PG GUID 0 Rank 2] Process group watchdog thread terminated with exception: CUDA error: …`;
/// `[PG ID 2 PG GUID 3 Rank 3] Timeout at NCCL work: 32, …`
fn thread(line: &str) -> Option<Said> {
    if let Some((head, rest)) = line.split_once("] Timeout at NCCL work: ") {
        let detail = format!("work {}", first::<u64>(rest)?);
        return Some(Said { kind: FailureKind::WatchdogTimeout, rank: rank(head), detail });
    }
    let (head, rest) = line.split_once("watchdog thread terminated with exception: ")?;
    let kind = texts::kind(rest).filter(|kind| *kind != FailureKind::ConnectionClosed)?;
    Some(Said { kind, rank: rank(head), detail: short(rest) })
}

fn store(line: &str) -> Option<Said> {
    // `torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.`
    if let Some((_, rest)) = line.split_once(" waiting for clients. ")
        && rest.contains("clients joined")
    {
        return Some(Said { kind: FailureKind::Rendezvous, rank: None, detail: short(rest) });
    }
    // `[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0')
    // got error: …`
    if let Some((head, rest)) = line.split_once("] is setting up NCCL communicator") {
        let rank = head.rsplit_once('[').and_then(|(_, rank)| rank.parse().ok());
        let error = rest.split_once("got error: ")?.1;
        let detail = format!("no ncclUniqueId came from rank 0: {}", short(error));
        return Some(Said { kind: FailureKind::Timeout, rank, detail });
    }
    // `waitForInput: socket SocketImpl(fd=11, addr=[n1]:38674, remote=[n0]:23456) timed out after 900000ms`
    if let Some((_, rest)) = line.split_once("waitForInput: socket ") {
        let remote = rest.split_once("remote=").and_then(|(_, rest)| rest.split(')').next())?;
        let after = rest.split_once("timed out after ")?.1.trim();
        let detail = format!("the store at {remote} did not answer within {after}");
        return Some(Said { kind: FailureKind::Rendezvous, rank: None, detail });
    }
    // `Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.`
    // `[Rank 0]: Rank 3 failed to pass monitoredBarrier in 60000 ms`
    let is_barrier = line.contains("monitoredBarrier");
    if is_barrier && ["failed to", "errors", "imed out"].iter().any(|text| line.contains(text)) {
        let at = line.find("Rank ").or_else(|| line.find("rank "))?;
        let kind = FailureKind::Timeout;
        return Some(Said { kind, rank: None, detail: short(&line[at..]) });
    }
    if let Some((_, rest)) = line.split_once("Detected mismatch between collectives on ranks. ") {
        let kind = FailureKind::CollectiveMismatch;
        return Some(Said { kind, rank: None, detail: short(rest) });
    }
    // `Timed out initializing process group in store based barrier on rank: 0, for key: … (world_size=8, worker_count=6, …)`
    let (_, rest) = line.split_once("in store based barrier on rank: ")?;
    let value = |name: &str| first::<u32>(rest.split_once(name)?.1);
    let detail = match (value("worker_count="), value("world_size=")) {
        (Some(arrived), Some(all)) => format!("{arrived} processes arrived, of {all} ranks"),
        _ => "not all ranks arrived".to_owned(),
    };
    Some(Said { kind: FailureKind::Rendezvous, rank: first(rest), detail })
}
