//! The tree that NCCL prints (`=== System …`): addresses of GPUs and NICs, and their NUMA nodes. NCCL leaves out bridges, so it shows no paths.

use std::collections::BTreeMap;

use crate::import::support::{Class, Recording};
use crate::model::Bdf;

/// The functions of a tree.
#[derive(Default)]
pub struct Tree {
    /// NICs, and whether one has RDMA.
    nics: BTreeMap<Bdf, bool>,
    nodes: BTreeMap<Bdf, u32>,
    /// The CPU above the next lines.
    node: Option<u32>,
    /// The NIC above the next lines, and how far it is indented.
    nic: Option<(usize, Bdf)>,
}

impl Tree {
    /// Reads a message: `CPU/0-1 (1/2/-1)`, `+ PCI[24.0] - NIC/0-67000`, `+ NET[25.0] - NET/0-1 (0/d4f9fc0003ae6d94/1/25.0)`.
    pub fn add(&mut self, message: &str) {
        let words = message.trim_start();
        let indent = message.len() - words.len();
        let Some(rest) = words.strip_prefix("+ ") else {
            // NCCL prints a CPU for each NUMA node, with −1 on a machine without nodes.
            if let Some(id) = words.strip_prefix("CPU/") {
                let id = of_system(id.split([' ', ':']).next().unwrap_or_default());
                let node = id.and_then(|id| u32::from_str_radix(id, 16).ok());
                self.node = node.filter(|node| *node < MAX_NODES);
            }
            return;
        };
        let Some((_, node)) = rest.split_once("] - ") else { return };
        let (name, values) = node.split_once(' ').unwrap_or((node, ""));
        let Some((kind, id)) = name.split_once('/') else { return };
        if self.nic.is_some_and(|(of_nic, _)| indent <= of_nic) {
            self.nic = None;
        }
        let place = || of_system(id).filter(|id| id.len() >= SHORTEST).and_then(address);
        match kind {
            "GPU" | "NIC" => {
                let Some(bdf) = place() else { return };
                self.nodes.extend(self.node.map(|node| (bdf, node)));
                if kind == "NIC" && self.nics.len() < MAX_NICS {
                    self.nics.entry(bdf).or_default();
                    self.nic = Some((indent, bdf));
                }
            }
            "NET" if has_guid(values) => {
                if let Some((_, bdf)) = self.nic {
                    self.nics.insert(bdf, true);
                }
            }
            _ => {}
        }
    }

    /// Adds the NICs, and the nodes of all functions, whose GPUs are recorded.
    pub fn record(self, recording: &mut Recording) {
        for (bdf, has_rdma) in self.nics {
            recording.controller(bdf, has_rdma);
        }
        for (bdf, node) in self.nodes {
            recording.function_node(bdf, node);
        }
    }
}

const MAX_NODES: u32 = 1024;
const MAX_NICS: usize = 1024;

/// Digits of an address below the first bus.
const SHORTEST: usize = 4;

/// The identifier without the number of the system; `None` for another system than this one.
fn of_system(id: &str) -> Option<&str> {
    match id.split_once('-') {
        Some((system, id)) => Some(id).filter(|_| system == "0"),
        None => Some(id),
    }
}

/// True if the values of a network have the GUID of an RDMA device: `(d4f9fc0003ae6d94/1/25.0)`, in newer versions behind a number. Sockets
/// have small numbers there.
fn has_guid(values: &str) -> bool {
    let values: Vec<&str> = values.trim_matches(['(', ')']).split('/').collect();
    let guid = match values.as_slice() {
        [guid, _, _] | [_, guid, _, _] => u64::from_str_radix(guid, 16).ok(),
        _ => None,
    };
    guid.is_some_and(|guid| guid > 0xffff_ffff)
}

/// The device and its address in `NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 … pciPath=/sys/devices/pci0000:15/…/0000:1a:00.0 ar=1`.
pub fn of_path(message: &str, class: &mut Class) {
    let Some((head, path)) = message.split_once(" pciPath=") else { return };
    let Some((_, name)) = head.split_once("NET/IB: [").and_then(|(_, rest)| rest.split_once("] "))
    else {
        return;
    };
    let name = name.split(':').next().unwrap_or_default();
    let path = path.split(' ').next().unwrap_or_default();
    let bdf = path.rsplit('/').next().and_then(|bdf| bdf.parse().ok());
    if let Some((device, bdf)) = class.device(name).zip(bdf) {
        class.links.push((device, bdf));
    }
}

/// NCCL prints an address as a number without its separators: `17000` is 0000:17:00.0.
pub fn address(hex: &str) -> Option<Bdf> {
    let number = u64::from_str_radix(hex, 16).ok()?;
    let (domain, bus) = (number >> 20, number >> 12 & 0xff);
    let (device, function) = (number >> 4 & 0xff, number & 0xf);
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{SupportReport, text};
    use crate::model::Facts;

    fn facts(lines: &[&str]) -> Facts {
        let line = |line: &&str| format!("node1:100:120 [0] NCCL INFO {line}\n");
        let log: String = lines.iter().map(line).collect();
        let report = text(log.as_bytes(), SupportReport::default()).expect("a machine");
        let mut facts = Facts::default();
        report.add_listed(&mut facts);
        facts
    }

    #[test]
    fn the_tree_shows_functions_and_their_nodes() {
        let new = facts(&[
            "CPU/0-1 (1/1/2)",
            "+ SYS[10.0] - CPU/0-0",
            "+ PCI[24.0] - PCI/0-15000 (1000c01015d9ffff)",
            "              + PCI[24.0] - NIC/0-16000",
            "                            + NET[25.0] - NET/0-0 (0/a088c20003123456/1/25.000000)",
            "              + PCI[24.0] - GPU/0-1a000 (0)",
            "                            + NVL[240.0] - NVS/0-0",
            "+ PCI[12.0] - NIC/0-45000",
            "              + NET[1.2] - NET/0-1 (0/0/0/1.250000)",
        ]);
        let gpus: Vec<String> = new.gpus().map(|gpu| gpu.bdf.to_string()).collect();
        assert_eq!(gpus, ["0000:1a:00.0"]);
        let nics: Vec<String> = new.unnamed_nics.iter().map(ToString::to_string).collect();
        assert_eq!(nics, ["0000:16:00.0"]);
        let gpu = new.gpus().next().expect("a GPU");
        assert_eq!(gpu.numa_node.present(), Some(&1));
        let old = facts(&[
            "CPU/FFFFFFFFFFFFFFFF (1/1/2)",
            "+ PCI[24.0] - GPU/1a000 (0)",
            "+ PCI[24.0] - NIC/16000",
            "              + NET[25.0] - NET/0 (a088c20003123456/1/25.000000)",
        ]);
        assert_eq!(old.unnamed_nics.len(), 1);
        assert_eq!(old.gpus().next().expect("a GPU").numa_node.present(), None);
    }

    #[test]
    fn paths_of_devices() {
        let facts = facts(&[
            "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x1 pciPath=/sys/devices/pci0000:15/0000:15:01.0/0000:1a:00.0 ar=1",
        ]);
        assert!(facts.unnamed_nics.is_empty());
        let mut class = Class::default();
        of_path(
            "NET/IB: [1] mlx5_1:uverbs1:1/RoCE provider=Mlx5 pciPath=/sys/a/0000:2a:00.0 ar=0",
            &mut class,
        );
        assert_eq!(class.links.len(), 1);
    }
}
