//! What a person expects of a machine: `expect.json`, written by hand from the rules and never by gdr.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// A matrix: row, column, class.
pub type Matrix = BTreeMap<String, BTreeMap<String, String>>;

/// Expectations of one machine. A key that is not there is not judged.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Why these and not others: for the reader.
    pub why: Vec<String>,
    /// The GPUs' rows and their addresses.
    pub gpus: Option<BTreeMap<String, String>>,
    /// The NICs' rows and their RDMA device names: exactly these are rows.
    pub nics: Option<BTreeMap<String, String>>,
    /// PCI classes between rows.
    pub classes: Matrix,
    /// PCI classes by RDMA device name, where the rows' order is not certain.
    pub classes_by_device: Matrix,
    /// The ports that are findings: exactly these.
    pub acs_findings: Option<Vec<AcsFinding>>,
    /// Ports on a judged path whose ACS cannot be read.
    pub acs_unknown: Vec<String>,
    /// All NICs that share a GPU's nearest class, in row order.
    pub best_nic: BTreeMap<String, Vec<String>>,
    /// "good", "likely good" or "bad" for each GPU.
    pub verdict: BTreeMap<String, String>,
    /// Type of the IOMMU group of a row.
    pub iommu: BTreeMap<String, String>,
    /// RDMA devices that are virtual functions, and their physical functions if they are to be seen.
    pub virtual_functions: BTreeMap<String, Option<String>>,
    /// Addresses in sys/bus/pci/devices that must not be followed.
    pub must_not_follow: Vec<String>,
}

/// One port whose ACS control redirects or blocks a judged pair.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcsFinding {
    pub port: String,
    /// The bits to clear: "RR", "CR", "EC".
    pub bits: Vec<String>,
    /// "E" below a common switch, "W" at the root complex.
    pub severity: String,
}

impl Expect {
    /// Reads `expect.json` of a machine's directory.
    pub fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|e| panic!("{} cannot be read: {e}", path.display()));
        serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{} is not an expectation: {e}", path.display()))
    }
}
