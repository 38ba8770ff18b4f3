//! The job of a log for people: what ran, the paths of its ranks, what was lost, the failures by rank.

use super::Style;
use super::text::{Tone, counted, printable, wrap};
use crate::model::{
    Allowed, Communicator, FailureKind, FasterPath, Gdrdma, Job, JobLibrary, JobPath, LibraryPath,
    Loss, LostBandwidth, RankFailure, RankPair, ReasonKind,
};

/// Communicators that are shown.
const MAX_COMMUNICATORS: usize = 8;

/// Pairs, NICs and ranks that are named.
const MAX_PAIRS: usize = 4;
const MAX_NICS: usize = 4;
const MAX_RANKS: usize = 16;

pub fn page(job: &Job, style: Style) -> String {
    let mut page = summary(job, style);
    for (at, communicator) in job.communicators.iter().enumerate().take(MAX_COMMUNICATORS) {
        page.push_str(&table(at, communicator, job, style));
    }
    let more = job.communicators.len().saturating_sub(MAX_COMMUNICATORS);
    if more > 0 {
        page.push_str(&format!(
            "\nand {}: --format json has all\n",
            counted(more as u64, "more communicator")
        ));
    }
    for library in job.libraries.iter().filter(|library| !library.paths.is_empty()) {
        page.push_str(&format!("\n{}\n", library_name(library)));
        page.push_str(&rows_of(&LIBRARY_HEADER, &library_rows(library), style));
    }
    for loss in &job.lost {
        page.push_str(&lost(loss, style));
    }
    for failure in &job.failures {
        page.push_str(&failed(failure, style));
    }
    if job.end_missing {
        page.push('\n');
        page.push_str(&wrap(END_MISSING, style.width, 0, "    "));
        page.push('\n');
    }
    if job.cut {
        page.push_str(
            "\nThe log has more pairs of ranks than gdr keeps: the table is not complete.\n",
        );
    }
    page
}

/// The job in one line.
pub fn headline(job: &Job) -> (Tone, String) {
    let lost = |allowed: Allowed| job.lost.iter().filter(|loss| loss.allowed == allowed).count();
    let certain = job.certain_failures().count() as u64;
    match (certain, lost(Allowed::Yes), lost(Allowed::Unknown)) {
        (0, ..) if !job.failures.is_empty() => {
            (Tone::Fair, format!("Ranks differed when NCCL's RAS asked them. {ASK_AGAIN}"))
        }
        (0, 0, 0) if job.ranks.is_some_and(|ranks| ranks <= job.ranks_seen) && !job.cut => (
            Tone::Good,
            "Every pair of ranks used the best path that its machine allows.".to_owned(),
        ),
        (0, 0, 0) => (Tone::Fair, "No slower path is seen; the log lacks ranks.".to_owned()),
        (0, 0, _) => (
            Tone::Fair,
            "Slower paths were used; whether faster ones are possible is unknown.".to_owned(),
        ),
        (0, ..) => (Tone::Bad, "Slower paths were used than the machine allows.".to_owned()),
        (failures, ..) => (Tone::Bad, format!("The job failed: {}.", counted(failures, "failure"))),
    }
}

/// Versions, ranks, nodes, GPUs and networks.
pub fn summary_words(job: &Job) -> String {
    let version = match job.nccl.as_slice() {
        [] if job.communicators.is_empty() && !job.libraries.is_empty() => {
            job.libraries.iter().map(library_name).collect::<Vec<_>>().join(", ")
        }
        [] if job.communicators.is_empty() => "no version of NCCL in the log".to_owned(),
        [] => "NCCL, version not in the log".to_owned(),
        versions => format!("NCCL {}", versions.join(" and ")),
    };
    let ranks = match job.ranks {
        Some(ranks) if ranks > job.ranks_seen => {
            format!("{} ({} in the log)", counted(ranks, "rank"), job.ranks_seen)
        }
        Some(ranks) => counted(ranks, "rank"),
        None => "number of ranks not in the log".to_owned(),
    };
    let mut parts = vec![version, ranks];
    if !job.nodes.is_empty() {
        parts.push(counted(job.nodes.len() as u64, "node"));
    }
    if job.gpus > 0 {
        parts.push(counted(job.gpus, "GPU"));
    }
    if !job.networks.is_empty() {
        parts.push(format!("network {}", job.networks.join(", ")));
    }
    parts.join(", ")
}

