//! The first 64 bytes of configuration space: ids, class, command, status and BARs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Fact;

/// The predefined header (PCIe 7.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Vendor id. An SR-IOV virtual function reads 0xffff here (PCIe 9.3.4.1.1); sysfs `vendor` has the real one.
    pub vendor: u16,
    /// Device id; 0xffff in a virtual function.
    pub device: u16,
    /// Class code.
    pub class: Class,
    pub revision: u8,
    /// Fields that depend on the header type.
    pub kind: HeaderKind,
    /// Command register.
    pub command: Command,
    /// Base address registers that are not zero.
    pub bars: Vec<Bar>,
}

/// The type of a header and its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeaderKind {
    /// Type 0: not a bridge. A virtual function has its own subsystem.
    Endpoint {
        /// Subsystem; vendor 0 if the manufacturer set none.
        subsystem: Subsystem,
    },
    /// Type 1: a PCI-to-PCI bridge, including every switch port and root port.
    Bridge {
        /// Bus below.
        secondary: u8,
        /// Highest bus below.
        subordinate: u8,
        /// From the bridge's subsystem capability (0x0d), which only a full walk of the list finds.
        subsystem: Fact<Option<Subsystem>>,
    },
    /// Type 2: a CardBus bridge.
    CardBus {
        /// CardBus below.
        secondary: u8,
        /// Highest bus below.
        subordinate: u8,
    },
}

/// Manufacturer of the board, as opposed to the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Subsystem {
    /// Subsystem vendor id.
    pub vendor: u16,
    /// Subsystem id, given by that vendor.
    pub device: u16,
}

/// Class code, 24 bits: base class, subclass, programming interface. 0x030200 is a 3D controller.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Class(pub u32);

impl Class {
    /// A host bridge (0x0600), the only class that may have extended space without a PCI Express capability.
    pub fn is_host_bridge(self) -> bool {
        self.0 >> 8 == 0x0600
    }
}

impl fmt::Display for Class {
    /// As sysfs writes it: `0x030200`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// Command register (PCIe 7.5.1.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Command(pub u16);

/// A base address register (BAR). Its size is not in configuration space: reading it requires a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Index of the (first) register, 0 to 5. A 64-bit BAR also takes the next one.
    pub index: u8,
    /// Address space.
    pub kind: BarKind,
}

/// Address space of a BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// Memory space.
    Memory {
        /// Bus address; 0 if not assigned.
        address: u64,
        /// The BAR is 64 bits wide.
        bits64: bool,
        /// Reads have no side effects.
        prefetchable: bool,
    },
    /// I/O space.
    Io {
        /// Port; 0 if not assigned.
        address: u32,
    },
}
