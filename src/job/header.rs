//! The start of a line of NCCL: `host:pid:tid [gpu] NCCL INFO …`, `host:pid:tid [gpu] file:line NCCL WARN …`. What a
//! launcher writes before it (torchrun, `srun -l`, `mpirun --tag-output`, Kubernetes, Ray) is dropped.

use memchr::{memrchr, memrchr_iter};

const INFO: &str = "NCCL INFO ";
const WARN: &str = "NCCL WARN ";

/// The thread that printed a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Source<'a> {
    pub host: &'a str,
    pub process: u64,
    pub thread: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// What stands before the message.
    pub header: &'a str,
    pub is_warning: bool,
    pub message: &'a str,
}

impl<'a> Line<'a> {
    /// `None` if the line lacks it. Most lines say nothing for which it is needed.
    pub fn source(&self) -> Option<Source<'a>> {
        source(self.header)
    }

    /// True if nothing stands before the message but its place in the sources, such as `graph/xml.h:42`.
    pub fn is_alone(&self) -> bool {
        let Some((_, word)) = last_word(self.header) else { return true };
        let (file, line) = rsplit_once(word, b':').unwrap_or((word, ""));
        let is_file = [".h", ".cc", ".cpp", ".c", ".cu"].iter().any(|end| file.ends_with(end));
        is_file
            || is_gpu(word)
            || !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// Reads a line of NCCL. Of two lines in one, the last.
pub fn parse(line: &str) -> Option<Line<'_>> {
    // A search for the first letter from the end: `rfind` of a text looks at each byte.
    let at = memrchr_iter(b'N', line.as_bytes()).find(|at| {
        let rest = &line.as_bytes()[*at..];
        rest.starts_with(INFO.as_bytes()) || rest.starts_with(WARN.as_bytes())
    })?;
    parse_at(line, at)
}

/// Reads a line that has the name of NCCL at this place alone.
pub fn parse_at(line: &str, at: usize) -> Option<Line<'_>> {
    let (header, rest) = line.split_at_checked(at)?;
    let is_warning = rest.starts_with(WARN);
    if !is_warning && !rest.starts_with(INFO) {
        return None;
    }
    let message = rest[INFO.len()..].trim_ascii();
    Some(Line { header, is_warning, message })
}

/// Reads a line of NCCL up to 2.2: `host:pid:tid [gpu] INFO …`, `host:pid:tid [gpu] file:line WARN …`.
pub fn parse_old(line: &str) -> Option<Line<'_>> {
    let info = line.split_once("] INFO ");
    let is_warning = info.is_none();
    let (header, message) = match info {
        Some((header, message)) => (&line[..=header.len()], message),
        None => line.split_once(" WARN ")?,
    };
    let place = last_word(header).and_then(|(_, word)| rsplit_once(word, b':'));
    let is_place = place.is_some_and(|(file, line)| {
        [".h", ".cu", ".cc"].iter().any(|end| file.ends_with(end)) && line.parse::<u32>().is_ok()
    });
    let is_old = is_warning && is_place || source(header).is_some();
    is_old.then(|| Line { header, is_warning, message: message.trim_ascii() })
}

/// The last `host:pid:tid` that a GPU in brackets follows.
pub fn source(header: &str) -> Option<Source<'_>> {
    usual(header).or_else(|| any(header))
}

/// The source of a header that ends as most do, `host:pid:tid [gpu] `: a few steps backwards.
fn usual(header: &str) -> Option<Source<'_>> {
    let bytes = header.as_bytes().strip_suffix(b"] ")?;
    let gpu = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = bytes[..bytes.len() - gpu].strip_suffix(b" [").filter(|_| gpu > 0 && gpu < LONG)?;
    let (rest, thread) = number(rest)?;
    let (rest, process) = number(rest)?;
    let is_host = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let start = rest.len() - rest.iter().rev().take_while(is_host).count();
    let is_begin = start == 0 || matches!(rest[start - 1], b' ' | b':');
    let host = header.get(start..rest.len()).filter(|host| is_begin && !host.is_empty())?;
    Some(Source { host, process, thread })
}

/// Digits from which on a number may be too large.
const LONG: usize = 19;

/// The number after the last colon, and what is before that.
fn number(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, number) = bytes.split_at(bytes.len() - digits);
    let rest = rest.strip_suffix(b":").filter(|_| digits > 0 && digits < LONG)?;
    Some((rest, number.iter().fold(0, |number, byte| number * 10 + u64::from(byte - b'0'))))
}

fn any(header: &str) -> Option<Source<'_>> {
    let (mut rest, mut gpu) = last_word(header)?;
    loop {
        let (before, word) = last_word(rest)?;
        if is_gpu(gpu)
            && let Some(source) = thread(word)
        {
            return Some(source);
        }
        (rest, gpu) = (before, word);
    }
}

/// The last word of a text, and what is before it.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_ascii_end();
    let blank = text.bytes().rposition(|byte| byte.is_ascii_whitespace());
    let (rest, word) = text.split_at_checked(blank.map_or(0, |at| at + 1))?;
    (!word.is_empty()).then_some((rest, word))
}

/// As `str::rsplit_once`, in a few steps: each line of a log needs it several times.
fn rsplit_once(text: &str, separator: u8) -> Option<(&str, &str)> {
    let at = memrchr(separator, text.as_bytes())?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn is_gpu(word: &str) -> bool {
    let number = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    number.is_some_and(|number| number.parse::<i64>().is_ok())
}

fn thread(word: &str) -> Option<Source<'_>> {
    let (rest, thread) = rsplit_once(word, b':')?;
    let (rest, process) = rsplit_once(rest, b':')?;
    // mpirun and torchrun write their rank before the host without a blank.
    let host = rsplit_once(rest, b':').map_or(rest, |(_, host)| host);
    let host = rsplit_once(host, 0x1b)
        .map_or(host, |(_, host)| host.split_once('m').map_or(host, |(_, host)| host));
    // As the value of a field in JSON.
    let host = host.trim_matches(['"', '\'']);
    if host.is_empty() {
        return None;
    }
    Some(Source { host, process: process.parse().ok()?, thread: thread.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same_source() {
        for (header, expected) in [
            ("n1:12:13 [0] ", Some(("n1", 12, 13))),
            ("[1,0]<stdout>:n-1.x_y:12:13 [10] ", Some(("n-1.x_y", 12, 13))),
            ("[2026-01-01 00:00:00] n1:12:13 [0] ", Some(("n1", 12, 13))),
            ("n1:12:13 [] ", None),
            ("n1:12:13 ", None),
            (":12:13 [0] ", None),
            ("n1:12: [0] ", None),
            ("n1:12:13 [99999999999999999999] ", None),
            ("n1:99999999999999999999:13 [0] ", None),
        ] {
            let found = |source: Option<Source<'_>>| {
                source.map(|of| (of.host.to_owned(), of.process, of.thread))
            };
            let expected =
                expected.map(|(host, process, thread)| (String::from(host), process, thread));
            assert_eq!(found(any(header)), expected, "{header}");
            assert_eq!(found(source(header)), expected, "{header}");
            assert!(found(usual(header)).is_none_or(|found| Some(found) == expected), "{header}");
        }
    }
}
