//! One cpio archive in the form "newc" (buffer-format.rst): headers of ASCII, names, contents, up to the trailer.

use std::io::{self, Read};

use super::input::{broken, cut_off, fill};

const HEADER: usize = 110;

/// The longest path of the kernel.
const LONGEST_NAME: u64 = 4096;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Link,
    Other,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Its path without a leading slash or `./`.
    pub path: String,
    pub kind: Kind,
    /// How many bytes of content follow.
    pub size: u64,
}

/// Reads an archive. `wants` says of each entry whether `take` gets its content; `goes_on` is asked between parts, and
/// ends the reading with an error.
pub(super) fn read(stream: &mut dyn Read, first: [u8; 6], seen: &mut dyn Seen) -> io::Result<()> {
    let mut archive = Archive { stream, at: 6 };
    let mut magic = first;
    loop {
        if !matches!(&magic, b"070701" | b"070702") {
            return Err(broken("it has no header of an archive where one should be"));
        }
        let head = archive.header()?;
        if head.path == "TRAILER!!!" && head.size == 0 {
            return Ok(());
        }
        match seen.wants(&head) {
            true => {
                let mut content = vec![0; usize::try_from(head.size).map_err(|_| cut_off())?];
                archive.fill(&mut content)?;
                seen.take(&head, content);
            }
            false => archive.skip(head.size, seen)?,
        }
        archive.align(seen)?;
        seen.goes_on(0)?;
        archive.fill(&mut magic)?;
    }
}

/// Who looks at the entries.
pub(super) trait Seen {
    /// Whether an entry's content is wanted; it is then held whole.
    fn wants(&mut self, entry: &Entry) -> bool;
    fn take(&mut self, entry: &Entry, content: Vec<u8>);
    /// So many bytes more were passed; an error where it is enough.
    fn goes_on(&mut self, bytes: u64) -> io::Result<()>;
}

struct Archive<'a> {
    stream: &'a mut dyn Read,
    /// From the archive's start.
    at: u64,
}

impl Archive<'_> {
    /// What follows the magic.
    fn header(&mut self) -> io::Result<Entry> {
        let mut head = [0; HEADER - 6];
        self.fill(&mut head)?;
        let field = |nth: usize| {
            let digits = head
                .get(nth * 8..nth * 8 + 8)
                .and_then(|digits| std::str::from_utf8(digits).ok());
            let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            number.ok_or_else(|| broken("a header of its archive has no numbers"))
        };
        let (mode, size, name) = (field(1)?, field(6)?, field(11)?);
        if name == 0 || name > LONGEST_NAME {
            return Err(broken("a name in its archive is longer than any path"));
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
            path: path
                .trim_start_matches("./")
                .trim_start_matches('/')
                .to_owned(),
            kind: match mode & 0o170_000 {
                0o100_000 => Kind::File,
                0o120_000 => Kind::Link,
                _ => Kind::Other,
            },
            size,
        })
    }

    fn align(&mut self, seen: &mut dyn Seen) -> io::Result<()> {
        self.skip((4 - self.at % 4) % 4, seen)
    }

    fn skip(&mut self, count: u64, seen: &mut dyn Seen) -> io::Result<()> {
        const STEP: u64 = 1 << 20;
        let mut rest = count;
        while rest > 0 {
            let step = rest.min(STEP);
            let skipped = io::copy(&mut (&mut *self.stream).take(step), &mut io::sink())?;
            if skipped < step {
                return Err(cut_off());
            }
            rest -= step;
            self.at += step;
            seen.goes_on(step)?;
        }
        Ok(())
    }

    fn fill(&mut self, out: &mut [u8]) -> io::Result<()> {
        fill(self.stream, out)?;
        self.at += out.len() as u64;
        Ok(())
    }
}
