//! NCCL's topology XML (NCCL_TOPO_DUMP_FILE, and what clouds ship for NCCL_TOPO_FILE) → Facts.
//!
//! NCCL lists GPUs and NICs below `cpu`, one for each NUMA node, and switches by their upstream ports (NCCL 2.30,
//! src/graph/xml.cc, `ncclTopoGetXmlFromSys`). It leaves out root buses, root ports, downstream ports, ACS, IOMMU and driver: these are
//! unknown. Its link is the maximum of both ends, or the current one of a GPU, so it is neither fact.

mod links;
#[cfg(test)]
mod tests;
mod xml;

use std::collections::{BTreeMap, HashMap};

use super::ImportError;
use super::limits::{FUNCTIONS, at_most};
use crate::model::Order as _;
use crate::model::{
    Attributes, Bdf, Config, Fact, Facts, IdList, Ids, NcclElement, PciDevice, PciPath, Platform,
    RdmaDevice, RdmaPort, RootBus, Why,
};

/// Detects NCCL's topologies.
pub fn is_format(bytes: &[u8]) -> bool {
    super::xml::root(bytes).as_deref() == Some("system")
}

/// Detects NCCL's graphs: they are read like a text.
pub fn is_graph(bytes: &[u8]) -> bool {
    super::xml::root(bytes).as_deref() == Some("graphs")
}

pub fn facts(bytes: &[u8]) -> Result<Facts, ImportError> {
    let system = xml::read(bytes)?;
    one_machine(&system)?;
    let mut found = Found { of_amd: is_of_amd(&system), ..Found::default() };
    for cpu in system.of_tag("cpu") {
        let near = Near {
            numa: cpu.attribute("numaid").and_then(|text| text.parse().ok()),
            cpus: cpu.attribute("affinity").and_then(mask),
        };
        found.below(cpu, &near, &mut Vec::new())?;
    }
    if found.pci.is_empty() {
        return Err(ImportError::Malformed(
            "the NCCL topology has no PCI device with a bus id".to_owned(),
        ));
    }
    let (pci, named) = (found.pci.into_values().collect::<Vec<_>>(), !found.nics.is_empty());
    found.nics.order_by_key(|device| RdmaDevice::natural(&device.name));
    Ok(Facts {
        platform: Platform {
            architecture: architecture(&system),
            paravirtual_devices: super::paravirtual_devices(&pci),
            ..Platform::default()
        },
        linked_pairs: links::pairs(&system),
        unnamed_nics: if named { Vec::new() } else { found.unnamed },
        rdma: if named { Fact::Known(found.nics) } else { Fact::Unknown(Why::NotCovered) },
        pci: Fact::Known(pci),
        partial: true,
        nccl: Some(system),
        ..Facts::default()
    })
}

/// Fails for a domain of several machines, whose addresses collide.
fn one_machine(system: &NcclElement) -> Result<(), ImportError> {
    let mut hosts: Vec<&str> =
        system.of_tag("cpu").filter_map(|cpu| cpu.attribute("host_hash")).collect();
    hosts.sort_unstable();
    hosts.dedup();
    match hosts.len() {
        0 | 1 => Ok(()),
        machines => Err(ImportError::Malformed(format!(
            "the NCCL topology has {machines} machines (host_hash); keep the <cpu> elements of one"
        ))),
    }
}

/// The NUMA node and CPUs that devices are near to.
struct Near {
    /// NCCL writes −1 both where the kernel has no node and where it found none.
    numa: Option<u32>,
    cpus: Option<IdList>,
}

#[derive(Default)]
struct Found {
    /// The file is RCCL's.
    of_amd: bool,
    pci: BTreeMap<Bdf, PciDevice>,
    nics: Vec<RdmaDevice>,
    /// Where a NIC is in the list.
    nic_ids: HashMap<String, usize>,
    ports: usize,
    unnamed: Vec<Bdf>,
}

