//! Everything that the collectors read from one machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bdf, Boot, CudaOutcome, Driver, Fabric, Fact, Gdrdrv, Host, IdList, Ids, Kernel, Limits,
    LinkedPair, Listed, MappingOutcome, Modprobe, ModuleFiles, NcclElement, Network, NodeFile,
    NumaNode, NvmlOutcome, PciDevice, PeerMemory, Platform, Process, RdmaDevice, RdmaPort,
    RdmaStack, RegistrationOutcome, Software, VerbsOutcome, VirtualFunction,
};

/// The facts of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// Identification of the machine, for the header of a report.
    pub host: Host,
    /// Every PCI function, by address.
    pub pci: Fact<Vec<PciDevice>>,
    /// The list of functions may be incomplete, as in a text dump that was cut. A function that is not listed may
    /// still exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// NUMA nodes that are online.
    pub numa: Fact<Vec<NumaNode>>,
    /// RDMA devices, by name and number.
    pub rdma: Fact<Vec<RdmaDevice>>,
    /// The RDMA stack of the kernel.
    #[serde(default)]
    pub rdma_stack: RdmaStack,
    /// Functions that look like RDMA devices, if the source is a list of PCI functions without RDMA names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed_nics: Vec<Bdf>,
    /// NVMe controllers: name and address.
    pub nvme: Fact<Vec<(String, Bdf)>>,
    /// Answers of NVML; unknown if it was not queried or did not answer in time.
    pub nvml: Fact<NvmlOutcome>,
    /// NVLinks of each pair of GPUs, from a matrix of nvidia-smi in a dump.
    #[serde(default)]
    pub linked_pairs: Fact<Vec<LinkedPair>>,
    /// Devices that the source lists without PCI addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Listed>,
    /// NCCL's topology, if the source is a file of NCCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<NcclElement>,
    /// Answers of CUDA without a context; unknown if it was not queried or did not answer in time.
    #[serde(default)]
    pub cuda: Fact<CudaOutcome>,
    /// Answers of libibverbs; unknown if it was not queried or did not answer in time.
    #[serde(default)]
    pub verbs: Fact<VerbsOutcome>,
    /// Network interfaces of RDMA ports, and counters that rise; unknown if it was not queried or did not answer in time.
    #[serde(default)]
    pub network: Fact<Network>,
    /// Whether the CPU can map GPU memory; none without `--live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Fact<MappingOutcome>>,
    /// Whether RDMA devices can register GPU memory; none without `--live`, or if there is nothing to test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Fact<RegistrationOutcome>>,
    /// The NVIDIA driver.
    pub driver: Driver,
    /// The device nodes `/dev/nvidia*`.
    pub nvidia_nodes: Fact<Vec<NodeFile>>,
    /// How kernel modules are loaded.
    #[serde(default)]
    pub modprobe: Modprobe,
    pub peer_memory: PeerMemory,
    /// GPU interconnects beyond PCI Express.
    #[serde(default)]
    pub fabric: Fabric,
    pub gdrdrv: Gdrdrv,
    /// Kernel modules on disk.
    #[serde(default)]
    pub module_files: ModuleFiles,
    pub kernel: Kernel,
    /// The boot loader.
    #[serde(default)]
    pub boot: Boot,
    pub process: Process,
    /// Resource limits of this process.
    #[serde(default)]
    pub limits: Limits,
    /// Environment variables of this process that affect GPUDirect; paths that may be private are left out.
    #[serde(default)]
    pub environment: Fact<BTreeMap<String, String>>,
    /// Programs and libraries related to GPUDirect.
    #[serde(default)]
    pub software: Software,
    pub platform: Platform,
    /// Paths of command-line tools that a fix may use; none if not installed.
    pub tools: BTreeMap<String, Fact<Option<String>>>,
    pub online_cpus: Fact<IdList>,
    /// Sources that could not be read or parsed, for the report.
    pub notes: Vec<Note>,
}

/// A source that could not be read or parsed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The file or call.
    pub source: String,
    /// The problem.
    pub message: String,
}

