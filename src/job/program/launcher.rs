//! What launchers say of a process that ended: torchrun, DeepSpeed, mpirun, srun and slurmstepd, Kubernetes; and what a process
//! prints when a signal ends it.

use super::Said;
use super::ended;
use super::number::first;
use crate::model::FailureKind;

pub fn read(text: &str) -> Vec<Said> {
    if let Some(rest) = text.split_once("srun: error: ").map(|(_, rest)| rest) {
        return srun(rest);
    }
    if text.contains("slurmstepd: error: ") {
        return slurmstepd(text).into_iter().collect();
    }
    code(text).or_else(|| signal(text)).or_else(|| daemon(text)).into_iter().collect()
}

/// `failed (exitcode: -9) local_rank: 0 (pid: 2410412)` of torchrun; `exits with return code = -9` of DeepSpeed, after the arguments
/// of the process.
fn code(text: &str) -> Option<Said> {
    let number = |start: &str| first(text.split_once(start)?.1);
    let code = number("failed (exitcode: ").or_else(|| number("exits with return code = "))?;
    let (kind, detail) = ended::by_code(code)?;
    let local = text.split_once("local_rank: ").or_else(|| text.split_once("--local_rank="));
    let detail = match local.and_then(|(_, rest)| first::<u32>(rest)) {
        Some(local) => format!("{detail}, local rank {local}"),
        None => detail,
    };
    Some(Said { kind, rank: None, detail })
}

/// What Open MPI's launcher says of its daemons.
fn daemon(text: &str) -> Option<Said> {
    let detail = if text.contains("unable to reliably start one or more daemons") {
        "mpirun could not start its daemons on all nodes"
    } else if text.contains("daemon has unexpectedly failed after launch") {
        "a daemon of mpirun ended before it had reported back"
    } else {
        return None;
    };
    Some(Said { kind: FailureKind::NodeLost, rank: None, detail: detail.to_owned() })
}

/// Programs that start the processes of a job, and the option that their processes get.
const STARTERS: [&str; 8] = [
    "'torchrun'",
    "/torchrun'",
    "torch.distributed.",
    "'deepspeed'",
    "'mpirun'",
    "'srun'",
    "accelerate",
    "--local_rank=",
];

/// `subprocess.CalledProcessError: Command '['torchrun', …]' returned non-zero exit status 1.`
pub fn command(text: &str) -> Option<Said> {
    let (before, rest) = text.split_once(" returned non-zero exit status ")?;
    let (_, command) = before.split_once("CalledProcessError: Command ")?;
    STARTERS.iter().find(|name| command.contains(*name))?;
    let (kind, detail) = ended::by_code(first(rest)?)?;
    let local = command.split_once("--local_rank=").and_then(|(_, rest)| first::<u32>(rest));
    let detail = local.map_or(detail.clone(), |local| format!("{detail}, local rank {local}"));
    Some(Said { kind, rank: None, detail })
}

