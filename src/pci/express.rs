//! Decodes the PCI Express capability (PCIe 7.5.3).

use super::list::{EXTENDED, Entry};
use super::space::{Reader, le16, le32};
use crate::model::Why;
use crate::model::config::{Aspm, Express, Link, LinkPair, LinkSpeed, PortType};

const WHAT: &str = "PCI Express capability";

/// Reads device registers, link registers if there is a link, and of the second set only Link Control 2.
pub(super) fn read(reader: &mut Reader<'_>, entry: Entry<u8>) -> Result<Express, Why> {
    let Entry { offset, upper, .. } = entry;
    let version = (upper & 0xf) as u8;
    let port = port_type(upper >> 4 & 0xf);
    let link_registers = !port.is_integrated();
    // The structure must end before 0x100, where extended space begins.
    let length = match (link_registers, version) {
        (false, _) => 0x0c,
        (true, 0..=1) => 0x14,
        (true, _) => 0x34,
    };
    if offset + length > EXTENDED {
        return Err(reader.malformed("no room before 0x100 for", WHAT, offset));
    }

    let mut raw = [0; 16];
    let mut target = None;
    if link_registers {
        raw = reader.structure(offset + 4, WHAT)?;
        if version >= 2 {
            let second: [u8; 4] = reader.structure(offset + 0x30, WHAT)?;
            target = Some(second[0] & 0xf).filter(|code| *code != 0).map(LinkSpeed);
        }
    } else {
        let device: [u8; 8] = reader.structure(offset + 4, WHAT)?;
        raw[..8].copy_from_slice(&device);
    }
    let control = le16(&raw, 4);
    Ok(Express {
        offset,
        port,
        max_payload: 128 << (control >> 5 & 0b111),
        max_read_request: 128 << (control >> 12 & 0b111),
        relaxed_ordering: control & 1 << 4 != 0,
        extended_tag: control & 1 << 8 != 0,
        no_snoop: control & 1 << 11 != 0,
        link: link_registers.then(|| link(&raw, target)),
    })
}

/// `raw` begins at Device Capabilities.
fn link(raw: &[u8; 16], target: Option<LinkSpeed>) -> LinkPair {
    let capabilities = le32(raw, 8);
    let control = le16(raw, 12);
    let status = le16(raw, 14);
    LinkPair {
        max: Link {
            speed: LinkSpeed((capabilities & 0xf) as u8),
            width: (capabilities >> 4 & 0x3f) as u8,
        },
        current: Link { speed: LinkSpeed((status & 0xf) as u8), width: (status >> 4 & 0x3f) as u8 },
        target,
        aspm_enabled: Aspm { l0s: control & 0b01 != 0, l1: control & 0b10 != 0 },
        port_number: (capabilities >> 24) as u8,
    }
}

fn port_type(code: u16) -> PortType {
    match code {
        0x0 => PortType::Endpoint,
        0x1 => PortType::LegacyEndpoint,
        0x4 => PortType::RootPort,
        0x5 => PortType::UpstreamPort,
        0x6 => PortType::DownstreamPort,
        0x7 => PortType::PcieToPci,
        0x8 => PortType::PciToPcie,
        0x9 => PortType::RootComplexEndpoint,
        0xa => PortType::RootComplexEventCollector,
        other => PortType::Other(other as u8),
    }
}
