//! Thresholds below which a measured bandwidth counts as slow.

use serde::{Deserialize, Serialize};

/// Minimum shares of the maximum bandwidth, 0 to 1; a lower result is slow. None disables the test. A profile sets
/// them in its table `probe`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Shares {
    /// Of a PCI Express link, for CPU stores to mapped GPU memory.
    pub mapping: Option<f64>,
    /// Of a PCI Express link, for copy engines and kernels.
    pub pci_express: Option<f64>,
    /// Of all NVLinks between two GPUs, for copy engines and kernels.
    pub nvlink: Option<f64>,
    /// Of a NIC's port, and of the path between it and a GPU, for transfers of the NIC.
    pub port: Option<f64>,
}

impl Shares {
    /// The larger threshold of each.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        // None compares less than any share.
        let larger = |a: Option<f64>, b: Option<f64>| if a < b { b } else { a };
        Self {
            mapping: larger(self.mapping, other.mapping),
            pci_express: larger(self.pci_express, other.pci_express),
            nvlink: larger(self.nvlink, other.nvlink),
            port: larger(self.port, other.port),
        }
    }

    /// The first invalid share, with its key.
    pub fn wrong(&self) -> Option<(&'static str, f64)> {
        let named = [
            ("mapping", self.mapping),
            ("pci-express", self.pci_express),
            ("nvlink", self.nvlink),
            ("port", self.port),
        ];
        let given = named.into_iter().filter_map(|(key, share)| Some((key, share?)));
        given.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share))
    }
}
