//! The topology in NCCL's words: the elements that NCCL reads by NCCL_TOPO_FILE.
//!
//! Rules and attributes are those of NCCL 2.18 to 2.30 (src/graph/xml.cc: `ncclTopoGetXmlFromSys`, `ncclTopoGetXmlFromGpu`; NCCL keeps an
//! attribute of the file and fills in a missing one from sysfs, NVML or its network plugin). An unknown fact is left out.

mod attributes;
mod nvlink;

use std::collections::BTreeMap;

use super::Topology;
use crate::model::{Bdf, Fact, Kind, NcclElement, PciDevice, Row};

/// NCCL's limit on elements of a machine (`NCCL_TOPO_XML_MAX_NODES`).
const MAX_ELEMENTS: usize = 256;
/// NCCL stores shorter values only (`MAX_STR_LEN`).
const LONGEST: usize = 254;

/// NCCL's topology of a machine.
pub struct NcclSystem {
    /// The element `system`.
    pub root: NcclElement,
    /// What is left out because it is unknown, and what NCCL does then; one sentence each.
    pub omitted: Vec<String>,
}

/// Describes a machine to NCCL. The elements of a file of NCCL are kept as they are.
pub fn nccl_system(topology: &Topology<'_>) -> NcclSystem {
    let mut writer = Writer { topology, omitted: Omitted::default() };
    let mut root = match &topology.facts.nccl {
        Some(file) => reused(file),
        None => writer.system(),
    };
    root.attributes.retain(|(name, _)| name != "version");
    root.attributes.insert(0, ("version".to_owned(), "1".to_owned()));
    let mut omitted = writer.omitted.sentences();
    let elements = count(&root);
    if elements > MAX_ELEMENTS {
        omitted.push(format!(
            "the topology has {elements} elements, and NCCL reads at most {MAX_ELEMENTS}: it will reject the file"
        ));
    }
    NcclSystem { root, omitted }
}

/// The elements of a file without the host's identity, which NCCL sets at each start.
fn reused(file: &NcclElement) -> NcclElement {
    let attributes = file.attributes.iter().filter(|(name, _)| name != "host_hash");
    NcclElement {
        tag: file.tag.clone(),
        attributes: attributes.cloned().collect(),
        children: file.children.iter().map(reused).collect(),
    }
}

fn count(element: &NcclElement) -> usize {
    1 + element.children.iter().map(count).sum::<usize>()
}

/// What is unknown, by device.
#[derive(Default)]
struct Omitted {
    places: Vec<String>,
    nodes: Vec<String>,
    links: Vec<String>,
    nvlinks: Vec<String>,
    ports: Vec<String>,
}

impl Omitted {
    fn sentences(self) -> Vec<String> {
        let kinds = [
            (self.places, "the places in the PCI tree", "these devices are not in the file"),
            (
                self.nodes,
                "the NUMA nodes",
                "the file has them below node -1, so that NCCL takes their pairs for PHB",
            ),
            (
                self.links,
                "the links",
                "NCCL reads them from sysfs, and assumes 8 GT/s and 16 lanes where it finds none",
            ),
            (self.nvlinks, "the NVLinks", "NCCL asks NVML"),
            (self.ports, "the ports", "NCCL asks its network plugin"),
        ];
        let stated = kinds.into_iter().filter(|(devices, ..)| !devices.is_empty());
        stated
            .map(|(devices, what, then)| format!("unknown: {what} of {}; {then}", list(&devices)))
            .collect()
    }
}

/// Names, as many as fit into a message.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// The functions below one element, by address, which is also NCCL's order.
#[derive(Default)]
struct Branch {
    below: BTreeMap<Bdf, Branch>,
    gpu: Option<NcclElement>,
    nets: Vec<NcclElement>,
}

struct Writer<'a> {
    topology: &'a Topology<'a>,
    omitted: Omitted,
}

