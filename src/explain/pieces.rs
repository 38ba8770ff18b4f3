//! Splits a text into lines. Longer ones come in overlapping parts of bounded length.

use std::io::{self, Read};

use memchr::memchr3_iter;

/// Far longer than the messages to match.
const LONGEST: usize = 8 << 10;

/// The overlap of parts, so that a message at the boundary is complete in one of them.
const OVERLAP: usize = 512;

pub struct LineReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Start of the next line in the buffer.
    start: usize,
    read: u64,
    ended: bool,
    /// The line's number, from 1.
    line: u64,
    /// The next part continues the last one's line.
    going_on: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePart<'a> {
    /// The line's number, from 1.
    pub line: u64,
    /// Its bytes without the line end.
    pub bytes: &'a [u8],
    /// The line began in an earlier part.
    pub continues: bool,
}

impl<R: Read> LineReader<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            read: 0,
            ended: false,
            line: 1,
            going_on: false,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.read
    }

    /// The next part; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<LinePart<'_>>> {
        let end = loop {
            let buffered = &self.buffer[self.start..];
            let within = &buffered[..buffered.len().min(LONGEST)];
            if let Some((at, skip)) = line_end(within) {
                break Some((self.start + at, skip));
            }
            if buffered.len() >= LONGEST {
                break None;
            }
            if self.ended {
                if buffered.is_empty() {
                    return Ok(None);
                }
                break Some((self.buffer.len(), 0));
            }
            self.fill()?;
        };
        let (from, line, continues) = (self.start, self.line, self.going_on);
        let to = match end {
            Some((at, skip)) => {
                self.start = at + skip;
                self.line += 1;
                self.going_on = false;
                at
            }
            None => {
                self.start = from + LONGEST - OVERLAP;
                self.going_on = true;
                from + LONGEST
            }
        };
        Ok(Some(LinePart { line, bytes: &self.buffer[from..to], continues }))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let kept = self.buffer.len();
        self.buffer.resize(kept + (64 << 10), 0);
        let got = loop {
            match self.reader.read(&mut self.buffer[kept..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.buffer.truncate(kept + got);
        self.read += got as u64;
        self.ended = got == 0;
        Ok(())
    }
}

/// The position and length of a line end: line feed, carriage return, or `\n` as in JSON.
fn line_end(bytes: &[u8]) -> Option<(usize, usize)> {
    // Search no further than the line end: a text may have millions of short lines.
    memchr3_iter(b'\n', b'\r', b'\\', bytes).find_map(|at| {
        let after = bytes.get(at + 1);
        match bytes[at] {
            b'\r' if after == Some(&b'\n') => Some((at, 2)),
            b'\n' | b'\r' => Some((at, 1)),
            // `C:\new` is a path: `\n` ends a line only before a blank, a capital, a bracket, or at the end.
            b'\\' if after == Some(&b'n') && ends_a_line(bytes.get(at + 2)) => Some((at, 2)),
            _ => None,
        }
    })
}

/// Number of line ends in a text.
pub fn count_lines(mut bytes: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((at, length)) = line_end(bytes) {
        count += 1;
        bytes = &bytes[at + length..];
    }
    count
}

fn ends_a_line(next: Option<&u8>) -> bool {
    next.is_none_or(|b| !b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut reader = LineReader::new(text);
        let mut out = Vec::new();
        while let Some(part) = reader.next().expect("memory is read") {
            out.push((part.line, part.bytes.to_vec()));
        }
        out
    }

    #[test]
    fn recognises_all_line_ends() {
        let line_match = lines(b"one\ntwo\r\nthree\rfour\\nFive\nC:\\new\n\nlast");
        let words: Vec<String> = line_match
            .iter()
            .map(|(at, bytes)| format!("{at} {}", String::from_utf8_lossy(bytes)))
            .collect();
        assert_eq!(
            words,
            ["1 one", "2 two", "3 three", "4 four", "5 Five", "6 C:\\new", "7 ", "8 last"]
        );
        assert_eq!(
            lines(b"in C:\\new it failed\\n[0] why"),
            [(1, b"in C:\\new it failed".to_vec()), (2, b"[0] why".to_vec())]
        );
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn long_line_has_overlapping_parts() {
        let text = vec![b'x'; 20_000];
        let line_match = lines(&text);
        assert!(line_match.iter().all(|(at, bytes)| *at == 1 && bytes.len() <= LONGEST));
        let whole: usize = line_match.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(whole, 20_000 + OVERLAP * (line_match.len() - 1));
    }
}
