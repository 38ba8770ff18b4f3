//! BARs: sizes, addresses, and the flags Linux prints in sysfs `resource`.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::device::Device;

/// One base address register: `[index, size]`, `[index, size, kind]` or `[index, size, kind, address]`.
#[derive(Debug, Clone)]
pub struct Bar {
    pub index: usize,
    pub size: u64,
    pub kind: Kind,
    pub address: u64,
}

/// What the low bits of a BAR say (PCI Local Bus Specification 3.0, 6.2.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Io,
    Memory32,
    Memory64,
    Prefetchable64,
}

impl Kind {
    /// Linux's IORESOURCE flags: type, SIZEALIGN, MEM_64 and PREFETCH above, the BAR's own low bits below.
    pub fn flags(self) -> u64 {
        match self {
            Self::Io => 0x0004_0101,
            Self::Memory32 => 0x0004_0200,
            Self::Memory64 => 0x0014_0204,
            Self::Prefetchable64 => 0x0014_220c,
        }
    }

    /// Whether the register above holds the upper half of the address.
    pub fn is_64(self) -> bool {
        matches!(self, Self::Memory64 | Self::Prefetchable64)
    }
}

impl<'de> Deserialize<'de> for Bar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = Vec::<Value>::deserialize(deserializer)?;
        let text = |at: usize| parts.get(at).and_then(Value::as_str);
        let index = parts
            .first()
            .and_then(Value::as_u64)
            .ok_or_else(|| D::Error::custom("a BAR begins with its index"))?
            as usize;
        let size = text(1)
            .and_then(size)
            .ok_or_else(|| D::Error::custom("a BAR has a size such as \"16M\""))?;
        let kind = match text(2) {
            Some("io") => Kind::Io,
            Some("32") => Kind::Memory32,
            Some("64") => Kind::Memory64,
            Some("64p") => Kind::Prefetchable64,
            // The recorded machines name no kind; the last register cannot be half of a pair.
            None if index == 5 => Kind::Memory32,
            None => Kind::Prefetchable64,
            Some(other) => return Err(D::Error::custom(format!("'{other}' is not a kind of BAR"))),
        };
        let address = text(3)
            .and_then(|a| u64::from_str_radix(a.trim_start_matches("0x"), 16).ok())
            .unwrap_or(0);
        Ok(Self { index, size, kind, address })
    }
}

/// Reads "2K", "16M", "64G", "256".
pub fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match text.strip_prefix(digits)? {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    Some(digits.parse::<u64>().ok()? * unit)
}

/// Gives each BAR without an address one of its own, naturally aligned, as firmware would.
pub fn place(devices: &mut [Device]) {
    let (mut low, mut high, mut io) = (0x8000_0000_u64, 0x2000_0000_0000_u64, 0x1000_u64);
    for bar in devices.iter_mut().flat_map(|d| &mut d.bars) {
        let next = match bar.kind {
            Kind::Io => &mut io,
            Kind::Memory32 => &mut low,
            Kind::Memory64 | Kind::Prefetchable64 => &mut high,
        };
        if bar.address == 0 {
            bar.address = next.next_multiple_of(bar.size);
            *next = bar.address + bar.size;
        }
    }
}

/// The text of sysfs `resource`: BARs, ROM, SR-IOV BARs, and a bridge's windows (all closed).
pub fn resource(device: &Device) -> String {
    let lines = device.resource_lines.unwrap_or(if device.is_bridge() { 17 } else { 13 });
    (0..lines)
        .map(|index| {
            let (start, end, flags) =
                device.bars.iter().find(|bar| bar.index == index).map_or((0, 0, 0), |bar| {
                    (bar.address, bar.address + bar.size - 1, bar.kind.flags())
                });
            format!("0x{start:016x} 0x{end:016x} 0x{flags:016x}\n")
        })
        .collect()
}