fn summary(job: &Job, style: Style) -> String {
    let title = wrap(&printable(&format!("Job: {}", summary_words(job))), style.width, 0, "     ");
    let mut text = style.paint(Tone::Strong, &title) + "\n";
    if let Some(gdrcopy) = &job.gdrcopy {
        text.push_str(&format!("  {}\n", wrap(&printable(gdrcopy), style.width, 2, "  ")));
    }
    if job.nccl.len() > 1 {
        text.push_str("  The ranks use different versions of NCCL.\n");
    }
    text
}

/// The rows of a communicator.
fn table(at: usize, communicator: &Communicator, job: &Job, style: Style) -> String {
    if communicator.paths.is_empty() {
        return match job.communicators.len() {
            1 => "\nThe log states no path between ranks.\n".to_owned(),
            _ => String::new(),
        };
    }
    let ranks =
        communicator.ranks.map_or("unknown size".to_owned(), |ranks| counted(ranks, "rank"));
    let mut text = match job.communicators.len() {
        1 => "\n".to_owned(),
        _ => format!("\nCommunicator {} ({ranks})\n", at + 1),
    };
    let rows: Vec<[String; 5]> =
        communicator.paths.iter().map(|path| cells(path, &job.gpu_paths)).collect();
    text.push_str(&rows_of(&HEADER, &rows, style));
    text
}

pub const HEADER: [&str; 5] = ["path", "GPUDirect RDMA", "channels", "NIC", "ranks"];
pub const LIBRARY_HEADER: [&str; 5] = ["path", "where", "memory", "device", "for"];

/// Columns of the width that their cells need; the last one is wrapped.
fn rows_of(header: &[&str; 5], rows: &[[String; 5]], style: Style) -> String {
    let header = header.map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..4).map(width).collect();
    let start = widths.iter().sum::<usize>() + 2 * 4 + 2;
    let mut text = String::new();
    for (at, row) in [&header].into_iter().chain(rows).enumerate() {
        let cells = row[..4].iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}"));
        let pairs = wrap(&row[4], style.width, start, &" ".repeat(start));
        let line = format!("{}  {pairs}", cells.collect::<String>());
        let line = if at == 0 { style.paint(Tone::Dim, line.trim_end()) } else { line };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `UCX 1.15.0`
pub fn library_name(library: &JobLibrary) -> String {
    printable(format!("{} {}", library.name, library.versions.join(" and ")).trim_end())
}

/// Path, where, memory, devices, purpose.
pub fn library_rows(library: &JobLibrary) -> Vec<[String; 5]> {
    let row = |path: &LibraryPath| {
        let place = match path.same_node {
            Some(true) => "on a node",
            Some(false) => "between nodes",
            None => "-",
        };
        let devices = match path.devices.as_slice() {
            [] => "-".to_owned(),
            devices => few(devices, MAX_NICS, " "),
        };
        let purpose = match &path.protocol {
            Some(protocol) => format!("{} ({protocol})", path.purpose),
            None => path.purpose.clone(),
        };
        let memory = path.memory.clone().unwrap_or_else(|| "-".to_owned());
        [path.transports.join(" "), place.to_owned(), memory, devices, purpose]
            .map(|cell| printable(&cell))
    };
    library.paths.iter().map(row).collect()
}

/// Path, GPUDirect RDMA, channels, NICs, ranks.
pub fn cells(path: &JobPath, gpu_paths: &[String]) -> [String; 5] {
    let mut name = path.transport.clone();
    if path.pxn {
        name.push_str(" PXN");
    }
    match gpu_paths {
        [only] if name.starts_with("P2P/") => name = format!("{name} ({only})"),
        _ => {}
    }
    let word = |gdrdma: Gdrdma| match gdrdma {
        Gdrdma::Yes => "yes",
        Gdrdma::No => "no",
        Gdrdma::Mixed => "partly",
    };
    let gdrdma = match (path.gdrdma_send, path.gdrdma_receive) {
        (Some(send), Some(receive)) if send == receive => word(send).to_owned(),
        (Some(send), Some(receive)) => format!("send {}, receive {}", word(send), word(receive)),
        (Some(send), None) => format!("send {}", word(send)),
        (None, Some(receive)) => format!("receive {}", word(receive)),
        (None, None) => "-".to_owned(),
    };
    let channels = match path.channels {
        [low, high] if low == high => low.to_string(),
        [low, high] => format!("{low} to {high}"),
    };
    let nics = match path.nics.as_slice() {
        [] => "-".to_owned(),
        nics => few(nics, MAX_NICS, " "),
    };
    [name, gdrdma, channels, nics, pairs(path)].map(|cell| printable(&cell))
}

