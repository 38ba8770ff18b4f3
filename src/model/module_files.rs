//! Kernel modules as they lie on disk for the running kernel, and what loads the peer memory module at boot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// What `/lib/modules/RELEASE` and the boot's lists say of the modules that GPUDirect needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModuleFiles {
    /// The modules of interest in `modules.dep`; none where this kernel has no such list.
    pub on_disk: Fact<Option<Vec<ModuleFile>>>,
    /// The modules that export `ib_register_peer_memory_client`, by `modules.symbols`; none where there is no such list.
    pub peer_memory_exporters: Fact<Option<Vec<String>>>,
    /// What loads the peer memory module at boot.
    pub at_boot: Fact<Vec<AtBoot>>,
    /// `/sys/module/mlx5_core/version`, which MLNX_OFED sets, as in `5.4-3.0.3`; none where the module has none.
    pub ofed: Fact<Option<String>>,
    /// There is `openibd.service`, by which MLNX_OFED loads its modules and takes them down.
    pub openibd: Fact<bool>,
}

/// One module on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModuleFile {
    /// Its name, with underscores.
    pub name: String,
    /// Its file below the kernel's directory of modules, as in `updates/dkms/nvidia-peermem.ko`.
    pub path: String,
    /// The names of the modules that it needs.
    pub needs: Vec<String>,
}

/// One place that loads a module at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AtBoot {
    /// The file, or the link of a unit.
    pub path: String,
    pub names: String,
}

impl ModuleFiles {
    /// Drivers of PCI functions, and the module that makes an RDMA device of one.
    pub const PROVIDERS: [(&'static str, &'static str); 13] = [
        ("mlx5_core", "mlx5_ib"),
        ("mlx4_core", "mlx4_ib"),
        ("bnxt_en", "bnxt_re"),
        ("ice", "irdma"),
        ("i40e", "irdma"),
        ("idpf", "irdma"),
        ("mana", "mana_ib"),
        ("ionic", "ionic_rdma"),
        ("hns3", "hns_roce_hw_v2"),
        ("cxgb4", "iw_cxgb4"),
        ("qede", "qedr"),
        ("efa", "efa"),
        ("erdma", "erdma"),
    ];

    /// Whether a module makes RDMA devices.
    pub fn is_provider(module: &str) -> bool {
        Self::PROVIDERS
            .iter()
            .any(|(_, provider)| *provider == module)
    }

    /// A module of the running kernel by its name; unknown where the list was not read or is not there.
    pub fn find(&self, name: &str) -> Fact<Option<&ModuleFile>> {
        match &self.on_disk {
            Fact::Known(Some(list)) => Fact::Known(list.iter().find(|module| module.name == name)),
            Fact::Known(None) => Fact::Unknown(super::Why::NotCovered),
            Fact::Unknown(why) => Fact::Unknown(*why),
        }
    }
}