impl Found {
    /// The functions below an element; `bridges` are the switches above it.
    fn below(
        &mut self,
        element: &NcclElement,
        near: &Near,
        bridges: &mut Vec<Bdf>,
    ) -> Result<(), ImportError> {
        for pci in element.of_tag("pci") {
            let Some(bdf) = pci.attribute("busid").and_then(address) else {
                self.below(pci, near, bridges)?;
                continue;
            };
            at_most(FUNCTIONS, self.pci.len() + 1, "PCI functions")?;
            let device = device(pci, bdf, near, bridges, self.of_amd);
            self.nic(pci, &device)?;
            if self.pci.insert(bdf, device).is_some() {
                return Err(ImportError::Malformed(format!(
                    "the NCCL topology lists the PCI function {bdf} twice"
                )));
            }
            if bridges.len() == PciPath::MAX_BRIDGES {
                return Err(ImportError::Malformed("switches nest too deep".to_owned()));
            }
            bridges.push(bdf);
            self.below(pci, near, bridges)?;
            bridges.pop();
        }
        Ok(())
    }

    /// The RDMA devices of a function. A plugin for sockets gives no port (NCCL 2.30, src/transport/net_socket.cc).
    fn nic(&mut self, pci: &NcclElement, device: &PciDevice) -> Result<(), ImportError> {
        let nets: Vec<&NcclElement> = pci.of_tag("nic").flat_map(|nic| nic.of_tag("net")).collect();
        for net in &nets {
            let port = net.attribute("port").and_then(|port| port.parse().ok()).unwrap_or(0);
            let names = net.attribute("name").filter(|_| port > 0).into_iter();
            // NCCL 2.19 to 2.24 joined the names of merged NICs; only the first is known to be here.
            for (at, name) in names.flat_map(|names| names.split('+')).enumerate() {
                self.ports += 1;
                at_most(FUNCTIONS, self.ports, "ports of RDMA devices")?;
                let port = rdma_port(net, port, at == 0);
                match self.nic_ids.get(name) {
                    Some(nic) => {
                        if let Fact::Known(ports) = &mut self.nics[*nic].ports {
                            ports.push(port);
                        }
                    }
                    None => {
                        self.nic_ids.insert(name.to_owned(), self.nics.len());
                        self.nics.push(rdma_device(name, port, device.bdf, at == 0));
                    }
                }
            }
        }
        let is_nic = match device.ids.known() {
            Some(ids) => !super::nics(std::slice::from_ref(device)).is_empty() || ids.is_efa(),
            None => pci.attribute("class").is_some_and(|class| class.starts_with("0x02")),
        };
        if is_nic {
            self.unnamed.push(device.bdf);
        }
        Ok(())
    }
}

fn rdma_device(name: &str, port: RdmaPort, at: Bdf, is_here: bool) -> RdmaDevice {
    let unknown = || Fact::Unknown(Why::NotCovered);
    RdmaDevice {
        name: name.to_owned(),
        place: if is_here { Fact::Known(Some(at)) } else { unknown() },
        parent: Fact::Known(None),
        ports: Fact::Known(vec![port]),
        // NCCL does not use the functions that manage NVSwitches.
        management: Fact::Known(false),
        ..RdmaDevice::default()
    }
}

fn rdma_port(net: &NcclElement, number: u32, own_rate: bool) -> RdmaPort {
    let speed = net.attribute("speed").and_then(|speed| speed.parse::<u32>().ok());
    RdmaPort {
        number,
        rate: match speed.filter(|speed| own_rate && *speed >= 1000) {
            Some(speed) => Fact::Known(format!("{} Gb/sec", f64::from(speed) / 1000.0)),
            None => Fact::Unknown(Why::NotCovered),
        },
        ..RdmaPort::default()
    }
}

