//! What libraries beside NCCL say about their paths and failures. Each has a reader of its own in a file of its own; a line of
//! NCCL is never read here.

mod deep_ep;
mod lost;
mod mooncake;
mod nixl;
mod nvshmem;
mod open_mpi;
mod ucx;

#[cfg(test)]
mod tests;

use memchr::{memchr, memchr_iter, memmem, memrchr};

use super::collector::Collector;
use super::failure::{Detail, Failure};
use super::header::Source;
use super::route::{LibraryLog, Route};
use crate::model::FailureKind;

pub use lost::lost;

/// Longest line that is read.
const LONGEST: usize = 4 << 10;

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
struct Reader {
    library: &'static str,
    word: &'static str,
    read: fn(&str) -> Vec<Statement>,
}

const READERS: [Reader; 17] = [
    Reader { library: ucx::NAME, word: "UCX  ", read: ucx::read },
    Reader { library: ucx::NAME, word: "UCX INFO", read: ucx::read },
    Reader { library: ucx::NAME, word: "cfg#", read: ucx::read },
    Reader { library: ucx::NAME, word: "ep_cfg[", read: ucx::read },
    Reader { library: ucx::NAME, word: "(synd 0x", read: ucx::read },
    Reader { library: nvshmem::NAME, word: "NVSHMEM", read: nvshmem::read },
    Reader { library: nvshmem::NAME, word: "nvshmem", read: nvshmem::read },
    Reader { library: nvshmem::NAME, word: "ncclsocket_socket.cpp:", read: nvshmem::read },
    Reader { library: open_mpi::NAME, word: "select: component ", read: open_mpi::read },
    Reader { library: open_mpi::NAME, word: "mca: bml: Using ", read: open_mpi::read },
    Reader { library: open_mpi::NAME, word: " cannot be selected", read: open_mpi::read },
    Reader { library: nixl::NAME, word: "nixl", read: nixl::read },
    Reader { library: nixl::NAME, word: "NIXL", read: nixl::read },
    Reader { library: mooncake::NAME, word: "rdma_context.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "_transport.cpp:", read: mooncake::read },
    Reader { library: mooncake::NAME, word: "transfer_engine", read: mooncake::read },
    Reader { library: deep_ep::NAME, word: "DeepEP ", read: deep_ep::read },
];

/// Finds the lines of libraries in the parts of a log that are not NCCL's.
pub struct Libraries {
    finders: Vec<memmem::Finder<'static>>,
    tables: ucx::Tables,
}

impl Default for Libraries {
    fn default() -> Self {
        let finders = READERS.iter().map(|reader| memmem::Finder::new(reader.word)).collect();
        Self { finders, tables: ucx::Tables::default() }
    }
}

impl Libraries {
    /// Reads complete lines, of which the first has this number.
    pub fn read(&mut self, bytes: &[u8], mut number: u64, collector: &mut Collector) {
        let mut at = 0;
        // Where each word stands next; `None` if it does not.
        let mut next: Vec<Option<usize>> =
            self.finders.iter().map(|finder| finder.find(bytes)).collect();
        while at < bytes.len() {
            for (found, finder) in next.iter_mut().zip(&self.finders) {
                if found.is_some_and(|found| found < at) {
                    *found = finder.find(&bytes[at..]).map(|found| at + found);
                }
            }
            let first =
                (next.iter().zip(0..)).filter_map(|(found, of)| Some(((*found)?, of))).min();
            // A table has no word in its rows.
            let from = match (self.tables.is_open(), first) {
                (true, _) => at,
                (false, Some((found, _))) => found,
                (false, None) => return,
            };
            let start = memrchr(b'\n', &bytes[at..from]).map_or(at, |end| at + end + 1);
            let end = memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |end| from + end);
            number += memchr_iter(b'\n', &bytes[at..start]).count() as u64;
            let of = first.filter(|(found, _)| *found < end).map(|(_, of): (usize, usize)| of);
            if end - start <= LONGEST {
                self.line(&String::from_utf8_lossy(&bytes[start..end]), of, number, collector);
            }
            number += 1;
            at = end + 1;
        }
    }

    fn line(&mut self, text: &str, of: Option<usize>, number: u64, collector: &mut Collector) {
        if let Some(route) = self.tables.line(text) {
            collector.library(ucx::NAME, |log, quote| log.add(route, quote), text, number);
        }
        let Some(reader) = of.map(|of| &READERS[of]) else { return };
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
        let process = parts.next()?.trim().parse().ok()?;
        Some(Source { host, process, thread: 0 })
    });
    in_brackets.or_else(|| super::header::source(line.split_once("NVSHMEM")?.0))
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
