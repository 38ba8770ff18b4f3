//! What libraries beside NCCL say about their paths and failures. Each has a reader of its own in a file of its own; a line of
//! NCCL is never read here.

mod deep_ep;
mod lost;
mod mooncake;
mod nixl;
mod nvshmem;
mod ofi;
mod open_mpi;
mod ucx;

#[cfg(test)]
mod tests;

use super::collector::Collector;
use super::failure::{Detail, Failure};
use super::header::Source;
use super::route::{LibraryLog, Route};
use crate::model::FailureKind;

pub use lost::lost;
pub use open_mpi::{NAME as OPEN_MPI, btl, selected};
pub use ucx::{Tables, endpoint};

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Statement {
    Version(String),
    Path(Route),
    /// A variable that the process has.
    Setting(String, String),
    Failure(Failure),
}

/// A library, a text that each line of interest has, and what reads such a line.
pub struct Reader {
    library: &'static str,
    pub word: &'static str,
    read: fn(&str) -> Vec<Statement>,
}

pub const READERS: [Reader; 31] = [
    Reader { library: ofi::NAME, word: "WARN: Function: ", read: ofi::read },
    Reader { library: ucx::NAME, word: "UCX  ", read: ucx::read },
    Reader { library: ucx::NAME, word: "UCX INFO", read: ucx::read },
    Reader { library: ucx::NAME, word: "UCX ERROR", read: ucx::read },
    Reader { library: ucx::NAME, word: "UCX Fatal: ", read: ucx::read },
    Reader { library: ucx::NAME, word: "cfg#", read: ucx::read },
    Reader { library: ucx::NAME, word: "ep_cfg[", read: ucx::read },
    Reader { library: ucx::NAME, word: "(synd 0x", read: ucx::read },
    Reader { library: nvshmem::NAME, word: "NVSHMEM", read: nvshmem::read },
    Reader { library: nvshmem::NAME, word: "nvshmem", read: nvshmem::read },
    Reader { library: nvshmem::NAME, word: "ncclsocket_socket.cpp:", read: nvshmem::read },
    Reader { library: open_mpi::NAME, word: "select: component ", read: open_mpi::read },
    Reader { library: open_mpi::NAME, word: "mca: bml: Using ", read: open_mpi::read },
    Reader { library: open_mpi::NAME, word: " cannot be selected", read: open_mpi::read },
    Reader { library: open_mpi::NAME, word: "pml_ucx.c:", read: open_mpi::read },
    Reader { library: nixl::NAME, word: "nixl", read: nixl::read },
    Reader { library: nixl::NAME, word: "NIXL", read: nixl::read },
    Reader { library: nixl::NAME, word: "_backend.cpp:", read: nixl::read },
    Reader { library: mooncake::NAME, word: "rdma_context.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "master_client.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "transfer_task.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "coro_connection.hpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "coro_rpc_client.hpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: " workers.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "_transport.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "worker_pool.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "rdma_endpoint.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "store_py.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "transfer_engine", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "transfer_metadata", read: mooncake::read },
    Reader { library: deep_ep::NAME, word: "DeepEP ", read: deep_ep::read },
];

/// Reads the lines of libraries that are not NCCL's.
#[derive(Default)]
pub struct Libraries {
    tables: ucx::Tables,
}

impl Libraries {
    /// The next lines may be rows of a table.
    pub fn is_open(&self) -> bool {
        self.tables.is_open()
    }

    /// Reads a line with the text of this reader.
    pub fn line(&mut self, text: &str, of: Option<usize>, number: u64, collector: &mut Collector) {
        if let Some(route) = self.tables.line(text) {
            collector.library(ucx::NAME, |log, quote| log.add(route, quote), text, number);
        }
        let Some(reader) = of.and_then(|of| READERS.get(of)) else { return };
        for statement in (reader.read)(text) {
            match statement {
                Statement::Version(version) => collector.library(
                    reader.library,
                    |log, _| _ = log.versions.len() < 16 && log.versions.insert(version),
                    text,
                    number,
                ),
                Statement::Path(route) => collector.library(
                    reader.library,
                    |log, quote| log.add(route, quote),
                    text,
                    number,
                ),
                Statement::Setting(name, value) => collector.shown(&name, &value, text, number),
                Statement::Failure(failure) => {
                    collector.of_library(failure, source(text), text, number);
                }
            }
        }
    }
}

/// The process of a line: `[host:pid:thread]` of UCX, `[host:pid]` of Open MPI, `host:pid:tid [gpu]` of NVSHMEM.
fn source(line: &str) -> Option<Source<'_>> {
    let in_brackets = line.split('[').skip(1).find_map(|part| {
        let (inside, _) = part.split_once(']')?;
        let mut parts = inside.split(':');
        let host = parts.next().filter(|host| host.contains(|c: char| c.is_ascii_alphabetic()))?;
        // `[nixl_connector.py:1198]` is a place in a program.
        let is_file = [".py", ".cpp", ".cc", ".hpp"].iter().any(|end| host.ends_with(end));
        let host = Some(host).filter(|_| !is_file)?;
        let process = parts.next()?.trim().parse().ok()?;
        Some(Source { host, process, thread: 0 })
    });
    in_brackets.or_else(|| super::header::source(line.split_once("NVSHMEM")?.0))
}

/// Words, in lower case, of a message that something failed.
const FAULTS: [&str; 12] = [
    "fail",
    "error",
    "timeout",
    "timed out",
    "refused",
    "unable",
    "cannot",
    "can not",
    "could not",
    "couldn't",
    "invalid",
    "not found",
];

/// True if an error of a program says that something failed. A key that a cache lacks is not a failure.
fn is_fault(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    FAULTS.iter().any(|text| lower.contains(text)) && !lower.contains("key")
}

/// What an error is about that no reader knows by its text.
fn kind_of(message: &str) -> FailureKind {
    let lower = message.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    if has(&["connection refused", "no route to host", "connection timed out"]) {
        FailureKind::ConnectionFailed
    } else if has(&["timed out", "timeout"]) {
        FailureKind::Timeout
    } else {
        FailureKind::Library
    }
}

/// The place and the message of a line of glog or of Abseil: `E0203 17:42:09.400249 3720678 a.cpp:594] message`, and of the same without a
/// level: `[a.hpp:594] message`.
fn placed(line: &str) -> Option<(&str, &str)> {
    [".cpp:", ".hpp:"].iter().find_map(|end| {
        let (place, rest) = line.split_once(end)?;
        let (number, message) = rest.split_once("] ")?;
        number.parse::<u32>().ok()?;
        Some((place, message))
    })
}

/// True if the line has one of these levels of glog. A launcher may write before it.
fn has_level(place: &str, levels: &[char]) -> bool {
    place.split(' ').any(|word| {
        let rest = word.strip_prefix(levels);
        rest.is_some_and(|rest| rest.len() >= 4 && rest.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn failed(kind: FailureKind, detail: &str) -> Statement {
    let detail: String = detail.trim().chars().take(160).collect();
    Statement::Failure(Failure { kind, rank: None, detail: Some(Detail::Text(detail)) })
}

/// Whether a word is the name of a component: it is not cut, and no prose.
fn is_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !word.is_empty() && word.len() <= 32 && word.chars().all(is_part)
}
