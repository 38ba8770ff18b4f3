//! Masks serial numbers in configuration spaces and vital product data, keeping the length.

/// The recorded ranges of a file.
pub type Parts<'a> = Vec<(u64, &'a mut Vec<u8>)>;

/// Masks the Device Serial Number (extended capability 3), if the list can be followed.
pub fn config(parts: &mut Parts<'_>, mut eui: impl FnMut(u64) -> u64) {
    const FIRST: u64 = 0x100;
    const SERIAL_NUMBER: u32 = 3;
    let mut seen = [false; 1024];
    let mut at = FIRST;
    while let Some(head) = get::<4>(parts, at).map(u32::from_le_bytes) {
        // An offset has 12 bits, the lowest two clear.
        let Some(place) = usize::try_from(at / 4).ok().and_then(|at| seen.get_mut(at)) else {
            return;
        };
        if *place || head == 0 || head == u32::MAX {
            return;
        }
        *place = true;
        if head & 0xffff == SERIAL_NUMBER
            && let Some(serial) = get::<8>(parts, at + 4)
        {
            let masked = eui(u64::from_le_bytes(serial));
            put(parts, at + 4, &masked.to_le_bytes());
        }
        at = u64::from(head >> 20 & !3);
        if at < FIRST {
            return;
        }
    }
}

fn get<const N: usize>(parts: &Parts<'_>, at: u64) -> Option<[u8; N]> {
    let mut out = [0; N];
    for (place, byte) in out.iter_mut().enumerate() {
        let at = at + place as u64;
        *byte = parts.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(at.checked_sub(*start)?).ok()?;
            bytes.get(offset).copied()
        })?;
    }
    Some(out)
}

fn put(parts: &mut Parts<'_>, at: u64, new: &[u8]) {
    for (place, byte) in new.iter().enumerate() {
        let at = at + place as u64;
        for (start, bytes) in parts.iter_mut() {
            let offset = at.checked_sub(*start).and_then(|offset| usize::try_from(offset).ok());
            if let Some(old) = offset.and_then(|offset| bytes.get_mut(offset)) {
                *old = *byte;
            }
        }
    }
}

/// A maskable field of vital product data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Entirely a serial number.
    Serial,
    /// Text that may name the machine.
    Text,
}

/// Masks serial numbers in vital product data (PCI Local Bus Specification 3.0, appendix I) and updates the checksum.
/// Returns false if the data are malformed.
pub fn vital_product_data(data: &mut [u8], mut replace: impl FnMut(Field, &str) -> String) -> bool {
    const NAME: u8 = 0x82;
    const READ_ONLY: u8 = 0x90;
    const READ_WRITE: u8 = 0x91;
    if data.first() != Some(&NAME) {
        return false;
    }
    let mut at = 0;
    while let Some([tag, low, high]) = data.get(at..at + 3) {
        let (tag, length) = (*tag, usize::from(u16::from_le_bytes([*low, *high])));
        let start = at + 3;
        let end = (start + length).min(data.len());
        match tag {
            READ_ONLY | READ_WRITE => keywords(data, start, end, &mut replace),
            NAME => {}
            _ => return true,
        }
        at = end;
    }
    true
}

fn keywords(
    data: &mut [u8],
    start: usize,
    end: usize,
    replace: &mut impl FnMut(Field, &str) -> String,
) {
    let mut at = start;
    // The bytes up to and including the checksum add up to zero.
    let mut change = 0u8;
    while at + 3 <= end {
        let keyword = [data[at], data[at + 1]];
        let from = at + 3;
        let to = (from + usize::from(data[at + 2])).min(end);
        match &keyword {
            b"RV" => {
                if let Some(sum) = data[from..to].first_mut() {
                    *sum = sum.wrapping_sub(change);
                }
            }
            // Serial number and asset tags.
            b"SN" | b"YA" | b"AT" => {
                change = change.wrapping_add(field(&mut data[from..to], Field::Serial, replace))
            }
            _ => {
                change =
                    change.wrapping_add(runs(&mut data[from..to], |run| replace(Field::Text, run)))
            }
        }
        at = to;
    }
}

/// Replaces a field's text within its padding; returns the change of its sum.
fn field(data: &mut [u8], field: Field, replace: &mut impl FnMut(Field, &str) -> String) -> u8 {
    let Ok(text) = std::str::from_utf8(data) else {
        return runs(data, |run| replace(Field::Text, run));
    };
    let trimmed = text.trim_matches([' ', '\0']);
    if trimmed.is_empty() {
        return 0;
    }
    let start = text.len() - text.trim_start_matches([' ', '\0']).len();
    let new = replace(field, trimmed);
    let place = start..start + trimmed.len();
    overwrite(&mut data[place], &new)
}

/// Masks each run of printable ASCII; returns the change of the sum.
pub fn runs(data: &mut [u8], mut replace: impl FnMut(&str) -> String) -> u8 {
    const SHORTEST: usize = 4;
    let mut change = 0u8;
    let printable = |byte: &u8| (b' '..=b'~').contains(byte);
    for run in data.chunk_by_mut(|a, b| printable(a) == printable(b)) {
        if run.len() < SHORTEST || !run.first().is_some_and(printable) {
            continue;
        }
        if let Ok(text) = std::str::from_utf8(run) {
            let new = replace(text);
            change = change.wrapping_add(overwrite(run, &new));
        }
    }
    change
}

/// Overwrites bytes with a text cut or padded to their length; returns the change of their sum.
fn overwrite(old: &mut [u8], new: &str) -> u8 {
    let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let before = sum(old);
    let bytes = new.bytes().chain(std::iter::repeat(b' '));
    for (place, byte) in old.iter_mut().zip(bytes) {
        *place = byte;
    }
    sum(old).wrapping_sub(before)
}