fn device(pci: &NcclElement, bdf: Bdf, near: &Near, bridges: &[Bdf], of_amd: bool) -> PciDevice {
    let outermost = bridges.first().copied().unwrap_or(bdf);
    let unknown = || Fact::Unknown(Why::NotCovered);
    let ids = ids(pci, of_amd);
    let is_end = ids.known().is_none_or(|ids| !ids.is_bridge());
    let local_cpus = near.cpus.clone().map_or(Fact::Unknown(Why::NotCovered), Fact::Known);
    PciDevice {
        bdf,
        place: Fact::Known(PciPath {
            root: RootBus { domain: outermost.domain, bus: outermost.bus },
            rooted: false,
            bridges: bridges.to_vec(),
        }),
        ids,
        numa_node: near.numa.map_or_else(unknown, |node| Fact::Known(Some(node))),
        config: Config::default(),
        attributes: is_end.then(|| Box::new(Attributes { local_cpus, ..Attributes::default() })),
    }
}

/// True for a topology of RCCL, which has NCCL's format: AMD's GPUs have an attribute `gcn` or links `xgmi` (RCCL, src/graph/xml.cc), or
/// a display function has AMD's vendor id.
fn is_of_amd(element: &NcclElement) -> bool {
    let is_display = element.attribute("class").is_some_and(|class| class.starts_with("0x03"));
    element.tag == "xgmi"
        || element.tag == "gpu" && element.attribute("gcn").is_some()
        || is_display && element.attribute("vendor") == Some("0x1002")
        || element.children.iter().any(is_of_amd)
}

/// Vendor, device and class. Files of clouds leave out the vendor: then a VGA or 3D controller is NVIDIA's, unless the file is RCCL's.
/// AMD's accelerators are other display controllers (0380).
fn ids(pci: &NcclElement, of_amd: bool) -> Fact<Ids> {
    let number = |name: &str| {
        let text = pci.attribute(name)?;
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let short = |name: &str| number(name).and_then(|number| u16::try_from(number).ok());
    let is_gpu = pci.of_tag("gpu").next().is_some();
    let class = match (number("class"), is_gpu) {
        // As NCCL sets it where it cannot read the class.
        (None | Some(0..=0xff), true) => Some(0x03_0200),
        (class, _) => class.filter(|class| (0x100..=0xff_ffff).contains(class)),
    };
    let vendor = short("vendor").filter(|vendor| *vendor != 0);
    let Some(class) = class else {
        return Fact::Unknown(Why::NotCovered);
    };
    let is_gpu_class = matches!(class >> 8, 0x0300 | 0x0302);
    let vendor = vendor.or((is_gpu_class && !of_amd).then_some(Ids::NVIDIA));
    vendor.map_or(Fact::Unknown(Why::NotCovered), |vendor| {
        Fact::Known(Ids { vendor, device: short("device").filter(|device| *device != 0), class })
    })
}

/// A bus id, which NCCL or a person may have written in capitals.
fn address(text: &str) -> Option<Bdf> {
    text.parse().ok()
}

fn architecture(system: &NcclElement) -> Fact<String> {
    let mut names = system.of_tag("cpu").filter_map(|cpu| cpu.attribute("arch"));
    let name = match names.next() {
        Some("x86_64") => "x86_64",
        Some("arm64") => "aarch64",
        Some("ppc64") => "ppc64le",
        _ => return Fact::Unknown(Why::NotCovered),
    };
    Fact::Known(name.to_owned())
}

/// The CPUs of a mask as the kernel prints it: words of 32 bits, the highest first.
fn mask(text: &str) -> Option<IdList> {
    let mut ids = Vec::new();
    for (word, base) in text.rsplit(',').zip((0..).step_by(32)).take(512) {
        let bits = u32::from_str_radix(word.trim(), 16).ok()?;
        ids.extend((0..32).filter(|bit| bits & 1 << bit != 0).map(|bit| base + bit));
    }
    // An empty set says that NCCL found none.
    (!ids.is_empty()).then(|| IdList::new(ids))
}
