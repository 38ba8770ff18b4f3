//! Messages of several processes in one line: a collector of logs, or a paste, dropped the line ends between them.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::header;

/// Two messages are longer.
const SHORTEST: usize = 100;

const WORDS: [&str; 2] = ["NCCL INFO ", "NCCL WARN "];

/// Most lines have it once.
static NCCL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"NCCL "));

/// The first message of a line, and the rest, which begins with the header of the next one. `None` if the line has one
/// message, or if the first may be cut: two processes that write at once leave no blank between.
pub fn split(text: &str) -> Option<(&str, &str)> {
    if text.len() < SHORTEST {
        return None;
    }
    let once = NCCL.find(text.as_bytes())? + 1;
    NCCL.find(&text.as_bytes()[once..])?;
    let first = next(text, 0)?;
    let second = next(text, first + WORDS[0].len())?;
    let host = header::source(&text[..second])?.host;
    let at = text[..second].rfind(host)?;
    // What a launcher writes before the host belongs to it.
    let begin = text[..at].rfind(char::is_whitespace)? + 1;
    let message = text.get(first + WORDS[0].len()..begin)?;
    (!message.trim().is_empty()).then(|| text.split_at(begin))
}

fn next(text: &str, from: usize) -> Option<usize> {
    WORDS.iter().filter_map(|word| text[from..].find(word)).min().map(|found| from + found)
}