/// `mpirun noticed that process rank 6 with PID 0 on node n1 exited on signal 9 (Killed).`, `process 1 terminated with signal SIGKILL`,
/// `[n1:12:0:12] Caught signal 7 (Bus error: …)`, `Signal: Segmentation fault (11)`, `is killed by signal: Killed.`
fn signal(text: &str) -> Option<Said> {
    let said = |(kind, detail): ended::End, rank| Some(Said { kind, rank, detail });
    if let Some((before, rest)) = text.split_once(" exited on signal ") {
        let rank = before.split_once("process rank ").and_then(|(_, rest)| first(rest));
        let (kind, detail) = ended::by_signal(first(rest)?);
        let node = before.split_once(" on node ").map_or("", |(_, node)| node.trim());
        let detail = match node {
            "" => detail,
            node => format!("{detail} on node {node}"),
        };
        return said((kind, detail), rank);
    }
    if let Some((_, rest)) = text.split_once("Caught signal ") {
        return said(ended::by_signal(first(rest)?), None);
    }
    let handled = text.split_once("] Signal: ").map(|(_, rest)| rest);
    if let Some(rest) = handled.or_else(|| text.trim_start().strip_prefix("Signal: ")) {
        return said(ended::by_words(rest)?, None);
    }
    if let Some((_, rest)) = text.split_once("killed by signal: ") {
        return said(ended::by_words(rest)?, None);
    }
    if let Some((before, rest)) = text.split_once(" terminated with signal SIG") {
        let rank = before.rsplit_once("rocess ").and_then(|(_, rest)| first(rest));
        let name = rest.split(|c: char| !c.is_ascii_uppercase()).next()?;
        return said(ended::by_name(&format!("SIG{name}"))?, rank);
    }
    if let Some((_, rest)) = text.split_once("Fatal Python error: ") {
        return said(ended::by_words(rest)?, None);
    }
    if let Some((_, rest)) = text.split_once(" got signal: ") {
        return said(ended::by_signal(first(rest)?), None);
    }
    // `Command '[…]' died with <Signals.SIGSEGV: 11>.`
    if let Some((_, rest)) = text.split_once("died with <Signals.") {
        return said(ended::by_signal(first(rest.split_once(": ")?.1)?), None);
    }
    if let Some((before, _)) = text.split_once(" death signal, shutting down workers") {
        return said(ended::by_signal(first(before.rsplit_once("eceived ")?.1)?), None);
    }
    // `*** SIGSEGV received at time=1700000000 on cpu 6 ***`, of Abseil.
    if let Some((before, _)) = text.split_once(" received at time=") {
        let name = before.rsplit_once("*** ")?.1;
        return said(ended::by_name(name)?, None);
    }
    if text.contains("!!! Segfault encountered !!!") {
        return said(ended::by_signal(11), None);
    }
    let dumped = text.strip_suffix(" (core dumped)")?;
    said(ended::by_words(dumped.rsplit_once(": ").map_or(dumped, |(_, words)| words))?, None)
}

/// `traceback : Signal 11 (SIGSEGV) received by PID 6421`, of a row of torchrun's table.
pub fn received(text: &str) -> Option<Said> {
    let (before, _) = text.split_once(") received by PID ")?;
    let (kind, detail) = ended::by_signal(first(before.rsplit_once("ignal ")?.1)?);
    Some(Said { kind, rank: None, detail })
}

/// `gpu01: tasks 0-3,7: Out Of Memory`; `Node failure on gpu12`
fn srun(rest: &str) -> Vec<Said> {
    if let Some((_, node)) = rest.split_once("Node failure on ") {
        let detail = format!("node {}", node.trim());
        return vec![Said { kind: FailureKind::NodeLost, rank: None, detail }];
    }
    let mut parts = rest.splitn(3, ": ");
    let (Some(node), Some(tasks), Some(what)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let list = tasks.strip_prefix("tasks ").or_else(|| tasks.strip_prefix("task "));
    let Some(list) = list else { return Vec::new() };
    let end = match what.trim() {
        "Out Of Memory" => Some((FailureKind::HostMemory, format!("node {node}"))),
        what => match what.split_once("Exited with exit code ") {
            Some((_, code)) => first(code).and_then(ended::by_code),
            None => ended::by_words(what),
        }
        .map(|(kind, detail)| (kind, format!("{detail} on node {node}"))),
    };
    let Some((kind, detail)) = end else { return Vec::new() };
    let said = |rank| Said { kind, rank: Some(rank), detail: detail.clone() };
    ranks(list).into_iter().map(said).collect()
}

/// Ranks that one line names.
const MAX_RANKS: usize = 1_024;

/// `0-3,7`
fn ranks(list: &str) -> Vec<u32> {
    let list = list.trim_matches(['[', ']']);
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<u32>().ok()?..=to.trim().parse::<u32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(MAX_RANKS).collect()
}

fn slurmstepd(text: &str) -> Option<Said> {
    let said = |kind, detail: &str| Some(Said { kind, rank: None, detail: detail.to_owned() });
    if text.contains("oom_kill event") || text.contains("oom-kill event") {
        return said(FailureKind::HostMemory, "Slurm saw the kernel's OOM killer");
    }
    let (_, reason) = text.split_once(" DUE TO ")?;
    let reason = reason.trim_matches([' ', '*']).to_ascii_lowercase();
    if reason.starts_with("node failure") {
        return said(FailureKind::NodeLost, "Slurm cancelled the step after a node failed");
    }
    said(FailureKind::Exited, &format!("Slurm cancelled it: {reason}"))
}
