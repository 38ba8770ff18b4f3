//! Configuration space: header, PCI Express and VPD capabilities; the extended ones are in `extended`.
//!
//! Offsets are those of the PCI Express Base Specification, chapter 7.

use super::bars::Kind;
use super::device::{Device, PortType};
use super::extended;
use super::files::unhex;

const EXPRESS: usize = 0x40;
const VPD: usize = 0x90;

/// What the device's surroundings say in its configuration space.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// A bridge's primary, secondary and subordinate bus.
    pub buses: [u8; 3],
    /// Whether the slot has other functions.
    pub multifunction: bool,
}

/// The bytes of `config`.
pub fn config(device: &Device, around: Around) -> Vec<u8> {
    let Some(given) = &device.config else {
        return Space::of(device, around).0;
    };
    let mut space = if given.raw { Space(vec![0; 4096]) } else { Space::of(device, around) };
    for (at, hex) in &given.bytes {
        let at = usize::from_str_radix(at, 16).expect("offsets in config are hexadecimal");
        let bytes = unhex(hex);
        space.0[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    space.0.truncate(given.size);
    space.0
}

/// Little-endian writes into 4096 bytes.
pub struct Space(Vec<u8>);

impl Space {
    fn of(device: &Device, around: Around) -> Self {
        let mut space = Self(vec![0; 4096]);
        space.header(device, around);
        if device.port.is_some() {
            space.0[0x34] = EXPRESS as u8;
            space.put16(0x06, 0x0010);
            space.express(device);
        }
        if !device.vpd.is_empty() {
            space.0[EXPRESS + 1] = VPD as u8;
            space.0[VPD] = 0x03;
        }
        extended::write(&mut space, device);
        space
    }

    pub fn put16(&mut self, at: usize, value: u16) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub fn put32(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn header(&mut self, device: &Device, around: Around) {
        // A virtual function reads all ones here; only sysfs knows what it is.
        let virtual_function = device.vf_of.is_some();
        let id = |given: u32| {
            if virtual_function { 0xffff } else { given as u16 }
        };
        self.put16(0x00, id(device.vendor.0));
        self.put16(0x02, id(device.device.0));
        self.put16(0x04, 0x0406);
        self.bytes(0x08, &[device.revision.0 as u8]);
        self.bytes(0x09, &device.class.0.to_le_bytes()[..3]);
        self.0[0x0e] = u8::from(device.is_bridge()) | u8::from(around.multifunction) << 7;
        if device.is_bridge() {
            self.bytes(0x18, &around.buses);
            // Base above limit: no window is open.
            self.bytes(0x1c, &[0xf0, 0x00]);
            self.bytes(0x20, &[0xf0, 0xff, 0, 0, 0xf1, 0xff, 0x01, 0]);
        } else if let Some((vendor, id)) = device.subsystem {
            self.put16(0x2c, vendor.0 as u16);
            self.put16(0x2e, id.0 as u16);
        }
        for bar in device.bars.iter().filter(|_| !virtual_function) {
            if bar.index > 5 {
                continue;
            }
            let low_bits = match bar.kind {
                Kind::Io => 0x1,
                Kind::Memory32 => 0x0,
                Kind::Memory64 => 0x4,
                Kind::Prefetchable64 => 0xc,
            };
            let at = 0x10 + 4 * bar.index;
            self.put32(at, bar.address as u32 | low_bits);
            if bar.kind.is_64() {
                self.put32(at + 4, (bar.address >> 32) as u32);
            }
        }
    }

    fn express(&mut self, device: &Device) {
        let Some(port) = device.port else { return };
        let endpoint = matches!(port, PortType::Endpoint | PortType::LegacyEndpoint);
        self.bytes(EXPRESS, &[0x10, 0]);
        self.put16(EXPRESS + 0x02, 2 | (port as u16) << 4);
        let largest = payload(device.mps_max.unwrap_or(512));
        // Extended tags, role-based error reporting; function level reset for endpoints.
        let reset = u32::from(endpoint) << 28;
        self.put32(EXPRESS + 0x04, u32::from(largest) | 1 << 5 | 1 << 15 | reset);
        let control = u16::from(device.relaxed_ordering) << 4
            | payload(device.mps.unwrap_or(256)) << 5
            | 1 << 11
            | payload(device.mrrs.unwrap_or(512)) << 12;
        self.put16(EXPRESS + 0x08, control);
        let number = u32::from(device.port_number) << 24;
        if let Some((speed, width)) = &device.max_link {
            let code = speed_code(speed);
            self.put32(EXPRESS + 0x0c, u32::from(code) | u32::from(*width) << 4 | number);
            self.put32(EXPRESS + 0x2c, ((1 << code) - 1) << 1);
            self.put16(EXPRESS + 0x30, u16::from(code));
        } else {
            self.put32(EXPRESS + 0x0c, number);
        }
        if let Some((speed, width)) = &device.link {
            self.put16(EXPRESS + 0x12, u16::from(speed_code(speed)) | u16::from(*width) << 4);
        }
    }
}

/// 128 bytes is 0, each doubling one more.
fn payload(bytes: u32) -> u16 {
    bytes.trailing_zeros().saturating_sub(7) as u16
}

/// "32GT/s" as the link registers code it.
fn speed_code(speed: &str) -> u8 {
    match speed {
        "2.5GT/s" => 1,
        "5GT/s" => 2,
        "8GT/s" => 3,
        "16GT/s" => 4,
        "32GT/s" => 5,
        "64GT/s" => 6,
        other => panic!("'{other}' is not a link speed: write 32GT/s"),
    }
}
