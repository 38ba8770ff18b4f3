//! Everything the collectors read of one machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bdf, Boot, CudaOutcome, Driver, Fabric, Fact, Gdrdrv, Host, IdList, Kernel, Limits,
    MappingOutcome, Modprobe, ModuleFiles, NodeFile, NumaNode, NvmlOutcome, PciDevice, PeerMemory,
    Platform, Process, RdmaDevice, RdmaStack, RegistrationOutcome, Software, VerbsOutcome,
};

/// The facts of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The header of a report.
    pub host: Host,
    /// Every PCI function, by address.
    pub pci: Fact<Vec<PciDevice>>,
    /// Whether the list of functions may be a part: a text that somebody cut out. What is not in it may be there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// NUMA nodes that are online.
    pub numa: Fact<Vec<NumaNode>>,
    /// RDMA devices, by name and number.
    pub rdma: Fact<Vec<RdmaDevice>>,
    /// The RDMA stack of the kernel.
    #[serde(default)]
    pub rdma_stack: RdmaStack,
    /// Functions that look like RDMA devices, where the source does not name those: a list of PCI functions alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed_nics: Vec<Bdf>,
    /// NVMe controllers: name and address.
    pub nvme: Fact<Vec<(String, Bdf)>>,
    /// What NVML answered; unknown where it was not asked or did not answer in time.
    pub nvml: Fact<NvmlOutcome>,
    /// What CUDA answered without a context; unknown where it was not asked or did not answer in time.
    #[serde(default)]
    pub cuda: Fact<CudaOutcome>,
    /// What libibverbs answered; unknown where it was not asked or did not answer in time.
    #[serde(default)]
    pub verbs: Fact<VerbsOutcome>,
    /// Whether the CPU could map GPU memory; none where nobody asked to try (`--live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Fact<MappingOutcome>>,
    /// Whether RDMA devices could register GPU memory; none where nobody asked to try (`--live`), or there is nothing to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Fact<RegistrationOutcome>>,
    /// The NVIDIA driver.
    pub driver: Driver,
    /// The nodes `/dev/nvidia*`.
    pub nvidia_nodes: Fact<Vec<NodeFile>>,
    /// How kernel modules are loaded.
    #[serde(default)]
    pub modprobe: Modprobe,
    pub peer_memory: PeerMemory,
    /// What joins GPUs beyond PCI Express.
    #[serde(default)]
    pub fabric: Fabric,
    pub gdrdrv: Gdrdrv,
    /// Kernel modules on disk.
    #[serde(default)]
    pub module_files: ModuleFiles,
    pub kernel: Kernel,
    /// What starts it.
    #[serde(default)]
    pub boot: Boot,
    pub process: Process,
    /// The limits around this process.
    #[serde(default)]
    pub limits: Limits,
    /// Of this process's environment, the variables that decide over GPUDirect; paths that may be somebody's are left out.
    #[serde(default)]
    pub environment: Fact<BTreeMap<String, String>>,
    /// The programs and libraries around GPUDirect.
    #[serde(default)]
    pub software: Software,
    pub platform: Platform,
    /// Command-line tools that a fix may name: where each is, or none.
    pub tools: BTreeMap<String, Fact<Option<String>>>,
    /// CPUs that are online.
    pub online_cpus: Fact<IdList>,
    /// What could not be read or made sense of, for the reader of the report.
    pub notes: Vec<Note>,
}

/// Something that could not be read or made sense of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The file or call.
    pub source: String,
    /// What is wrong with it.
    pub message: String,
}

impl Facts {
    /// The PCI functions, where they are known.
    pub fn devices(&self) -> &[PciDevice] {
        self.pci.known().map_or(&[], Vec::as_slice)
    }

    /// One PCI function by address; the list is sorted.
    pub fn device(&self, bdf: Bdf) -> Option<&PciDevice> {
        let devices = self.devices();
        devices
            .binary_search_by_key(&bdf, |d| d.bdf)
            .ok()
            .and_then(|at| devices.get(at))
    }

    /// The NVIDIA GPUs on the bus, by address.
    pub fn gpus(&self) -> impl Iterator<Item = &PciDevice> {
        self.devices()
            .iter()
            .filter(|d| d.ids.known().is_some_and(|ids| ids.is_nvidia_gpu()))
    }

    /// NVML's reading, where there is one.
    pub fn nvml(&self) -> Option<&super::Nvml> {
        match self.nvml.known() {
            Some(NvmlOutcome::Read(nvml)) => Some(nvml),
            _ => None,
        }
    }
}
