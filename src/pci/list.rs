//! Walks the two capability lists. A broken list is an error, because capabilities not found yet may exist.

use super::space::Reader;
use crate::model::Why;

pub(super) const EXTENDED: u16 = 0x100;

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<Id> {
    pub(super) id: Id,
    pub(super) offset: u16,
    /// Bits 31:16 of the entry's first dword: the first register of a legacy capability, or version and next pointer of
    /// an extended one.
    pub(super) upper: u16,
}

/// Walks the list in the first 256 bytes until `each` returns false. Like Linux, ignores the low two bits of pointers.
/// Visits every entry once, so at most 48.
pub(super) fn legacy(
    reader: &mut Reader<'_>,
    first: u8,
    mut each: impl FnMut(&mut Reader<'_>, Entry<u8>) -> bool,
) -> Result<(), Why> {
    let mut seen = 0u64;
    let mut from = 0;
    let mut at = u16::from(first & !3);
    while at != 0 {
        if at < 0x40 {
            reader.note(format!("capability pointer {at:#x} at {from:#x} leads into the header"));
            return Err(Why::Broken);
        }
        let place = 1 << (at / 4);
        if seen & place != 0 {
            reader.note(format!("capability list loops back from {from:#x} to {at:#x}"));
            return Err(Why::Broken);
        }
        seen |= place;
        let [id, next, low, high] = reader.structure(at, "capability")?;
        if id == 0xff {
            return Err(reader.malformed("no valid id (ff) in", "capability", at));
        }
        let entry = Entry { id, offset: at, upper: u16::from_le_bytes([low, high]) };
        if !each(reader, entry) {
            return Ok(());
        }
        from = at;
        at = u16::from(next & !3);
    }
    Ok(())
}

/// Walks the list in extended space; `head` is its first dword. Visits every entry once, so at most 480, because an entry
/// has at least two dwords.
pub(super) fn extended(
    reader: &mut Reader<'_>,
    mut head: u32,
    mut each: impl FnMut(&mut Reader<'_>, Entry<u16>),
) -> Result<(), Why> {
    const MOST: usize = (4096 - 256) / 8;
    let mut seen = [0u64; 16];
    let mut at = EXTENDED;
    for _ in 0..MOST {
        let place = usize::from(at / 4);
        seen[place / 64] |= 1 << (place % 64);
        // A zero dword means an empty list at 0x100, and the end elsewhere.
        if head == 0 {
            return Ok(());
        }
        let upper = (head >> 16) as u16;
        let entry = Entry { id: head as u16, offset: at, upper };
        each(reader, entry);
        let next = upper >> 4 & !3;
        if next == 0 {
            return Ok(());
        }
        if next < EXTENDED {
            reader.note(format!(
                "extended capability pointer {next:#x} at {at:#x} leads below 0x100"
            ));
            return Err(Why::Broken);
        }
        let place = usize::from(next / 4);
        if seen[place / 64] & 1 << (place % 64) != 0 {
            reader.note(format!("extended capability list loops back from {at:#x} to {next:#x}"));
            return Err(Why::Broken);
        }
        head = u32::from_le_bytes(reader.structure(next, "extended capability")?);
        at = next;
    }
    Err(reader.malformed("more than 480 entries, the last", "extended capability", at))
}
