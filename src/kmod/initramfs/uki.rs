//! Unified kernel images (UAPI.5): PE files with an initramfs in the section `.initrd`. A file with
//! several profiles has one such section for each.

use std::io::{self, Read};

use crate::input::{fill, invalid, truncated};

/// Limits; ukify's stub has 15 sections and one page of headers.
const LONGEST_STUB: u32 = 1 << 20;
const MAX_SECTIONS: usize = 256;

const SECTION: usize = 40;

/// The initramfs of a unified kernel image read from its start; `None` if it has none.
pub(super) fn initrd<'s>(
    stream: &'s mut dyn Read,
    enough: &dyn Fn() -> bool,
) -> io::Result<Option<io::Take<&'s mut dyn Read>>> {
    let mut file = File { stream, at: 0 };
    let mut dos = [0; 64];
    file.fill(&mut dos)?;
    if !dos.starts_with(b"MZ") {
        return Err(invalid("not a PE file"));
    }
    let header = number(&dos, 0x3c);
    if header > LONGEST_STUB {
        return Err(invalid("invalid PE header offset"));
    }
    file.skip_to(header.into(), enough)?;
    // PE signature and COFF header.
    let mut coff = [0; 24];
    file.fill(&mut coff)?;
    if !coff.starts_with(b"PE\0\0") {
        return Err(invalid("not a PE file"));
    }
    let (sections, optional) = (number(&coff, 4) >> 16, number(&coff, 20) & 0xffff);
    let sections = usize::try_from(sections).unwrap_or(usize::MAX);
    if sections > MAX_SECTIONS {
        return Err(invalid(format!("the PE file has more than {MAX_SECTIONS} sections")));
    }
    file.skip_to(file.at + u64::from(optional), enough)?;
    let mut table = vec![0; sections * SECTION];
    file.fill(&mut table)?;
    let mut found = table.chunks_exact(SECTION).filter(|section| section.starts_with(b".initrd\0"));
    let Some(section) = found.next() else {
        return Ok(None);
    };
    if found.next().is_some() {
        return Err(invalid("the file has several profiles, each with an initramfs"));
    }
    // The section in the file is padded with zeros.
    let (in_memory, in_file, start) =
        (number(section, 8), number(section, 16), number(section, 20));
    let length = match in_memory {
        0 => in_file,
        in_memory => in_memory.min(in_file),
    };
    file.skip_to(start.into(), enough)?;
    Ok(Some(file.stream.take(length.into())))
}

/// Reads a little-endian number.
fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_le_bytes)
}

struct File<'s> {
    stream: &'s mut dyn Read,
    at: u64,
}

impl File<'_> {
    fn fill(&mut self, out: &mut [u8]) -> io::Result<()> {
        fill(self.stream, out)?;
        self.at += out.len() as u64;
        Ok(())
    }

    fn skip_to(&mut self, place: u64, enough: &dyn Fn() -> bool) -> io::Result<()> {
        const STEP: u64 = 1 << 20;
        if place < self.at {
            return Err(invalid("sections overlap"));
        }
        while self.at < place {
            if enough() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "reading it took too long"));
            }
            let step = STEP.min(place - self.at);
            if io::copy(&mut (&mut *self.stream).take(step), &mut io::sink())? < step {
                return Err(truncated());
            }
            self.at += step;
        }
        Ok(())
    }
}