fn pairs(path: &JobPath) -> String {
    if path.pair_count == 0 {
        return "all of a node".to_owned();
    }
    pair_list(&path.pairs, path.pair_count)
}

fn pair_list(pairs: &[RankPair], count: u64) -> String {
    let one = |pair: &RankPair| match (pair.to, pair.both_ways) {
        (None, _) => pair.from.to_string(),
        (Some(to), true) => format!("{}<->{to}", pair.from),
        (Some(to), false) => format!("{}->{to}", pair.from),
    };
    let listed: Vec<String> = pairs.iter().take(MAX_PAIRS).map(one).collect();
    match count.saturating_sub(listed.len() as u64) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn few(names: &[String], most: usize, separator: &str) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>().join(separator);
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn lost(loss: &Loss, style: Style) -> String {
    let label = match loss.kind {
        ReasonKind::Variable | ReasonKind::NotLoaded | ReasonKind::Check | ReasonKind::Topology => {
            "why:"
        }
        ReasonKind::Unknown => "unknown:",
    };
    let head = wrap(&format!("lost: {}", printable(&loss.what)), style.width, 0, "    ");
    let line = loss.line.as_ref().map_or(String::new(), |line| format!(" ({})", line.place()));
    let why = printable(&format!("{}{line}", loss.why));
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, &head));
    text.push_str(&labelled(label, &why, style));
    if loss.pair_count > 0 {
        text.push_str(&labelled("ranks:", &pair_list(&loss.pairs, loss.pair_count), style));
    }
    if let Some(LostBandwidth { used, possible, factor }) = loss.bandwidth {
        let factor = format!("{factor:.1}; NCCL rates the paths {possible:.1} and {used:.1} GB/s");
        text.push_str(&labelled("factor:", &factor, style));
    }
    text + &labelled("machine:", machine_words(loss), style)
}

/// Whether the machine allows the faster path.
pub fn machine_words(loss: &Loss) -> &'static str {
    match loss.allowed {
        Allowed::No if loss.faster == FasterPath::Gdrcopy => {
            "no pair of ranks used RDMA or sockets, which is what GDRCopy serves"
        }
        Allowed::Yes if loss.faster == FasterPath::Gdrcopy => "pairs of ranks used a network",
        Allowed::Yes => "it allows the faster path",
        Allowed::No => "it does not allow the faster path",
        Allowed::Unknown => {
            "whether it allows the faster path is unknown; gdr explain --from FILE has it inspected (see gdr snapshot)"
        }
    }
}

/// A label and its text, wrapped below its start.
fn labelled(label: &str, body: &str, style: Style) -> String {
    format!("    {label:<9} {}\n", wrap(body, style.width, 14, &" ".repeat(14)))
}

/// A job that was killed and one that did not destroy its communicators write the same.
const END_MISSING: &str = "note: no line says that a communicator was destroyed, so the job may not have ended: it runs, was killed, or \
                           left them open.";

/// What one report of RAS does not tell.
const ASK_AGAIN: &str = "Those of a sound job do too, while it communicates: ask again; ranks whose numbers then stand still hang.";

/// Why an error is only a question.
const LOG_GOES_ON: &str = "Lines follow it, and nothing else failed.";

