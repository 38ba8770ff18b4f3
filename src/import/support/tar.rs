//! Reads a tar archive as a stream: ustar, pax and GNU's long names.
//!
//! Nothing is written anywhere and no link is followed. A name or a pax header of any length could be claimed, so
//! each has a limit; so has the archive. The crate `tar` reads long names without one.

use std::io::{self, Read};

use crate::import::ImportError;
use crate::input::{Lookahead, fill, invalid, truncated};

/// Limit of the unpacked archive.
const MOST: u64 = 4 << 30;

/// Limit of entries.
const MOST_ENTRIES: usize = 1_000_000;

/// Limit of a name and of a pax header.
const LONGEST: u64 = 64 << 10;

const BLOCK: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A symbolic link and its target.
    Link(String),
    /// A hard link, a device, a pipe.
    Other,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub path: String,
    pub kind: Kind,
    pub size: u64,
}

/// What the entries before say of the next one.
#[derive(Default)]
struct Overrides {
    path: Option<String>,
    link: Option<String>,
    size: Option<u64>,
}

/// By the name of the format, which the oldest lacks, or by the sum of the header.
pub(super) fn is_format(start: &[u8]) -> bool {
    start.get(..BLOCK).is_some_and(|header| {
        &header[257..262] == b"ustar" || number(&header[148..156]) == Some(checksum(header))
    })
}

/// Calls `each` for every entry; it reads as much of the content as it wants.
pub(super) fn entries(
    content: &mut Lookahead<'_>,
    each: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut overrides = Overrides::default();
    let mut count = 0;
    loop {
        let at = content.taken;
        let header = match content.peek(BLOCK)? {
            // Archives should end with zeros, and many programs accept those that do not.
            [] => return Ok(()),
            block if block.len() < BLOCK => return Err(truncated().into()),
            block if block.iter().all(|byte| *byte == 0) => return Ok(()),
            block => block.to_vec(),
        };
        content.consume(BLOCK);
        let damaged = || invalid(format!("the archive is damaged at byte {at}"));
        if number(&header[148..156]) != Some(checksum(&header)) {
            return Err(damaged().into());
        }
        let size = number(&header[124..136]).ok_or_else(damaged)?;
        count += 1;
        if count > MOST_ENTRIES || at.saturating_add(size) > MOST {
            return Err(ImportError::Malformed(format!(
                "the archive has more than {} GiB or {MOST_ENTRIES} entries: pack only its directories proc, sys, etc \
                 and sos_commands",
                MOST >> 30
            )));
        }
        match header[156] {
            b'x' => pax(&text(content, size)?, &mut overrides),
            b'L' => overrides.path = Some(text(content, size)?),
            b'K' => overrides.link = Some(text(content, size)?),
            kind => {
                let entry = entry(&header, kind, size, std::mem::take(&mut overrides));
                if kind == b'S' {
                    skip_map(content, &header)?;
                }
                let has_content = !(b'1'..=b'6').contains(&kind);
                let size = if has_content { entry.size } else { 0 };
                let mut body = Read::take(&mut *content, size);
                each(&entry, &mut body)?;
                io::copy(&mut body, &mut io::sink())?;
                if body.limit() > 0 {
                    return Err(truncated().into());
                }
                pad(content, size)?;
            }
        }
    }
}

fn entry(header: &[u8], kind: u8, size: u64, overrides: Overrides) -> Entry {
    let link = || {
        overrides
            .link
            .unwrap_or_else(|| until_zero(&header[157..257]))
    };
    Entry {
        kind: match kind {
            b'0' | 0 | b'7' => Kind::File,
            b'5' => Kind::Directory,
            b'2' => Kind::Link(link()),
            _ => Kind::Other,
        },
        path: overrides.path.unwrap_or_else(|| {
            let name = until_zero(&header[..100]);
            match until_zero(&header[345..500]) {
                // GNU's old format has other fields there.
                prefix if !prefix.is_empty() && header[257..263] == *b"ustar\0" => {
                    format!("{prefix}/{name}")
                }
                _ => name,
            }
        }),
        size: overrides.size.unwrap_or(size),
    }
}

/// Records `LENGTH KEY=VALUE\n`.
fn pax(records: &str, overrides: &mut Overrides) {
    let mut rest = records;
    while let Some((length, _)) = rest.split_once(' ')
        && let Ok(length) = length.parse::<usize>()
        && let Some((record, after)) = rest.split_at_checked(length)
        && length > 0
    {
        let field = record
            .split_once(' ')
            .and_then(|(_, field)| field.trim_end_matches('\n').split_once('='));
        match field {
            Some(("path", value)) => overrides.path = Some(value.to_owned()),
            Some(("linkpath", value)) => overrides.link = Some(value.to_owned()),
            Some(("size", value)) => {
                overrides.size = value.parse().ok().filter(|size| *size <= MOST)
            }
            _ => {}
        }
        rest = after;
    }
}

/// A text that is an entry of its own.
fn text(content: &mut Lookahead<'_>, size: u64) -> Result<String, ImportError> {
    if size > LONGEST {
        return Err(ImportError::Malformed(format!(
            "the archive has a name of more than {LONGEST} bytes"
        )));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    fill(content, &mut bytes)?;
    pad(content, size)?;
    Ok(until_zero(&bytes))
}

/// Skips what fills the last block.
fn pad(content: &mut Lookahead<'_>, size: u64) -> io::Result<()> {
    let mut rest = [0; BLOCK];
    let length = (size.next_multiple_of(BLOCK as u64) - size) as usize;
    // Some programs omit it at the end.
    match content.peek(1)?.is_empty() {
        true => Ok(()),
        false => fill(content, &mut rest[..length]),
    }
}

/// Skips the further blocks of GNU's map of a sparse file.
fn skip_map(content: &mut Lookahead<'_>, header: &[u8]) -> io::Result<()> {
    let mut more = header[482] != 0;
    while more {
        let mut block = [0; BLOCK];
        fill(content, &mut block)?;
        more = block[504] != 0;
    }
    Ok(())
}

/// The sum of a header's bytes, its own field taken as blanks.
fn checksum(header: &[u8]) -> u64 {
    let bytes = header.iter().enumerate();
    bytes
        .map(|(at, byte)| match at {
            148..156 => 32,
            _ => u64::from(*byte),
        })
        .sum()
}

/// An octal number, or GNU's binary one.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at_checked(field.len().checked_sub(8)?)?;
        let is_small =
            high.iter().skip(1).all(|byte| *byte == 0) && matches!(high.first(), None | Some(0x80));
        return low
            .try_into()
            .ok()
            .filter(|_| is_small)
            .map(u64::from_be_bytes);
    }
    let digits = until_zero(field);
    match digits.trim() {
        "" => Some(0),
        digits => u64::from_str_radix(digits, 8).ok(),
    }
}

fn until_zero(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}