impl Writer<'_> {
    fn system(&mut self) -> NcclElement {
        let mut nodes: BTreeMap<i64, Branch> = BTreeMap::new();
        let rows = self.topology.rows.iter().filter(|row| !row.software);
        for row in rows.filter(|row| row.kind != Kind::Nvme) {
            self.row(row, &mut nodes);
        }
        let mut system = NcclElement::new("system");
        for (node, branch) in nodes {
            let mut cpu = NcclElement::new("cpu");
            cpu.attributes = attributes::cpu(self.topology.facts, node);
            cpu.children = self.functions(branch.below);
            system.children.push(cpu);
        }
        system
    }

    fn row(&mut self, row: &Row, nodes: &mut BTreeMap<i64, Branch>) {
        let name = format!("{} ({})", row.name, self.address(row));
        let device = row.bdf.and_then(|bdf| self.topology.facts.device(bdf));
        let Some(path) = device.and_then(|device| self.path(row, device)) else {
            self.omitted.places.push(name);
            return;
        };
        let outermost = path.first().and_then(|bdf| self.topology.facts.device(*bdf));
        let numa = outermost.map(|device| &device.numa_node);
        let node = match numa {
            Some(Fact::Known(node)) => node.map_or(-1, i64::from),
            _ => {
                self.omitted.nodes.push(name.clone());
                -1
            }
        };
        let mut branch = nodes.entry(node).or_default();
        for bdf in path {
            branch = branch.below.entry(bdf).or_default();
        }
        match row.kind {
            Kind::Gpu => match nvlink::gpu(self.topology.facts, row) {
                Ok(gpu) => branch.gpu = gpu,
                Err(gpu) => {
                    self.omitted.nvlinks.push(name);
                    branch.gpu = Some(gpu);
                }
            },
            Kind::Nic | Kind::Nvme => match attributes::net(self.topology.facts, row) {
                Ok(net) => branch.nets.extend(net),
                Err(()) => self.omitted.ports.push(name),
            },
        }
    }

    fn address(&self, row: &Row) -> String {
        row.bdf.map_or_else(|| row.label.clone(), |bdf| bdf.to_string())
    }

    /// The functions from the CPU to a row's own, as NCCL finds them: it goes up the tree by two functions at a time, so that a switch is its
    /// upstream port, and root ports and downstream ports are left out.
    fn path(&self, row: &Row, device: &PciDevice) -> Option<Vec<Bdf>> {
        let place = device.place.known().filter(|place| place.rooted)?;
        let above = place.bridges.iter().rev().skip(1).step_by(2);
        let mut path: Vec<Bdf> = above.copied().collect();
        path.reverse();
        path.push(if row.kind == Kind::Nic {
            self.first_function(row, device)
        } else {
            device.bdf
        });
        Some(path)
    }

    /// NCCL merges the functions of a NIC into the first one, also virtual functions (src/transport/net_ib.cc, `ncclIbGetPciPath`).
    fn first_function(&self, row: &Row, device: &PciDevice) -> Bdf {
        let own = Bdf { function: 0, ..device.bdf };
        let physical = Bdf { device: 0, ..own };
        let is_there = |bdf: &Bdf| {
            self.topology.facts.device(*bdf).is_some_and(|first| {
                first.place == device.place
                    && first.ids.known().is_some_and(|ids| ids.base_class() == 0x02)
            })
        };
        let of_virtual = row.virtual_function.is_some().then_some(physical);
        let mut first = of_virtual.into_iter().chain([own]);
        first.find(is_there).unwrap_or(device.bdf)
    }

    fn functions(&mut self, below: BTreeMap<Bdf, Branch>) -> Vec<NcclElement> {
        let mut elements = Vec::new();
        for (bdf, branch) in below {
            let mut pci = NcclElement::new("pci");
            match attributes::pci(self.topology, bdf) {
                Ok(all) => pci.attributes = all,
                Err(known) => {
                    pci.attributes = known;
                    self.omitted.links.push(bdf.to_string());
                }
            }
            pci.children.extend(branch.gpu);
            if !branch.nets.is_empty() {
                let mut nic = NcclElement::new("nic");
                nic.children = branch.nets;
                pci.children.push(nic);
            }
            pci.children.extend(self.functions(branch.below));
            elements.push(pci);
        }
        elements
    }
}