/// Who failed, and in which way.
pub fn failure_words(failure: &RankFailure) -> String {
    let what = match failure.kind {
        FailureKind::DuplicateGpu => "shares its GPU with another rank",
        FailureKind::NoSocketInterface => "found no network interface",
        FailureKind::NoNetwork => "started no network",
        FailureKind::ConnectionClosed => "lost the connection to a rank that ended",
        FailureKind::WatchdogTimeout => "waited for a collective until the watchdog's timeout",
        FailureKind::VersionMismatch => "has another version of NCCL than other ranks",
        FailureKind::Completion => "got an error from its RDMA NIC",
        FailureKind::QueuePair => {
            "could not connect a queue pair: compare GID index, MTU and routes"
        }
        FailureKind::SharedMemory => "could not make or open shared memory (/dev/shm)",
        FailureKind::ConnectionFailed => "could not connect to another rank",
        FailureKind::Bootstrap => {
            "started with a rank that another process has, or with another number of ranks"
        }
        FailureKind::CollectiveMismatch => "called another collective or size than its peer",
        FailureKind::CudaFailure => "got an error from CUDA",
        FailureKind::NetworkPlugin => "got an error from its network plugin",
        FailureKind::RasMismatch => {
            "differed from other ranks of its communicator when NCCL's RAS asked"
        }
        FailureKind::RasIncomplete => "does not answer NCCL's RAS",
        FailureKind::MemoryRegistration => "could not register memory with its NIC",
        FailureKind::Library => "could not start or use a transport of its library",
        FailureKind::Timeout => "waited for another rank until its library gave up",
        FailureKind::GpuMemory => "ran out of GPU memory",
        FailureKind::HostMemory => "ran out of host memory",
        FailureKind::Signal => "was ended by a signal",
        FailureKind::Exception => "ended with an exception of the program",
        FailureKind::Exited => "ended early",
        FailureKind::PortInUse => "could not listen: its port is in use",
        FailureKind::Rendezvous => "did not meet the other ranks (rendezvous)",
        FailureKind::OpenFiles => "has no file descriptors left: raise its limit (ulimit -n)",
        FailureKind::HostName => "could not resolve the name of another host",
        FailureKind::NodeLost => "was lost with its node or the launcher's daemon there",
        FailureKind::Other => "stopped at the error below",
        FailureKind::PerhapsHandled => "reported an error that the program may have handled",
    };
    let ranks: Vec<String> = failure.ranks.iter().map(u32::to_string).collect();
    let mut who = Vec::new();
    match ranks.as_slice() {
        [] => {}
        [one] => who.push(format!("rank {one}")),
        many => who.push(format!("each of the ranks {}", few(many, MAX_RANKS, ", "))),
    }
    match failure.processes.as_slice() {
        [] => {}
        [one] => who.push(format!("process {one}")),
        many => who.push(format!("each of the processes {}", few(many, MAX_RANKS, ", "))),
    }
    if who.is_empty() {
        who.push("a rank".to_owned());
    }
    format!("{} {what}.", who.join(" and "))
}

fn failed(failure: &RankFailure, style: Style) -> String {
    let words = failure_words(failure);
    let head = if failure.kind.is_certain() {
        format!("failed: {words}")
    } else {
        let why = match failure.kind {
            FailureKind::RasMismatch => ASK_AGAIN,
            _ => LOG_GOES_ON,
        };
        format!("perhaps a failure: {words} {why}")
    };
    let head = wrap(&printable(&head), style.width, 0, "    ");
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, &head));
    let line = printable(&format!("{}: {}", failure.line.place(), failure.line.text));
    text.push_str(&labelled("text:", &line, style));
    for detail in failure.details.iter().take(MAX_RANKS) {
        let ranks: Vec<String> = detail.ranks.iter().map(u32::to_string).collect();
        let ranks = match ranks.as_slice() {
            [] => String::new(),
            ranks => format!(" (rank {})", few(ranks, MAX_RANKS, ", ")),
        };
        text.push_str(&labelled("detail:", &printable(&format!("{}{ranks}", detail.text)), style));
    }
    if !failure.silent.is_empty() {
        let silent: Vec<String> = failure.silent.iter().map(u32::to_string).collect();
        let what = match failure.kind {
            FailureKind::WatchdogTimeout => "did not arrive, or wrote no more",
            _ => "no failure is reported by",
        };
        let silent = format!("{what}: {}", few(&silent, MAX_RANKS, ", "));
        text.push_str(&labelled("ranks:", &silent, style));
    }
    text
}
