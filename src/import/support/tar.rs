//! Reads a tar archive as a stream, within limits. No file is written and no link is followed.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read};
use std::rc::Rc;

use ::tar::{Archive, Entry, Header};

use crate::import::ImportError;
use crate::input::{Lookahead, invalid, truncated};

/// Limit of entries.
const MAX_ENTRIES: usize = 1_000_000;

/// Limit of an entry's headers: its own, long names, pax records and the map of a sparse file. The crate keeps them in
/// memory however long they are.
const MAX_HEADERS: u64 = 256 << 10;

const BLOCK: u64 = 512;

/// Detects the format by its name, which the oldest one lacks, or by the sum of the header.
pub(super) fn is_format(start: &[u8]) -> bool {
    let Some(block) = start.get(..BLOCK as usize) else {
        return false;
    };
    let header = Header::from_byte_slice(block);
    let mut summed = header.clone();
    summed.set_cksum();
    let sums = (header.cksum(), summed.cksum());
    &block[257..262] == b"ustar" || matches!(sums, (Ok(sum), Ok(own)) if sum == own)
}

/// Calls `each` for every entry; it reads as much of the content as it wants.
pub(super) fn entries<'c, 's>(
    content: &'c mut Lookahead<'s>,
    each: &mut dyn FnMut(&mut Entry<'_, Limited<'c, 's>>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let limits = Rc::new(Limits { end: Cell::new(MAX_HEADERS), is_read: Cell::new(false) });
    let mut archive = Archive::new(Limited { content, limits: Rc::clone(&limits) });
    for (count, entry) in archive.entries()?.enumerate() {
        let mut entry = entry.map_err(|error| limits.reason(error))?;
        if count == MAX_ENTRIES {
            return Err(ImportError::Malformed(format!(
                "the archive has more than {MAX_ENTRIES} entries: pack only its directories proc, sys, etc and sos_commands"
            )));
        }
        let header = entry.header();
        let size =
            if header.entry_type().is_gnu_sparse() { header.entry_size()? } else { entry.size() };
        let end = entry.raw_file_position().saturating_add(size);
        limits.end.set(end.saturating_add(BLOCK + MAX_HEADERS));
        each(&mut entry)?;
    }
    Ok(())
}

struct Limits {
    /// The position beyond which nothing is read.
    end: Cell<u64>,
    /// True after the last byte.
    is_read: Cell<bool>,
}

impl Limits {
    /// The reason of an error: the crate's own, or one of the content.
    fn reason(&self, error: io::Error) -> ImportError {
        match error.kind() {
            ErrorKind::Other if self.is_read.get() => truncated().into(),
            ErrorKind::Other => ImportError::Malformed(format!("the archive is damaged: {error}")),
            _ => error.into(),
        }
    }
}

/// The archive up to a limit.
pub(super) struct Limited<'c, 's> {
    content: &'c mut Lookahead<'s>,
    limits: Rc<Limits>,
}

impl Read for Limited<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let taken = self.content.taken;
        let end = self.limits.end.get();
        if taken >= end {
            return Err(invalid(format!(
                "the archive has headers of more than {} KiB at byte {taken}",
                MAX_HEADERS >> 10
            )));
        }
        let count = out.len().min(usize::try_from(end - taken).unwrap_or(usize::MAX));
        let count = self.content.read(&mut out[..count])?;
        self.limits.is_read.set(count == 0);
        Ok(count)
    }
}
