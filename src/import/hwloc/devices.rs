//! OS devices below functions: RDMA devices, NVMe controllers, NVIDIA GPUs.

use std::collections::BTreeMap;

use super::place::Tree;
use super::xml::{Document, Object, ObjectKind, Version};
use crate::model::Order as _;
use crate::model::{Bdf, DriverGpu, Fact, Ids, PciDevice, RdmaDevice, RdmaPort, Why};

struct Os<'a> {
    name: &'a str,
    number: Option<u64>,
    /// The function above it.
    function: Option<Bdf>,
    object: &'a Object,
}

/// The OS devices of a document; empty if it was written without them.
pub struct OsDevices<'a> {
    version: Version,
    all: Vec<Os<'a>>,
}

impl<'a> OsDevices<'a> {
    pub fn of(document: &'a Document, tree: &Tree<'_>) -> Self {
        let all = document.objects.iter().filter_map(|object| match &object.kind {
            ObjectKind::Os { name, number } => Some(Os {
                name,
                number: *number,
                // hwloc moves devices of omitted functions to the bridge above.
                function: object
                    .above
                    .filter(|at| is_function(document, *at))
                    .and_then(|at| tree.function(at)),
                object,
            }),
            _ => None,
        });
        Self { version: document.version, all: all.collect() }
    }

    pub fn rdma(&self, pci: &[PciDevice]) -> Fact<Vec<RdmaDevice>> {
        let gpus = pci.iter().filter(|d| d.ids.known().is_some_and(Ids::is_nvidia_gpu)).count();
        let devices = self.all.iter().filter(|os| self.is_rdma(os)).map(|os| RdmaDevice {
            name: os.name.to_owned(),
            place: match os.function {
                Some(bdf) => Fact::Known(Some(bdf)),
                None => Fact::Unknown(Why::NotCovered),
            },
            parent: match os.function {
                Some(_) => Fact::Known(None),
                None => Fact::Unknown(Why::NotCovered),
            },
            ports: ports(&os.object.infos),
            uverbs: Fact::Unknown(Why::NotCovered),
            // Vital product data would decide, on machines that may have such functions.
            management: if gpus < RdmaDevice::GPUS_OF_A_SWITCHED_SYSTEM {
                Fact::Known(false)
            } else {
                Fact::Unknown(Why::NotCovered)
            },
            physical_function: Fact::Unknown(Why::NotCovered),
            ..RdmaDevice::default()
        });
        let mut devices: Vec<RdmaDevice> = devices.collect();
        devices.order_by_key(|device| RdmaDevice::natural(&device.name));
        self.unless_omitted(devices)
    }

    /// NVMe controllers, from their namespaces.
    pub fn nvme(&self) -> Fact<Vec<(String, Bdf)>> {
        let found = self.all.iter().filter_map(|os| Some((controller(os.name)?, os.function?)));
        let mut found: Vec<(String, Bdf)> = found.collect();
        found.order_by_key(|(name, bdf)| (RdmaDevice::natural(name), *bdf));
        found.dedup();
        self.unless_omitted(found)
    }

    /// The GPUs of the driver, if NVML named them.
    pub fn gpus(&self, pci: &[PciDevice]) -> Fact<BTreeMap<Bdf, DriverGpu>> {
        let info = |os: &Os<'_>, name: &str| {
            let mut infos = os.object.infos.iter();
            infos.find(|(key, _)| key == name).map(|(_, value)| value.clone())
        };
        let named = self.all.iter().filter(|os| os.name.starts_with("nvml")).filter_map(|os| {
            let gpu = DriverGpu {
                model: info(os, "GPUModel"),
                uuid: info(os, "NVIDIAUUID"),
                minor: None,
            };
            Some((os.function?, gpu))
        });
        let named: BTreeMap<Bdf, DriverGpu> = named.collect();
        let mut gpus = pci.iter().filter(|d| d.ids.known().is_some_and(Ids::is_nvidia_gpu));
        if !named.is_empty() && gpus.all(|gpu| named.contains_key(&gpu.bdf)) {
            Fact::Known(named)
        } else {
            // hwloc was built without NVML, or could not use it.
            Fact::Unknown(Why::NotCovered)
        }
    }

    /// Unknown if the document has no OS device at all: hwloc was told to omit them.
    fn unless_omitted<T>(&self, devices: Vec<T>) -> Fact<Vec<T>> {
        if self.all.is_empty() { Fact::Unknown(Why::NotCovered) } else { Fact::Known(devices) }
    }

    /// OpenFabrics: type 3 in hwloc 1 and 2, bit 5 in hwloc 3, which includes Atos' BXI; that is not RDMA.
    fn is_rdma(&self, os: &Os<'_>) -> bool {
        let openfabrics = match self.version {
            Version::Numbers => os.number == Some(3),
            Version::Bits => os.number.is_some_and(|bits| bits & 1 << 5 != 0),
        };
        openfabrics && !os.name.starts_with("bxi")
    }
}

fn is_function(document: &Document, at: usize) -> bool {
    let object = document.objects.get(at);
    object.is_some_and(|object| matches!(object.kind, ObjectKind::Pci { .. }))
}

/// Reads `Port1State`, `Port2State`, … in any order.
fn ports(infos: &[(String, String)]) -> Fact<Vec<RdmaPort>> {
    let states: BTreeMap<u32, &str> = infos
        .iter()
        .filter_map(|(name, value)| {
            let number = name.strip_prefix("Port")?.strip_suffix("State")?;
            Some((number.parse().ok()?, value.as_str()))
        })
        .collect();
    if states.is_empty() {
        return Fact::Unknown(Why::NotCovered);
    }
    let ports = states.into_iter().map(|(number, state)| RdmaPort {
        number,
        state: state_name(state),
        link_layer: Fact::Unknown(Why::NotCovered),
        rate: Fact::Unknown(Why::NotCovered),
        ..RdmaPort::default()
    });
    Fact::Known(ports.collect())
}

/// The name for a number of sysfs `state` (`state_to_str` in Linux's drivers/infiniband/core/sysfs.c).
fn state_name(number: &str) -> Fact<String> {
    let word = match number {
        "0" => "NOP",
        "1" => "DOWN",
        "2" => "INIT",
        "3" => "ARMED",
        "4" => "ACTIVE",
        "5" => "ACTIVE_DEFER",
        _ => return Fact::Unknown(Why::Broken),
    };
    Fact::Known(word.to_owned())
}

/// The controller of a namespace: `nvme0n1`, or `nvme0c2n1` for controller 2 of subsystem 0.
fn controller(name: &str) -> Option<String> {
    let (left, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let number = left.split_once('c').map_or(left, |(_, controller)| controller);
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (plain(namespace) && plain(number)).then(|| format!("nvme{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_gives_controller() {
        for (name, expected) in [
            ("nvme0n1", Some("nvme0")),
            ("nvme12n3", Some("nvme12")),
            ("nvme0c2n1", Some("nvme2")),
            ("nvme0n1p1", None),
            ("nvme0", None),
            ("nvmen1", None),
            ("sda", None),
        ] {
            assert_eq!(controller(name).as_deref(), expected, "{name}");
        }
    }
}
