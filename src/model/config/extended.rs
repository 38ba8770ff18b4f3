//! Other extended capabilities that affect peer-to-peer traffic.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Address Translation Services (extended id 0x0f, PCIe 10.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ats {
    /// The function may request translations.
    pub enabled: bool,
}

/// Single Root I/O Virtualization (extended id 0x10, PCIe 9.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SrIov {
    /// Virtual functions are enabled.
    pub enabled: bool,
    /// Configured number of virtual functions.
    pub num_vfs: u16,
    /// Routing id of the first virtual function, relative to this function.
    pub first_vf_offset: u16,
    /// Distance between the routing ids of virtual functions.
    pub vf_stride: u16,
}

/// Device serial number (extended id 0x03, PCIe 7.9.3), an EUI-64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SerialNumber(pub u64);

impl fmt::Display for SerialNumber {
    /// As lspci writes it: `b8-ce-f6-03-00-12-34-56`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.to_be_bytes().iter().enumerate() {
            let dash = if place == 0 { "" } else { "-" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Writes `Name+ Other-`, as lspci does.
pub(super) fn write_flags(
    f: &mut fmt::Formatter<'_>,
    names: &[(&str, u32)],
    bits: u32,
) -> fmt::Result {
    for (place, (name, bit)) in names.iter().enumerate() {
        let space = if place == 0 { "" } else { " " };
        let sign = if bits & 1 << bit != 0 { '+' } else { '-' };
        write!(f, "{space}{name}{sign}")?;
    }
    Ok(())
}
