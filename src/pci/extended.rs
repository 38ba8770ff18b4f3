//! Decodes the extended capabilities relevant to peer-to-peer traffic.

use super::header;
use super::list::{self, Entry};
use super::space::{Reader, le16, le32};
use crate::model::config::{
    Acs, AcsBits, Aer, Ats, CorrectableErrors, ResizableBar, SerialNumber, SrIov,
    UncorrectableErrors,
};
use crate::model::{Config, Fact, Why};

/// Walks the list, whose first dword is `head`.
pub(super) fn read(config: &mut Config, reader: &mut Reader<'_>, head: u32) {
    all_absent(config);
    let end = list::extended(reader, head, |reader, entry| match entry.id {
        0x00 => config.null_entries.push(entry.offset),
        0x01 => keep(&mut config.aer, || aer(reader, entry)),
        0x03 => keep(&mut config.serial_number, || serial_number(reader, entry)),
        0x0d => keep(&mut config.acs, || acs(reader, entry)),
        0x0f => keep(&mut config.ats, || ats(reader, entry)),
        0x10 => keep(&mut config.sriov, || sriov(reader, entry)),
        0x15 => keep(&mut config.resizable_bar, || resizable_bar(reader, entry)),
        _ => {}
    });
    if let Err(why) = end {
        lose(&mut config.acs, why);
        lose(&mut config.ats, why);
        lose(&mut config.aer, why);
        lose(&mut config.resizable_bar, why);
        lose(&mut config.sriov, why);
        lose(&mut config.serial_number, why);
    }
}

pub(super) fn all_absent(config: &mut Config) {
    config.acs = Fact::Known(None);
    config.ats = Fact::Known(None);
    config.aer = Fact::Known(None);
    config.resizable_bar = Fact::Known(None);
    config.sriov = Fact::Known(None);
    config.serial_number = Fact::Known(None);
}

pub(super) fn all_unknown(config: &mut Config, why: Why) {
    config.acs = Fact::Unknown(why);
    config.ats = Fact::Unknown(why);
    config.aer = Fact::Unknown(why);
    config.resizable_bar = Fact::Unknown(why);
    config.sriov = Fact::Unknown(why);
    config.serial_number = Fact::Unknown(why);
}

/// Stores a capability. Of several with the same id the first counts, as in Linux.
pub(super) fn keep<T>(slot: &mut Fact<Option<T>>, read: impl FnOnce() -> Result<T, Why>) {
    if slot.is_absent() {
        *slot = match read() {
            Ok(value) => Fact::Known(Some(value)),
            Err(why) => Fact::Unknown(why),
        };
    }
}

/// The walk failed: capabilities not found yet are unknown, not absent.
pub(super) fn lose<T>(slot: &mut Fact<Option<T>>, why: Why) {
    if slot.is_absent() {
        *slot = Fact::Unknown(why);
    }
}

fn acs(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<Acs, Why> {
    const WHAT: &str = "ACS";
    let offset = entry.offset;
    let raw: [u8; 4] = reader.structure(offset + 4, WHAT)?;
    let capable = AcsBits(raw[0].into());
    let egress_size = match (capable.egress_control(), raw[1]) {
        (false, _) => 0,
        // PCIe 7.7.11.2: zero means 256.
        (true, 0) => 256,
        (true, size) => u16::from(size),
    };
    // The vector may be all ones.
    let mut vector = [0; 32];
    let length = usize::from(egress_size).div_ceil(32) * 4;
    if length != 0 {
        reader.fill(offset + 8, &mut vector[..length], "ACS egress control vector")?;
    }
    let words = (0..length).step_by(4).map(|at| le32(&vector, at));
    Ok(Acs {
        offset,
        capable,
        control: AcsBits(le16(&raw, 2)),
        egress_size,
        egress_vector: Fact::Known(words.collect()),
    })
}

fn ats(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<Ats, Why> {
    let raw: [u8; 4] = reader.structure(entry.offset + 4, "ATS")?;
    let control = le16(&raw, 2);
    let depth = raw[0] & 0x1f;
    Ok(Ats {
        offset: entry.offset,
        enabled: control & 1 << 15 != 0,
        // PCIe 10.5.1.2: zero means 32.
        queue_depth: if depth == 0 { 32 } else { depth },
        page_aligned: Fact::Known(raw[0] & 1 << 5 != 0),
        smallest_translation_unit: 4096 << (control & 0x1f),
    })
}

fn aer(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<Aer, Why> {
    let raw: [u8; 20] = reader.structure(entry.offset + 4, "AER")?;
    Ok(Aer {
        offset: entry.offset,
        uncorrectable: UncorrectableErrors(le32(&raw, 0)),
        uncorrectable_mask: UncorrectableErrors(le32(&raw, 4)),
        uncorrectable_severity: UncorrectableErrors(le32(&raw, 8)),
        correctable: CorrectableErrors(le32(&raw, 12)),
        correctable_mask: CorrectableErrors(le32(&raw, 16)),
    })
}

fn serial_number(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<SerialNumber, Why> {
    let raw = reader.structure(entry.offset + 4, "serial number")?;
    Ok(SerialNumber(u64::from_le_bytes(raw)))
}

fn resizable_bar(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<Vec<ResizableBar>, Why> {
    const WHAT: &str = "Resizable BAR";
    const MEBIBYTE: u64 = 1 << 20;
    let mut bars = Vec::new();
    let mut at = entry.offset + 4;
    let mut left = 1;
    while left != 0 {
        let raw: [u8; 8] = reader.structure(at, WHAT)?;
        let capability = le32(&raw, 0);
        let control = le32(&raw, 4);
        if bars.is_empty() {
            // Only the first control register has the number of BARs.
            left = control >> 5 & 0b111;
            if !(1..=6).contains(&left) {
                return Err(reader.malformed("a BAR count other than 1 to 6 in", WHAT, at + 4));
            }
        }
        let current = control >> 8 & 0x3f;
        if current > 43 {
            return Err(reader.malformed("a reserved size in", WHAT, at + 4));
        }
        // 1 MB to 128 TB in the capability register, 256 TB to 8 EB in the control register.
        let sizes = u64::from(capability >> 4) | u64::from(control >> 16) << 28;
        let steps = (0..44).filter(|step| sizes & 1 << step != 0);
        bars.push(ResizableBar {
            bar: (control & 0b111) as u8,
            supported: steps.map(|step| MEBIBYTE << step).collect(),
            current: MEBIBYTE << current,
        });
        at += 8;
        left -= 1;
    }
    Ok(bars)
}

fn sriov(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<SrIov, Why> {
    let offset = entry.offset;
    let raw: [u8; 0x34] = reader.structure(offset + 8, "SR-IOV")?;
    let control = le16(&raw, 0);
    let registers: [u32; 6] = std::array::from_fn(|n| le32(&raw, 0x1c + 4 * n));
    Ok(SrIov {
        offset,
        enabled: control & 1 != 0,
        memory_enabled: control & 1 << 3 != 0,
        total_vfs: le16(&raw, 0x06),
        num_vfs: le16(&raw, 0x08),
        first_vf_offset: le16(&raw, 0x0c),
        vf_stride: le16(&raw, 0x0e),
        vf_device: le16(&raw, 0x12),
        vf_bars: header::bars(reader, &registers, registers.len(), offset + 0x24),
    })
}
