//! The first 64 bytes of configuration space: who the function is and what it decodes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Fact;

/// The predefined header (PCIe 7.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Vendor id. An SR-IOV virtual function reads 0xffff here (PCIe 9.3.4.1.1): sysfs `vendor` has the true one.
    pub vendor: u16,
    /// Device id; 0xffff in a virtual function, as the vendor.
    pub device: u16,
    /// What the function is.
    pub class: Class,
    /// Revision id.
    pub revision: u8,
    /// The part of the header that depends on its type.
    pub kind: HeaderKind,
    /// Other functions may exist beside this one.
    pub multifunction: bool,
    /// Command register.
    pub command: Command,
    /// Status register.
    pub status: Status,
    /// Base address registers that are not zero.
    pub bars: Vec<Bar>,
    /// Legacy interrupt pin: 0 none, 1 to 4 INTA to INTD.
    pub interrupt_pin: u8,
}

/// The type of a header and the fields only that type has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeaderKind {
    /// Type 0: a device that is no bridge. A virtual function's subsystem is its own.
    Endpoint {
        /// Subsystem; vendor 0 where the maker set none.
        subsystem: Subsystem,
    },
    /// Type 1: a PCI-to-PCI bridge, which is also every port of a switch and every root port.
    Bridge {
        /// Bus above.
        primary: u8,
        /// Bus below.
        secondary: u8,
        /// Highest bus below.
        subordinate: u8,
        /// From the bridge's subsystem capability (0x0d), which only a full walk is sure to meet.
        subsystem: Fact<Option<Subsystem>>,
    },
    /// Type 2: a CardBus bridge.
    CardBus {
        /// Bus above.
        primary: u8,
        /// CardBus below.
        secondary: u8,
        /// Highest bus below.
        subordinate: u8,
    },
}

/// Who built the board, as opposed to the chip.
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
    /// Base class: 0x02 network, 0x03 display, 0x06 bridge.
    pub fn base(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Subclass within the base class.
    pub fn sub(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Programming interface.
    pub fn interface(self) -> u8 {
        self.0 as u8
    }

    /// A host bridge (0x0600), the one kind that may have extended space without a PCI Express capability.
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

impl Command {
    /// Answers to its I/O BARs.
    pub fn io(self) -> bool {
        self.0 & 1 != 0
    }

    /// Answers to its memory BARs. Without it nobody reaches a GPU's memory.
    pub fn memory(self) -> bool {
        self.0 & 1 << 1 != 0
    }

    /// May send requests of its own: DMA and MSI.
    pub fn bus_master(self) -> bool {
        self.0 & 1 << 2 != 0
    }

    /// Legacy interrupts are off.
    pub fn interrupt_disable(self) -> bool {
        self.0 & 1 << 10 != 0
    }
}

/// Status register (PCIe 7.5.1.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Status(pub u16);

impl Status {
    /// There is a capability list.
    pub fn capabilities(self) -> bool {
        self.0 & 1 << 4 != 0
    }

    /// A request of this function was answered with completer abort.
    pub fn received_target_abort(self) -> bool {
        self.0 & 1 << 12 != 0
    }

    /// A request of this function was answered with unsupported request.
    pub fn received_master_abort(self) -> bool {
        self.0 & 1 << 13 != 0
    }
}

/// A base address register. Its size is not in configuration space: learning it takes a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Number of the (first) register, 0 to 5. A 64-bit BAR also takes the next number.
    pub index: u8,
    /// What it decodes.
    pub kind: BarKind,
}

/// What a base address register decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// Memory space.
    Memory {
        /// Bus address; 0 where none was assigned.
        address: u64,
        /// The register pair holds 64 bits.
        bits64: bool,
        /// Reads have no side effect.
        prefetchable: bool,
    },
    /// I/O space.
    Io {
        /// Port; 0 where none was assigned.
        address: u32,
    },
}
