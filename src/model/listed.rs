//! GPUs and NICs that a text lists without PCI addresses: output of `nvidia-smi topo -m` and `nvidia-smi -L`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fact, IdList, PciClass};

/// The devices and, if the text has a matrix, what it says of each pair.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The GPUs, in nvidia-smi's order.
    pub gpus: Vec<ListedGpu>,
    /// Names of the NICs, as in `mlx5_0`, in the order of the columns.
    pub nics: Vec<String>,
    /// A row for each GPU and each NIC with a cell for each of them; empty without a matrix.
    pub cells: Vec<Vec<ListedPair>>,
}

/// A GPU without its address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedGpu {
    pub model: Option<String>,
    pub uuid: Option<String>,
    /// Nearby CPUs.
    pub cpus: Fact<IdList>,
    /// NUMA node; none if nvidia-smi prints N/A.
    pub numa_node: Fact<Option<u32>>,
}

/// What a matrix says of a pair. A cell `NV4` hides the class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedPair {
    pub class: Option<PciClass>,
    /// Number of NVLinks; null if the matrix does not show NVLinks.
    pub nvlinks: Option<u32>,
}

impl Listed {
    pub fn pair(&self, a: usize, b: usize) -> Option<ListedPair> {
        self.cells.get(a)?.get(b).copied()
    }
}
