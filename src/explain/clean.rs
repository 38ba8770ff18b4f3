//! Cleans a log line: removes colours, control characters, times, hosts and process ids; converts to lower case.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

pub struct Cleaner {
    prefix: Regex,
    time: Regex,
    host: Regex,
    address: Regex,
    frame: Regex,
    build: Regex,
    option: Regex,
    code: Regex,
}

/// Prefixes of messages, possibly repeated: time, process, rank.
const PREFIX: &str = concat!(
    r"^(?:",
    r"\[?\d{4}[-/]\d\d[-/]\d\d[t_ -]\d\d:\d\d:\d\d[.,:\d]*(?: ?utc|z|[+-]\d\d:?\d\d)?\]?",
    r"|\[?\d\d[-/]\d\d[-/]\d{4} \d\d:\d\d:\d\d[.,:\d]*\]?",
    r"|\[?(?:(?:mon|tue|wed|thu|fri|sat|sun),? )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) +\d+ (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?\]?",
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?",
    r"|\[ ?\d+\.\d+\]",
    r"|[iwef]\d{4,8} \d\d:\d\d:\d\d\.\d+ +\d+",
    r"|\[[iwef](?:\d{4} [\d:.]+)? [a-z0-9_./]+\.(?:cpp|cc|py):\d+\]",
    r"|(?:debug|info|warning|error) \d\d-\d\d \d\d:\d\d:\d\d(?: [a-z0-9_./\[\]:]+\])?",
    r"|\[\d+,\d+\]<std(?:out|err)>:?",
    r"|\[(?:default|rank|local_rank)? ?\d+\]:",
    r"|rank ?\d+:",
    r"|\(\w+ pid=\d+(?:, ip=[\d.]+)?\)",
    r"|<\d{1,3}>",
    r"|kern(?:el)? ?:",
    r"|[a-z0-9<>_.-]+:\d+:\d+(?::\d+)? \[[\d-]+\]",
    r"|\[[a-z0-9_.-]+:\d+(?::\d+)*\]",
    r"|\[pid[ =]\d+(?: tid[ =]\d+)?\]",
    r"|(?:\d{1,3}\.){3}\d{1,3}:",
    r"|[>$#|*]+(?: |$)",
    r")[ :]*"
);

/// A host between time and program: `May  3 11:02:12 node7 kernel: `.
const HOST: &str = r"^[a-z0-9][a-z0-9._-]* [a-z0-9_.@/()-]+(?:\[\d+\])?: ";

/// Web addresses.
const ADDRESS: &str = r"\b(?:https?|ftp|git)://[^ ]+ ?";

/// A stack frame, whose names belong to the program.
const FRAME: &str =
    r#"^(?:file "[^"]*", line \d+|#\d+ +0x|\d+ +0x[0-9a-f]+|at [a-z0-9_.$]+\(|\[0x[0-9a-f]+\])"#;

/// Commands and warnings of compilers: the names in them are files and options.
const BUILD: &str = concat!(
    r"^(?:configured with: ",
    r"|(?:\S*/)?(?:\S+-linux-gnu-)?(?:cc|gcc|g\+\+|clang|ld|ld\.bfd|nvcc|make|ar)(?:-\d+)? .*(?: -[wdi]\S| -o )",
    r"|\S+\.[ch](?:pp|u)?:\d+(?::\d+)?: (?:warning|note): ",
    r"|conftest: |skipping btf generation )"
);

/// Options that compilers alone have. Literals, which cost less than an expression that a line's start decides.
const OPTION: &str = r" -isystem | -wp,-md,| -wp,-mmd,";

/// A line of a program's source, which the message comes from.
const CODE: &str = r"^\S+\.(?:py|rs|go|cu|cc|c|cpp):\d+";

