//! Other extended capabilities that affect peer-to-peer traffic.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Bar;
use crate::model::Fact;

/// Address Translation Services (extended id 0x0f, PCIe 10.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ats {
    /// Offset of the capability.
    pub offset: u16,
    /// The function may request translations.
    pub enabled: bool,
    /// Number of invalidations that it can queue, 1 to 32.
    pub queue_depth: u8,
    /// Its addresses are always page-aligned. lspci does not print it.
    pub page_aligned: Fact<bool>,
    /// Smallest region of one translation, bytes.
    pub smallest_translation_unit: u64,
}

/// Advanced Error Reporting (extended id 0x01, PCIe 7.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Aer {
    /// Offset of the capability.
    pub offset: u16,
    /// Uncorrectable errors that occurred.
    pub uncorrectable: UncorrectableErrors,
    /// Masked uncorrectable errors.
    pub uncorrectable_mask: UncorrectableErrors,
    /// Uncorrectable errors that are fatal.
    pub uncorrectable_severity: UncorrectableErrors,
    /// Correctable errors that occurred.
    pub correctable: CorrectableErrors,
    /// Masked correctable errors.
    pub correctable_mask: CorrectableErrors,
}

/// Uncorrectable errors, one bit each (PCIe 7.8.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct UncorrectableErrors(pub u32);

impl fmt::Display for UncorrectableErrors {
    /// As lspci writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u32); 12] = [
            ("DLP", 4),
            ("SDES", 5),
            ("TLP", 12),
            ("FCP", 13),
            ("CmpltTO", 14),
            ("CmpltAbrt", 15),
            ("UnxCmplt", 16),
            ("RxOF", 17),
            ("MalfTLP", 18),
            ("ECRC", 19),
            ("UnsupReq", 20),
            ("ACSViol", 21),
        ];
        write_flags(f, &NAMES, self.0)
    }
}

/// Correctable errors, one bit each (PCIe 7.8.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CorrectableErrors(pub u32);

impl fmt::Display for CorrectableErrors {
    /// As lspci writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u32); 6] = [
            ("RxErr", 0),
            ("BadTLP", 6),
            ("BadDLLP", 7),
            ("Rollover", 8),
            ("Timeout", 12),
            ("AdvNonFatalErr", 13),
        ];
        write_flags(f, &NAMES, self.0)
    }
}

/// One BAR of the Resizable BAR capability (extended id 0x15, PCIe 7.8.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResizableBar {
    pub bar: u8,
    /// Supported sizes, bytes, ascending.
    pub supported: Vec<u64>,
    /// Current size, bytes.
    pub current: u64,
}

/// Single Root I/O Virtualization (extended id 0x10, PCIe 9.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SrIov {
    /// Offset of the capability.
    pub offset: u16,
    /// Virtual functions are enabled.
    pub enabled: bool,
    /// Virtual functions respond to their memory BARs.
    pub memory_enabled: bool,
    /// Maximum number of virtual functions.
    pub total_vfs: u16,
    /// Configured number of virtual functions.
    pub num_vfs: u16,
    /// Device id of every virtual function.
    pub vf_device: u16,
    /// Routing id of the first virtual function, relative to this function.
    pub first_vf_offset: u16,
    /// Distance between the routing ids of virtual functions.
    pub vf_stride: u16,
    /// BARs of the virtual functions that are not zero: that of function n is n sizes further.
    pub vf_bars: Vec<Bar>,
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