impl Facts {
    /// True for GPUs on NVIDIA's CPUs (Grace, Vera): their memory is coherent over NVLink-C2C, and their ports keep the ACS bits
    /// that the kernel sets.
    pub fn is_grace(&self) -> bool {
        let is = |device: &PciDevice, property: &dyn Fn(&Ids) -> bool| {
            device.ids.known().is_some_and(property)
        };
        let architecture = self.platform.architecture.known();
        let arm = architecture.is_some_and(|name| name == "aarch64");
        let root_port = |ids: &Ids| ids.vendor == Ids::NVIDIA && ids.is_bridge();
        let mut devices = self.devices().iter();
        self.gpus().any(|gpu| is(gpu, &Ids::is_coherent_gpu))
            || (arm && devices.any(|device| is(device, &root_port)))
    }

    /// The PCI functions, if known.
    pub fn devices(&self) -> &[PciDevice] {
        self.pci.known().map_or(&[], Vec::as_slice)
    }

    /// Finds a PCI function by address; the list is sorted.
    pub fn device(&self, bdf: Bdf) -> Option<&PciDevice> {
        let devices = self.devices();
        devices.binary_search_by_key(&bdf, |d| d.bdf).ok().and_then(|at| devices.get(at))
    }

    /// Says that a NIC is a virtual function, by the link `physfn` or by its device id; none also if that is unknown.
    pub fn virtual_function(&self, nic: &RdmaDevice) -> Option<VirtualFunction> {
        let physical_function = nic.physical_function.present().copied();
        let place = nic.place.present().and_then(|bdf| self.device(*bdf));
        let ids = place.and_then(|device| device.ids.known());
        let is_virtual = physical_function.is_some() || ids.is_some_and(Ids::is_virtual_function);
        is_virtual.then_some(VirtualFunction { physical_function })
    }

    /// Functions of a NIC's card that are ports without an RDMA device of their own: with RoCE LAG (mlx5) one device serves all ports of a
    /// bond. Such a function may also have RDMA switched off, so this is an upper bound.
    pub fn bonded_functions(&self, nic: &RdmaDevice) -> Vec<Bdf> {
        let (Some(own), Fact::Known(all)) = (nic.place.present(), &self.rdma) else {
            return Vec::new();
        };
        let driver = |device: &PciDevice| {
            let attributes = device.attributes.as_ref()?;
            attributes.driver.present().cloned()
        };
        let Some(card) = self.device(*own) else {
            return Vec::new();
        };
        if self.virtual_function(nic).is_some() || driver(card).as_deref() != Some("mlx5_core") {
            return Vec::new();
        }
        let is_port = |device: &&PciDevice| {
            let attributes = device.attributes.as_ref();
            device.bdf != *own
                && (device.bdf.domain, device.bdf.bus, device.bdf.device)
                    == (own.domain, own.bus, own.device)
                && device.ids == card.ids
                && driver(device).as_deref() == Some("mlx5_core")
                && attributes.is_some_and(|attributes| attributes.physical_function.is_absent())
        };
        let has_device = |bdf: Bdf| all.iter().any(|nic| nic.place.present() == Some(&bdf));
        let ports = self.devices().iter().filter(is_port).map(|device| device.bdf);
        ports.filter(|bdf| !has_device(*bdf)).collect()
    }

    /// Number of ports and rate in Gb/s of the bond that an active Ethernet port may be part of; none without other ports.
    pub fn bond(&self, nic: &RdmaDevice, port: &RdmaPort) -> Option<(usize, f64)> {
        let is_ethernet = port.link_layer.known().is_some_and(|layer| layer == "Ethernet");
        let ports = self.bonded_functions(nic).len() + 1;
        if !is_ethernet || !port.is_active() || ports == 1 {
            return None;
        }
        let one: f64 = port.speed()?.strip_suffix(" Gb/s")?.parse().ok()?;
        Some((ports, one * ports as f64))
    }

    /// NVIDIA GPUs on the bus, by address.
    pub fn gpus(&self) -> impl Iterator<Item = &PciDevice> {
        self.devices().iter().filter(|d| d.ids.known().is_some_and(|ids| ids.is_nvidia_gpu()))
    }

    /// Answers of NVML, if it answered.
    pub fn nvml(&self) -> Option<&super::Nvml> {
        match self.nvml.known() {
            Some(NvmlOutcome::Read(nvml)) => Some(nvml),
            _ => None,
        }
    }
}
