//! A unified kernel image: a PE file for the firmware that holds an initramfs in its section `.initrd`.
//!
//! Unified Kernel Image (UAPI.5): the stub gives the kernel the sections of the file; a file of several profiles has one
//! for each. PE: a header of MS-DOS that tells where the other is, that of COFF, an optional one, the table of sections.

use std::io::{self, Read};

use super::input::{broken, cut_off, fill};

/// Limits of what stands before the sections; ukify's stub has 15 of them, and the headers within a page.
const LONGEST_STUB: u32 = 1 << 20;
const MOST_SECTIONS: usize = 256;

const SECTION: usize = 40;

/// The initramfs in a unified kernel image, which is read from its start; none where it has none. `enough` ends it.
pub(super) fn initrd<'s>(
    stream: &'s mut dyn Read,
    enough: &dyn Fn() -> bool,
) -> io::Result<Option<io::Take<&'s mut dyn Read>>> {
    let mut file = File { stream, at: 0 };
    let mut dos = [0; 64];
    file.fill(&mut dos)?;
    if !dos.starts_with(b"MZ") {
        return Err(broken("it is no program of the firmware's"));
    }
    let header = number(&dos, 0x3c);
    if header > LONGEST_STUB {
        return Err(broken("its header lies beyond any program's"));
    }
    file.skip_to(header.into(), enough)?;
    // The signature and COFF's header.
    let mut coff = [0; 24];
    file.fill(&mut coff)?;
    if !coff.starts_with(b"PE\0\0") {
        return Err(broken("it is no program of the firmware's"));
    }
    let (sections, optional) = (number(&coff, 4) >> 16, number(&coff, 20) & 0xffff);
    let sections = usize::try_from(sections).unwrap_or(usize::MAX);
    if sections > MOST_SECTIONS {
        return Err(broken(format!("it has more than {MOST_SECTIONS} sections")));
    }
    file.skip_to(file.at + u64::from(optional), enough)?;
    let mut table = vec![0; sections * SECTION];
    file.fill(&mut table)?;
    let mut found = table
        .chunks_exact(SECTION)
        .filter(|section| section.starts_with(b".initrd\0"));
    let Some(section) = found.next() else {
        return Ok(None);
    };
    if found.next().is_some() {
        return Err(broken("it has an initramfs for each of several profiles"));
    }
    // What is in memory may be less than what is in the file, which is filled up with zeros.
    let (in_memory, in_file, start) =
        (number(section, 8), number(section, 16), number(section, 20));
    let length = match in_memory {
        0 => in_file,
        in_memory => in_memory.min(in_file),
    };
    file.skip_to(start.into(), enough)?;
    Ok(Some(file.stream.take(length.into())))
}

/// Four bytes, the least first.
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
            return Err(broken("its parts lie in each other"));
        }
        while self.at < place {
            if enough() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "reading it took too long",
                ));
            }
            let step = STEP.min(place - self.at);
            if io::copy(&mut (&mut *self.stream).take(step), &mut io::sink())? < step {
                return Err(cut_off());
            }
            self.at += step;
        }
        Ok(())
    }
}
