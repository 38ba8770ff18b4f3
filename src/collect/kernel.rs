//! The kernel: release, command line, modules, character devices, IOMMU groups, NUMA nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::pci::MAX_FUNCTIONS;
use super::read::{self, malformed};
use crate::model::Order as _;
use crate::model::{
    Cma, Fact, IdList, IommuMember, Kernel, Module, Note, NumaNode, PciDevice, Why,
};
use crate::world::Files;

const MODULES: &str = "/proc/modules";
const DEVICES: &str = "/proc/devices";
/// CONFIG_NODES_SHIFT's maximum.
const MAX_NODES: usize = 1_024;

pub fn kernel(files: &dyn Files, pci: &Fact<Vec<PciDevice>>, notes: &mut Vec<Note>) -> Kernel {
    let iommu_groups: BTreeMap<u32, Fact<String>> = groups(pci)
        .into_iter()
        .map(|group| {
            let path = format!("/sys/kernel/iommu_groups/{group}/type");
            (group, read::text(files, &path, notes))
        })
        .collect();
    let mut left = MAX_FUNCTIONS;
    let translating = iommu_groups
        .iter()
        .filter(|(_, kind)| kind.known().is_some_and(|kind| kind.starts_with("DMA")));
    Kernel {
        iommu_members: translating
            .map(|(group, _)| (*group, members(files, *group, &mut left)))
            .collect(),
        iommu_groups,
        release: read::text(files, "/proc/sys/kernel/osrelease", notes),
        command_line: read::text(files, "/proc/cmdline", notes),
        modules: read::kept(files, MODULES, without_addresses, notes).map(|text| modules(&text)),
        char_devices: read::lines(files, DEVICES, notes).map(|text| char_devices(&text)),
        iommus: match files.list(Path::new("/sys/class/iommu")) {
            Ok(names) => Fact::Known(names),
            Err(error) if error.is_absent() => {
                read::absent::<()>(files, "/sys/class/iommu").map(|_| Vec::new())
            }
            Err(error) => Fact::Unknown(error.why()),
        },
        cma: read::kept(files, "/proc/meminfo", of_cma, notes).map(|text| cma(&text)),
    }
}

/// The lines of the contiguous memory allocator; the others change constantly.
fn of_cma(meminfo: &str) -> String {
    let is_relevant = |line: &&str| line.starts_with("Cma");
    meminfo.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

/// `CmaTotal:  65536 kB`.
fn cma(lines: &str) -> Option<Cma> {
    let bytes = |key: &str| {
        let line = lines.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let number: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        number.checked_mul(1024)
    };
    Some(Cma { total: bytes("CmaTotal")?, free: bytes("CmaFree")? })
}

fn groups(pci: &Fact<Vec<PciDevice>>) -> BTreeSet<u32> {
    pci.known()
        .into_iter()
        .flatten()
        .filter_map(|device| device.attributes.as_ref()?.iommu_group.present().copied())
        .collect()
}

/// A group's functions and their drivers. Missing in older snapshots, without a note.
fn members(files: &dyn Files, group: u32, left: &mut usize) -> Fact<Vec<IommuMember>> {
    let directory = format!("/sys/kernel/iommu_groups/{group}/devices");
    let names = match files.list(Path::new(&directory)) {
        Ok(names) => names,
        Err(error) => return Fact::Unknown(error.why()),
    };
    // Each function is in one group.
    match left.checked_sub(names.len()) {
        Some(rest) => *left = rest,
        None => return Fact::Unknown(Why::Broken),
    }
    let member = |name: String| IommuMember {
        driver: read::link_name(files, &format!("{directory}/{name}/driver"), &mut Vec::new()),
        name,
    };
    Fact::Known(names.into_iter().map(member).collect())
}

/// Drops module addresses, which only root may see.
fn without_addresses(text: &str) -> String {
    let line =
        |line: &str| line.split_ascii_whitespace().take(5).collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(line).collect()
}

fn modules(text: &str) -> Vec<Module> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let name = fields.next()?.replace('-', "_");
            let users = fields.nth(2).unwrap_or("-");
            Some(Module {
                name,
                users: users
                    .split(',')
                    .filter(|user| !user.is_empty() && *user != "-")
                    .map(str::to_owned)
                    .collect(),
            })
        })
        .collect()
}

fn char_devices(text: &str) -> BTreeMap<String, Vec<u32>> {
    let mut devices: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let lines = text.lines().skip_while(|line| !line.starts_with("Character devices"));
    for line in lines.take_while(|line| !line.starts_with("Block devices")) {
        if let Some((major, name)) = line.trim().split_once(' ')
            && let Ok(major) = major.parse()
        {
            devices.entry(name.trim().to_owned()).or_default().push(major);
        }
    }
    devices
}

pub fn online_cpus(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<IdList> {
    read::value(files, "/sys/devices/system/cpu/online", notes)
}

/// Online NUMA nodes; `None` if the kernel has no NUMA support.
pub fn numa(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<NumaNode>> {
    let directory = "/sys/devices/system/node";
    read::names(files, directory, notes).and_then(|names| {
        let mut nodes = Vec::new();
        let ids = names.iter().flatten();
        let ids: Vec<u32> =
            ids.filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
        if ids.len() > MAX_NODES {
            return malformed(notes, directory, format!("more than {MAX_NODES} NUMA nodes"));
        }
        for id in ids {
            match read::value(files, &format!("{directory}/node{id}/cpulist"), notes) {
                Fact::Known(cpus) => nodes.push(NumaNode { id, cpus }),
                Fact::Unknown(why) => return Fact::Unknown(why),
            }
        }
        nodes.order_by_key(|node| node.id);
        Fact::Known(nodes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_modules_and_their_users() {
        let text = "ib_core 1 2 nvidia_peermem,mlx5_ib, Live 0x0\nnvidia 14299136 - - Live 0xffffffffc0400000 (O)\n";
        let kept = without_addresses(text);
        assert!(!kept.contains("ffffffff") && without_addresses(&kept) == kept, "{kept}");
        let modules = modules(&kept);
        assert_eq!(modules[0].users, ["nvidia_peermem", "mlx5_ib"]);
        assert!(modules[1].users.is_empty());
    }

    #[test]
    fn keeps_cma_lines() {
        let kept = of_cma(
            "MemTotal: 100 kB\nCmaTotal:         65536 kB\nCmaFree:          1024 kB\nDirectMap4k: 1 kB\n",
        );
        assert_eq!(kept, "CmaTotal:         65536 kB\nCmaFree:          1024 kB\n");
        assert_eq!(cma(&kept), Some(Cma { total: 64 << 20, free: 1 << 20 }));
        assert_eq!(cma(""), None);
    }

    #[test]
    fn reads_several_majors_and_no_block_devices() {
        let text = "Character devices:\n  1 mem\n231 infiniband_verbs\n244 infiniband_verbs\n\nBlock devices:\n  7 loop\n";
        let devices = char_devices(text);
        assert_eq!(devices.get("infiniband_verbs"), Some(&vec![231, 244]));
        assert!(!devices.contains_key("loop"));
    }
}