impl Cleaner {
    pub fn new() -> Result<Self, regex::Error> {
        let regex = |pattern| RegexBuilder::new(pattern).unicode(false).build();
        Ok(Self {
            prefix: regex(PREFIX)?,
            time: regex(r"\d\d:\d\d:\d\d")?,
            host: regex(HOST)?,
            address: regex(ADDRESS)?,
            frame: regex(FRAME)?,
            build: regex(BUILD)?,
            option: regex(OPTION)?,
            code: regex(CODE)?,
        })
    }

    /// Cleans a line that is in lower case; empty for a stack frame and for a compiler's command or warning. True if a program
    /// printed the line: it had a time, a process, a rank or a line of source.
    pub fn clean(&self, out: &mut Vec<u8>) -> bool {
        let mut start = 0;
        let mut dated = false;
        let mut printed = false;
        // Limits the work for hostile lines; real ones have fewer prefixes.
        for _ in 0..8 {
            let rest = &out[start..];
            if let Some(found) = self.prefix.find(rest) {
                dated = self.time.is_match(found.as_bytes());
                printed |=
                    !matches!(found.as_bytes().first(), Some(b'>' | b'$' | b'#' | b'|' | b'*'));
                start += found.end();
            } else if let Some(blank) =
                memchr(b' ', rest).filter(|_| dated && self.host.is_match(rest))
            {
                start += blank + 1;
                dated = false;
            } else {
                break;
            }
        }
        out.drain(..start);
        printed |= self.code.is_match(out);
        if self.frame.is_match(out) || self.build.is_match(out) || self.option.is_match(out) {
            out.clear();
        }
        if has_address(out) && self.address.is_match(out) {
            *out = self.address.replace_all(out, &b""[..]).into_owned();
        }
        // The border of a table.
        while matches!(out.last(), Some(b' ' | b'|')) {
            out.pop();
        }
        printed
    }
}

/// Converts a line to lower case, without colours and control characters.
pub fn lower(line: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(line);
    if lower_plain(out) {
        return;
    }
    out.clear();
    plain(line, |byte| {
        let byte = byte.to_ascii_lowercase();
        if byte != b' ' || !matches!(out.last(), None | Some(b' ')) {
            out.push(byte);
        }
    });
}

/// Converts a line to lower case in which `plain` changes nothing, and in which no blank follows another one: so are most lines of a
/// log. False if the line is another one, which then is converted in part.
fn lower_plain(line: &mut [u8]) -> bool {
    let mut after_blank = true;
    let (words, rest) = line.as_chunks_mut();
    for word in words {
        match plain_word(*word, after_blank) {
            Some(lower) => (*word, after_blank) = (lower, lower[7] == b' '),
            None => return false,
        }
    }
    let mut word = [b'x'; 8];
    word[..rest.len()].copy_from_slice(rest);
    let lower = plain_word(word, after_blank);
    lower.inspect(|lower| rest.copy_from_slice(&lower[..rest.len()])).is_some()
}

/// Eight bytes of such a line in lower case, all at once: a log has hundreds of millions.
fn plain_word(word: [u8; 8], after_blank: bool) -> Option<[u8; 8]> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let bytes = u64::from_le_bytes(word);
    if bytes & HIGH != 0 {
        return None;
    }
    // The high bit of each byte that is at least so large, if none has it before.
    let from = |least: u8| (bytes + (0x80 - u64::from(least)) * EACH) & HIGH;
    let is = |byte: u8| from(byte) & !from(byte + 1);
    let blanks = is(b' ');
    let pairs = blanks & (blanks << 8 | u64::from(after_blank) << 7);
    let is_plain = from(b' ') == HIGH && from(0x7f) | is(b'`') | is(b'\\') | pairs == 0;
    let capitals = from(b'A') & !from(b'Z' + 1);
    is_plain.then(|| (bytes | capitals >> 2).to_le_bytes())
}

static ADDRESS_SIGN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"://"));

/// True if a line may have an address, without which its words are others.
pub fn has_address(line: &[u8]) -> bool {
    ADDRESS_SIGN.find(line).is_some()
}

