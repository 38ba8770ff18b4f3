//! Decodes the header, the first 64 bytes.

use super::list::Entry;
use super::space::{Reader, le16, le32};
use crate::model::config::{Bar, BarKind, Class, Command, Header, HeaderKind, Subsystem};
use crate::model::{Fact, Why};

/// The header, and the offset of the first capability (0 if none).
pub(super) fn read(reader: &mut Reader<'_>) -> Result<(Header, u8), Why> {
    let raw = bytes(reader)?;
    // The status register: its bit 4 says that there is a list of capabilities.
    let has_list = le16(&raw, 0x06) & 1 << 4 != 0;
    let layout = raw[0x0e] & 0x7f;
    let registers = |count: usize| -> [u32; 6] {
        std::array::from_fn(|n| if n < count { le32(&raw, 0x10 + 4 * n) } else { 0 })
    };
    let (kind, bar_count, pointer) = match layout {
        0 => {
            let subsystem = Subsystem { vendor: le16(&raw, 0x2c), device: le16(&raw, 0x2e) };
            (HeaderKind::Endpoint { subsystem }, 6, raw[0x34])
        }
        1 => {
            let kind = HeaderKind::Bridge {
                secondary: raw[0x19],
                subordinate: raw[0x1a],
                subsystem: Fact::default(),
            };
            (kind, 2, raw[0x34])
        }
        2 => {
            reader.cardbus = true;
            let kind = HeaderKind::CardBus { secondary: raw[0x19], subordinate: raw[0x1a] };
            (kind, 1, raw[0x14])
        }
        other => {
            reader.note(format!("unknown header type {other:#x} at 0xe"));
            return Err(Why::Broken);
        }
    };
    let header = Header {
        vendor: le16(&raw, 0x00),
        device: le16(&raw, 0x02),
        class: Class(le32(&raw, 0x08) >> 8),
        revision: raw[0x08],
        kind,
        command: Command(le16(&raw, 0x04)),
        bars: bars(reader, &registers(bar_count), bar_count),
    };
    Ok((header, if has_list { pointer } else { 0 }))
}

fn bytes(reader: &mut Reader<'_>) -> Result<[u8; 64], Why> {
    let mut raw = [0; 64];
    let got = reader.some(0, &mut raw, "the header")?;
    if got < raw.len() {
        reader.note(format!("the space ends after {got} bytes, inside the header"));
        return Err(Why::Broken);
    }
    // All 64 bytes, because the vendor id of an SR-IOV virtual function always reads ffff.
    let failure = if raw == [0xff; 64] {
        "the header reads all ones: unplugged, powered off or fallen off the bus"
    } else if raw == [0; 64] {
        "the header reads all zeroes: no device answered"
    } else {
        return Ok(raw);
    };
    reader.note(failure.to_owned());
    Err(Why::Broken)
}

/// Base address registers. A zero register is absent or unassigned; only a write could tell.
fn bars(reader: &mut Reader<'_>, raw: &[u32; 6], count: usize) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut index = 0u8;
    while usize::from(index) < count {
        let low = raw[usize::from(index)];
        let bits64 = low & 0b111 == 0b100;
        if low != 0 {
            let kind = if low & 1 == 1 {
                BarKind::Io { address: low & !0b11 }
            } else {
                let high = raw[..count].get(usize::from(index) + 1).copied();
                if bits64 && high.is_none() {
                    let place = 0x10 + 4 * u16::from(index);
                    reader.note(format!(
                        "the last BAR at {place:#x} is 64-bit but has no upper half"
                    ));
                }
                let high = if bits64 { high.unwrap_or(0) } else { 0 };
                BarKind::Memory {
                    address: u64::from(high) << 32 | u64::from(low & !0b1111),
                    bits64,
                    prefetchable: low & 0b1000 != 0,
                }
            };
            bars.push(Bar { index, kind });
        }
        index += if bits64 { 2 } else { 1 };
    }
    bars
}

/// A bridge's subsystem (capability 0x0d, PCI-to-PCI Bridge Architecture Specification 1.2, 3.2.5.13).
pub(super) fn bridge_subsystem(
    reader: &mut Reader<'_>,
    entry: Entry<u8>,
) -> Result<Subsystem, Why> {
    let raw: [u8; 4] = reader.structure(entry.offset + 4, "bridge subsystem")?;
    Ok(Subsystem { vendor: le16(&raw, 0), device: le16(&raw, 2) })
}
