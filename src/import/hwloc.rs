//! XML of hwloc 1, 2 and 3 (`lstopo --of xml`) → Facts.
//!
//! It has ids, the bridge tree, the processors near each host bridge and the OS devices, but no
//! configuration space: links, ACS and IOMMU groups are unknown. Resources that a container may not use
//! are recognised; a topology edited by `lstopo --restrict` describes another machine.

mod devices;
mod near;
mod place;
mod sets;
mod xml;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::ImportError;
use super::limits::{FUNCTIONS, at_most};
use crate::model::Order as _;
use crate::model::{Attributes, Config, Driver, Fact, Facts, Host, Ids, PciDevice, Platform, Why};
use devices::OsDevices;
use near::Nodes;
use place::Tree;
use xml::{Document, Locality, ObjectKind};

/// Detects hwloc's XML: the root element is `topology`.
pub fn is_format(bytes: &[u8]) -> bool {
    super::xml::root(bytes).is_some_and(|root| root == "topology")
}

pub fn facts(bytes: &[u8]) -> Result<Facts, ImportError> {
    let document = xml::read(bytes)?;
    let tree = Tree::new(&document);
    let nodes = Nodes::of(&document)?;
    let pci = functions(&document, &tree, &nodes)?;
    let os = OsDevices::of(&document, &tree);
    let rdma = match os.rdma(&pci) {
        // Every such machine has a network function, so this document was written without them.
        Fact::Known(devices) if devices.is_empty() && !pci.iter().any(is_network) => {
            Fact::Unknown(Why::NotCovered)
        }
        rdma => rdma,
    };
    let unnamed_nics = match rdma {
        Fact::Known(_) => Vec::new(),
        Fact::Unknown(_) => super::nics(&pci),
    };
    Ok(Facts {
        host: host(&document),
        numa: nodes.all,
        nvme: os.nvme(),
        driver: Driver { gpus: os.gpus(&pci), ..Driver::default() },
        platform: platform(&document, &pci),
        pci: if pci.is_empty() {
            // Every machine has PCI devices, so this document was written without them.
            Fact::Unknown(Why::NotCovered)
        } else {
            Fact::Known(pci)
        },
        rdma,
        unnamed_nics,
        ..Facts::default()
    })
}

fn functions(
    document: &Document,
    tree: &Tree<'_>,
    nodes: &Nodes,
) -> Result<Vec<PciDevice>, ImportError> {
    let mut found = Vec::new();
    // Thousands of functions may be near one part.
    let mut near: BTreeMap<*const Locality, Fact<Option<u32>>> = BTreeMap::new();
    for (at, object) in document.objects.iter().enumerate() {
        let (Some(bdf), ObjectKind::Bridge { pci, .. } | ObjectKind::Pci { pci, .. }) =
            (tree.function(at), &object.kind)
        else {
            continue;
        };
        at_most(FUNCTIONS, found.len() + 1, "PCI functions")?;
        let numa_node = if tree.is_near_its_processors(at) {
            near.entry(Rc::as_ptr(&object.near)).or_insert_with(|| nodes.near(&object.near)).clone()
        } else {
            Fact::Unknown(Why::NotCovered)
        };
        let ids = ids(pci);
        let local_cpus = match (&numa_node, &object.near.cpus) {
            // CPUs that a container may not use are left out; an empty set is not the device's.
            (Fact::Known(_), Some(cpus)) if !cpus.is_empty() => Fact::Known(cpus.clone()),
            _ => Fact::Unknown(Why::NotCovered),
        };
        found.push(PciDevice {
            bdf,
            place: Fact::Known(tree.place(at, bdf)),
            attributes: is_of_interest(&ids)
                .then(|| Box::new(Attributes { local_cpus, ..Attributes::default() })),
            ids,
            numa_node,
            config: Config::default(),
        });
    }
    found.order_by_key(|device| device.bdf);
    match found.windows(2).find(|pair| pair[0].bdf == pair[1].bdf) {
        Some(twice) => Err(ImportError::Malformed(format!(
            "hwloc's XML lists the PCI function {} twice",
            twice[0].bdf
        ))),
        None => Ok(found),
    }
}

/// Whether a function may be a topology row: display, network, NVMe.
fn is_of_interest(ids: &Fact<Ids>) -> bool {
    let ids = ids.known();
    ids.is_some_and(|ids| matches!(ids.base_class(), 0x02 | 0x03) || ids.is_nvme())
}

/// Ethernet and InfiniBand controllers; before ConnectX, InfiniBand was a serial bus.
fn is_network(device: &PciDevice) -> bool {
    let ids = device.ids.known();
    ids.is_some_and(|ids| ids.base_class() == 0x02 || ids.class_and_subclass() == 0x0c06)
}

/// Parses `0302 [10de:2331] [10de:1626] a1`; hwloc 3 appends the programming interface. hwloc writes all
/// zeros if it could not read them.
fn ids(text: &str) -> Fact<Ids> {
    let parse = || {
        let mut words = text.split(' ');
        let class = u32::from_str_radix(words.next()?, 16).ok().filter(|class| *class <= 0xffff)?;
        let (vendor, device) =
            words.next()?.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
        let interface = words.nth(2).and_then(|text| u8::from_str_radix(text, 16).ok());
        let (vendor, device) =
            (u16::from_str_radix(vendor, 16).ok()?, u16::from_str_radix(device, 16).ok()?);
        (vendor != 0).then_some(Ids {
            vendor,
            device: Some(device),
            class: class << 8 | u32::from(interface.unwrap_or(0)),
        })
    };
    parse().map_or(Fact::Unknown(Why::NotCovered), Fact::Known)
}

fn platform(document: &Document, pci: &[PciDevice]) -> Platform {
    let info = |name: &str| match document.info(name) {
        Some(text) => Fact::Known(Some(text)),
        None => Fact::Unknown(Why::NotCovered),
    };
    Platform {
        architecture: match document.info("Architecture").as_deref() {
            Some(name @ ("x86_64" | "aarch64" | "ppc64le")) => Fact::Known(name.to_owned()),
            _ => Fact::Unknown(Why::NotCovered),
        },
        dmi_vendor: info("DMISysVendor"),
        dmi_product: info("DMIProductName"),
        paravirtual_devices: super::paravirtual_devices(pci),
        ..Platform::default()
    }
}

fn host(document: &Document) -> Host {
    let linux = document.info("OSName").is_some_and(|name| name == "Linux");
    Host {
        name: document.info("HostName"),
        kernel: document.info("OSRelease").filter(|_| linux),
        cpu: document.info("CPUModel"),
        ..Host::default()
    }
}
