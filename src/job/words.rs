//! One search for all texts that lines of interest have, beside those of NCCL.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::library::READERS;
use super::{last_error, program, ras};

/// NCCL up to 2.2 writes its lines without its name.
const OLD: [&str; 2] = ["] INFO ", " WARN "];

/// Paths in lines of NCCL whose start another process wrote over, or a terminal cut off.
const PATHS: [&str; 4] = [" via P2P/", " via SHM/", " via NET/", " via direct shared memory"];

/// Who reads lines with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The position in `READERS`.
    Library(usize),
    Program,
    LastError,
    Ras,
    Old,
    Path,
}

struct Words {
    search: Option<AhoCorasick>,
    of: Vec<Of>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let libraries = READERS.iter().enumerate().map(|(at, reader)| (reader.word, Of::Library(at)));
    let all: Vec<(&str, Of)> = libraries
        .chain(program::WORDS.iter().map(|word| (*word, Of::Program)))
        .chain(last_error::WORDS.iter().map(|word| (*word, Of::LastError)))
        .chain([(ras::HEADING, Of::Ras)])
        .chain(OLD.iter().map(|word| (*word, Of::Old)))
        .chain(PATHS.iter().map(|word| (*word, Of::Path)))
        .collect();
    let search = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(all.iter().map(|(word, _)| word));
    Words { search: search.ok(), of: all.into_iter().map(|(_, of)| of).collect() }
});

/// What the texts in a line say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// The position in `READERS`.
    pub library: Option<usize>,
    pub is_program: bool,
    pub is_last_error: bool,
    pub is_ras: bool,
    pub is_old: bool,
    pub is_path: bool,
}

/// Where the first text stands.
pub fn find(bytes: &[u8]) -> Option<usize> {
    Some(WORDS.search.as_ref()?.find(bytes)?.start())
}

/// The texts in a line.
pub fn of(line: &str) -> Found {
    let mut found = Found::default();
    for at in WORDS.search.iter().flat_map(|search| search.find_iter(line)) {
        match WORDS.of[at.pattern().as_usize()] {
            Of::Library(reader) => _ = found.library.get_or_insert(reader),
            Of::Program => found.is_program = true,
            Of::LastError => found.is_last_error = true,
            Of::Ras => found.is_ras = true,
            Of::Old => found.is_old = true,
            Of::Path => found.is_path = true,
        }
    }
    found
}