/// Words without which English does not do.
fn is_common(word: &[u8]) -> bool {
    matches!(
        word,
        b"a" | b"am"
            | b"an"
            | b"and"
            | b"any"
            | b"are"
            | b"as"
            | b"but"
            | b"can"
            | b"does"
            | b"doesn't"
            | b"for"
            | b"get"
            | b"have"
            | b"how"
            | b"i"
            | b"i'm"
            | b"in"
            | b"is"
            | b"it"
            | b"it's"
            | b"my"
            | b"of"
            | b"on"
            | b"our"
            | b"that"
            | b"the"
            | b"there"
            | b"this"
            | b"to"
            | b"using"
            | b"was"
            | b"we"
            | b"what"
            | b"when"
            | b"why"
            | b"with"
            | b"work"
            | b"works"
            | b"you"
    )
}

/// True if a clean line reads like a sentence of a person: enough words, some of them common ones.
pub fn is_sentence(line: &[u8]) -> bool {
    let mut words = 0;
    let mut common = 0;
    for word in line.split(|byte| *byte == b' ') {
        let end = word.iter().rposition(|byte| !b".,;:!?)".contains(byte));
        let word = &word[..end.map_or(0, |end| end + 1)];
        words += usize::from(
            !word.is_empty() && word.iter().all(|b| b.is_ascii_alphabetic() || *b == b'\''),
        );
        common += usize::from(is_common(word));
    }
    words >= 6 && common >= 3
}

/// A line for display, without colours and control characters, shortened.
pub fn shown(line: &[u8]) -> String {
    const MOST: usize = 300;
    let mut bytes = Vec::new();
    plain(line, |byte| {
        if byte != b' ' || !matches!(bytes.last(), None | Some(b' ')) {
            bytes.push(byte);
        }
    });
    let text = String::from_utf8_lossy(&bytes);
    let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Removes terminal sequences; control characters become blanks; typographic quotes and dashes become ASCII.
fn plain(line: &[u8], mut push: impl FnMut(u8)) {
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            0x1b => rest = after_sequence(after),
            0..=0x1f | 0x7f => push(b' '),
            b'`' => push(b'\''),
            // An escaped quote in JSON.
            b'\\' if after.first() == Some(&b'"') => {}
            0xc2 if after.first() == Some(&0xa0) => {
                push(b' ');
                rest = &after[1..];
            }
            0xe2 if after.first() == Some(&0x80) && after.len() > 1 => {
                let stands_for = match after[1] {
                    0x98 | 0x99 => Some(b'\''),
                    0x9c | 0x9d => Some(b'"'),
                    0x90..=0x95 => Some(b'-'),
                    _ => None,
                };
                match stands_for {
                    Some(plain) => {
                        push(plain);
                        rest = &after[2..];
                    }
                    None => push(byte),
                }
            }
            _ => push(byte),
        }
    }
}

