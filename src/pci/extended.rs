//! Decodes the extended capabilities relevant to peer-to-peer traffic.

use super::list::{self, Entry};
use super::space::{Reader, le16, le32};
use crate::model::config::{Acs, AcsBits, Ats, SerialNumber, SrIov};
use crate::model::{Config, Fact, Why};

/// Walks the list, whose first dword is `head`.
pub(super) fn read(config: &mut Config, reader: &mut Reader<'_>, head: u32) {
    all_absent(config);
    let end = list::extended(reader, head, |reader, entry| match entry.id {
        0x03 => keep(&mut config.serial_number, || serial_number(reader, entry)),
        0x0d => keep(&mut config.acs, || acs(reader, entry)),
        0x0f => keep(&mut config.ats, || ats(reader, entry)),
        0x10 => keep(&mut config.sriov, || sriov(reader, entry)),
        _ => {}
    });
    if let Err(why) = end {
        lose(&mut config.acs, why);
        lose(&mut config.ats, why);
        lose(&mut config.sriov, why);
        lose(&mut config.serial_number, why);
    }
}

pub(super) fn all_absent(config: &mut Config) {
    config.acs = Fact::Known(None);
    config.ats = Fact::Known(None);
    config.sriov = Fact::Known(None);
    config.serial_number = Fact::Known(None);
}

pub(super) fn all_unknown(config: &mut Config, why: Why) {
    config.acs = Fact::Unknown(why);
    config.ats = Fact::Unknown(why);
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
    Ok(Ats { enabled: le16(&raw, 2) & 1 << 15 != 0 })
}

fn serial_number(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<SerialNumber, Why> {
    let raw = reader.structure(entry.offset + 4, "serial number")?;
    Ok(SerialNumber(u64::from_le_bytes(raw)))
}

fn sriov(reader: &mut Reader<'_>, entry: Entry<u16>) -> Result<SrIov, Why> {
    let raw: [u8; 0x10] = reader.structure(entry.offset + 8, "SR-IOV")?;
    Ok(SrIov {
        enabled: le16(&raw, 0) & 1 != 0,
        num_vfs: le16(&raw, 0x08),
        first_vf_offset: le16(&raw, 0x0c),
        vf_stride: le16(&raw, 0x0e),
    })
}
