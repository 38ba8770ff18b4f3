//! A text → its lines, none longer than a bound. Where a line is longer it comes in pieces that overlap.

use std::io::{self, Read};

/// The longest piece. A message that is to be matched is far shorter.
const LONGEST: usize = 8 << 10;

/// What the next piece of one line repeats of the piece before it: a message at the cut is whole in one of them.
const OVERLAP: usize = 512;

/// The lines of a text, read as it goes.
pub struct Pieces<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// Bytes that have been read.
    read: u64,
    ended: bool,
    /// Which line it is, from 1.
    line: u64,
    /// The next piece goes on with the line of the last one.
    going_on: bool,
}

/// A line, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Which line it is of, from 1.
    pub line: u64,
    /// Its bytes, without the line's end.
    pub bytes: &'a [u8],
    /// The line began in an earlier piece.
    pub goes_on: bool,
}

impl<R: Read> Pieces<R> {
    /// The lines of what is read.
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

    /// How many bytes were read so far.
    pub fn bytes(&self) -> u64 {
        self.read
    }

    /// The next piece; none at the end.
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        let end = loop {
            let there = &self.buffer[self.start..];
            let within = &there[..there.len().min(LONGEST)];
            if let Some((at, skip)) = line_end(within) {
                break Some((self.start + at, skip));
            }
            if there.len() >= LONGEST {
                break None;
            }
            if self.ended {
                if there.is_empty() {
                    return Ok(None);
                }
                break Some((self.buffer.len(), 0));
            }
            self.fill()?;
        };
        let (from, line, goes_on) = (self.start, self.line, self.going_on);
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
        Ok(Some(Piece {
            line,
            bytes: &self.buffer[from..to],
            goes_on,
        }))
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

/// Where a line ends, and how many bytes its end takes: a line feed, a carriage return, or `\n` as JSON writes it.
fn line_end(bytes: &[u8]) -> Option<(usize, usize)> {
    // No further than the end itself: a text may have millions of short lines.
    bytes.iter().enumerate().find_map(|(at, byte)| {
        let after = bytes.get(at + 1);
        match byte {
            b'\r' if after == Some(&b'\n') => Some((at, 2)),
            b'\n' | b'\r' => Some((at, 1)),
            // `C:\new` is a path: only an `\n` that a blank or a capital or a bracket follows, or nothing, ends a line.
            b'\\' if after == Some(&b'n') && ends_a_line(bytes.get(at + 2)) => Some((at, 2)),
            _ => None,
        }
    })
}

fn ends_a_line(next: Option<&u8>) -> bool {
    next.is_none_or(|b| !b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = Pieces::new(text);
        let mut out = Vec::new();
        while let Some(piece) = pieces.next().expect("memory is read") {
            out.push((piece.line, piece.bytes.to_vec()));
        }
        out
    }

    #[test]
    fn every_end_of_a_line_ends_it() {
        let told = lines(b"one\ntwo\r\nthree\rfour\\nFive\nC:\\new\n\nlast");
        let words: Vec<String> = told
            .iter()
            .map(|(at, bytes)| format!("{at} {}", String::from_utf8_lossy(bytes)))
            .collect();
        assert_eq!(
            words,
            [
                "1 one",
                "2 two",
                "3 three",
                "4 four",
                "5 Five",
                "6 C:\\new",
                "7 ",
                "8 last"
            ]
        );
        assert_eq!(
            lines(b"in C:\\new it failed\\n[0] why"),
            [
                (1, b"in C:\\new it failed".to_vec()),
                (2, b"[0] why".to_vec())
            ]
        );
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn a_long_line_comes_in_pieces_that_overlap() {
        let text = vec![b'x'; 20_000];
        let told = lines(&text);
        assert!(
            told.iter()
                .all(|(at, bytes)| *at == 1 && bytes.len() <= LONGEST)
        );
        let whole: usize = told.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(whole, 20_000 + OVERLAP * (told.len() - 1));
    }
}