/// The text after a terminal sequence (ECMA-48: 5.4, 5.6).
fn after_sequence(after: &[u8]) -> &[u8] {
    match after.split_first() {
        // A control sequence ends with a byte from @ to ~.
        Some((b'[', rest)) => match rest.iter().position(|b| (0x40..=0x7e).contains(b)) {
            Some(end) => &rest[end + 1..],
            None => &[],
        },
        // A control string ends with BEL, or with an escape and a backslash.
        Some((b']' | b'P' | b'X' | b'^' | b'_', rest)) => {
            match rest.iter().position(|b| matches!(b, 0x07 | 0x1b)) {
                Some(end) if rest[end] == 0x1b => rest.get(end + 2..).unwrap_or_default(),
                Some(end) => &rest[end + 1..],
                None => &[],
            }
        }
        Some((_, rest)) => rest,
        None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(line: &str) -> String {
        let mut out = Vec::new();
        lower(line.as_bytes(), &mut out);
        Cleaner::new().expect("patterns").clean(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn removes_prefixes() {
        for line in [
            "node7:1234:1300 [0] NCCL WARN it failed",
            "[2025-03-18 21:25:59] node7:1:92 [0] NCCL WARN it failed",
            "[1,3]<stderr>:node7:1234:1300 [0] NCCL WARN it failed",
            "10.0.87.143: 10.0.87.143: ip-10-0-87-143:149:298 [5] NCCL WARN it failed",
            "(RayWorker pid=123, ip=10.0.0.1) 2025-11-11T10:00:00.123Z NCCL WARN it failed",
            "\u{1b}[31mnode7:1234:1300 [0]\u{1b}[0m NCCL   WARN\tit failed  ",
            "[rank3]: NCCL WARN it failed",
            "> NCCL WARN it failed",
        ] {
            assert_eq!(clean(line), "nccl warn it failed", "{line}");
        }
        assert_eq!(clean("May  3 11:02:12 gdrcopy-host kernel: [  12.5] NVRM: no"), "nvrm: no");
        assert_eq!(
            clean("[Tue Sep  8 17:16:02 2026] nvidia_peermem: Unknown symbol x (err -22)"),
            "nvidia_peermem: unknown symbol x (err -22)"
        );
        assert_eq!(
            clean("[1739305867.601977] [dgx14:1131436:0]           ib_md.c:282  UCX  ERROR x"),
            "ib_md.c:282 ucx error x"
        );
        assert_eq!(
            clean("E1030 07:53:11.382602  9073 rdma_context.cpp:253] Failed"),
            "rdma_context.cpp:253] failed"
        );
        assert_eq!(
            clean("[nid04276:26561] Signal code: Invalid permissions (2)"),
            "signal code: invalid permissions (2)"
        );
        assert_eq!(
            clean("2025-11-03T01:02:03+00:00 peermem-7 sshd[12]: timed out"),
            "sshd[12]: timed out"
        );
    }

    #[test]
    fn drops_frames_and_addresses() {
        assert_eq!(clean("  File \"/opt/gdrcopy/x.py\", line 3, in reg_mr"), "");
        assert_eq!(clean("see https://example.org/nvidia-peermem-fails now"), "see now");
    }

    #[test]
    fn normalizes_quotes_and_dashes() {
        assert_eq!(clean("Couldn’t – “open” `it`"), "couldn't - \"open\" 'it'");
        assert_eq!(clean("a\u{a0}b\u{0}c"), "a b c");
    }

    #[test]
    fn plain_lines_are_lowered_as_others() {
        // Every byte at every place of a line that is longer than two words, alone and before a blank.
        let line = b"NCCL INFO Channel 00";
        let places = 0..line.len() - 1;
        for (at, byte, next) in places.flat_map(|at| {
            (0..=u8::MAX).flat_map(move |byte| [(at, byte, line[at + 1]), (at, byte, b' ')])
        }) {
            let mut line = *line;
            [line[at], line[at + 1]] = [byte, next];
            for length in [at + 1, at + 2, line.len()] {
                let line = &line[..length];
                let (mut fast, mut slow) = (Vec::new(), Vec::new());
                lower(line, &mut fast);
                plain(line, |byte| {
                    let byte = byte.to_ascii_lowercase();
                    if byte != b' ' || !matches!(slow.last(), None | Some(b' ')) {
                        slow.push(byte);
                    }
                });
                assert_eq!(fast, slow, "{:?}", line.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn shown_line_has_no_control_characters() {
        let line = b"\x1b]0;title\x07bad\x1b[2J \x00\x9b31m \x1bP1$r\x1b\\end\xff";
        let text = shown(line);
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
        assert!(text.starts_with("bad") && text.contains("end"), "{text:?}");
        assert_eq!(shown(&[b'x'; 1000]).chars().count(), 301);
    }
}
