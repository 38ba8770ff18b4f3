//! Reads one cpio archive in the "newc" format (buffer-format.rst).

use std::io::{self, Read};

use crate::input::{fill, invalid, truncated};

const HEADER: usize = 110;

/// PATH_MAX of the kernel.
const LONGEST_NAME: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Link,
    Other,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Path without leading slash or `./`.
    pub path: String,
    pub kind: Kind,
    /// Bytes of content.
    pub size: u64,
}

/// Reads an archive after its magic, and passes the entries to the visitor.
pub(super) fn read(
    stream: &mut dyn Read,
    first: [u8; 6],
    visitor: &mut dyn Visitor,
) -> io::Result<()> {
    let mut archive = Archive { stream, at: 6 };
    let mut magic = first;
    loop {
        if !matches!(&magic, b"070701" | b"070702") {
            return Err(invalid("an archive header is missing"));
        }
        let head = archive.header()?;
        if head.path == "TRAILER!!!" && head.size == 0 {
            return Ok(());
        }
        if visitor.is_relevant(&head) {
            let mut content = vec![0; usize::try_from(head.size).map_err(|_| truncated())?];
            archive.fill(&mut content)?;
            visitor.take(&head, content);
        } else {
            archive.skip(head.size, visitor)?
        }
        archive.align(visitor)?;
        visitor.advance(0)?;
        archive.fill(&mut magic)?;
    }
}

/// Receives the entries of an archive.
pub(super) trait Visitor {
    /// True to read an entry's content into memory.
    fn is_relevant(&mut self, entry: &Entry) -> bool;
    fn take(&mut self, entry: &Entry, content: Vec<u8>);
    /// Called after each part, with the bytes read; an error stops the reading.
    fn advance(&mut self, bytes: u64) -> io::Result<()>;
}

struct Archive<'a> {
    stream: &'a mut dyn Read,
    at: u64,
}

impl Archive<'_> {
    /// Reads the header after its magic.
    fn header(&mut self) -> io::Result<Entry> {
        let mut head = [0; HEADER - 6];
        self.fill(&mut head)?;
        let field = |nth: usize| {
            let digits =
                head.get(nth * 8..nth * 8 + 8).and_then(|digits| std::str::from_utf8(digits).ok());
            let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            number.ok_or_else(|| invalid("an archive header has invalid numbers"))
        };
        let (mode, size, name) = (field(1)?, field(6)?, field(11)?);
        if name == 0 || name > LONGEST_NAME {
            return Err(invalid("a name in the archive is too long"));
        }
        let mut path = vec![0; name as usize];
        self.fill(&mut path)?;
        while path.last() == Some(&0) {
            path.pop();
        }
        let path = String::from_utf8_lossy(&path).into_owned();
        let padding = (4 - self.at % 4) % 4;
        let mut pad = [0; 3];
        self.fill(&mut pad[..padding as usize])?;
        Ok(Entry {
            path: path.trim_start_matches("./").trim_start_matches('/').to_owned(),
            kind: match mode & 0o170_000 {
                0o100_000 => Kind::File,
                0o120_000 => Kind::Link,
                _ => Kind::Other,
            },
            size,
        })
    }

    fn align(&mut self, visitor: &mut dyn Visitor) -> io::Result<()> {
        self.skip((4 - self.at % 4) % 4, visitor)
    }

    fn skip(&mut self, count: u64, visitor: &mut dyn Visitor) -> io::Result<()> {
        const STEP: u64 = 1 << 20;
        let mut rest = count;
        while rest > 0 {
            let step = rest.min(STEP);
            let skipped = io::copy(&mut (&mut *self.stream).take(step), &mut io::sink())?;
            if skipped < step {
                return Err(truncated());
            }
            rest -= step;
            self.at += step;
            visitor.advance(step)?;
        }
        Ok(())
    }

    fn fill(&mut self, out: &mut [u8]) -> io::Result<()> {
        fill(self.stream, out)?;
        self.at += out.len() as u64;
        Ok(())
    }
}
