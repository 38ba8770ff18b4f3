//! Kernel modules on disk for the running kernel, and what loads the peer memory module at boot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// Modules that GPUDirect needs, from `/lib/modules/RELEASE` and the boot configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModuleFiles {
    /// The relevant modules in `modules.dep`; none if this kernel has no such list.
    pub on_disk: Fact<Option<Vec<ModuleFile>>>,
    /// Modules that export `ib_register_peer_memory_client`, from `modules.symbols`; none if there is no such list.
    pub peer_memory_exporters: Fact<Option<Vec<String>>>,
    /// What loads the peer memory module at boot.
    pub at_boot: Fact<Vec<AtBoot>>,
    /// `/sys/module/mlx5_core/version`, set by MLNX_OFED, as in `5.4-3.0.3`; none if unset.
    pub ofed: Fact<Option<String>>,
    /// `openibd.service` exists, which loads and unloads the modules of MLNX_OFED.
    pub openibd: Fact<bool>,
}

/// One module on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModuleFile {
    /// Its name, with underscores.
    pub name: String,
    /// Path below the kernel's module directory, as in `updates/dkms/nvidia-peermem.ko`.
    pub path: String,
    /// Names of the modules that it depends on.
    pub needs: Vec<String>,
}

/// A file that loads a module at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AtBoot {
    /// The file, or the link of a unit.
    pub path: String,
    pub names: String,
}

impl ModuleFiles {
    /// Drivers of PCI functions, and the module that provides their RDMA devices.
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

    /// True if a module provides RDMA devices.
    pub fn is_provider(module: &str) -> bool {
        Self::PROVIDERS.iter().any(|(_, provider)| *provider == module)
    }

    /// Finds a module of the running kernel; unknown if the list was not read or does not exist.
    pub fn find(&self, name: &str) -> Fact<Option<&ModuleFile>> {
        match &self.on_disk {
            Fact::Known(Some(list)) => Fact::Known(list.iter().find(|module| module.name == name)),
            Fact::Known(None) => Fact::Unknown(super::Why::NotCovered),
            Fact::Unknown(why) => Fact::Unknown(*why),
        }
    }
}
