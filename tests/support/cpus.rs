//! What hwloc wants of a laid-out root beyond what gdr reads: each CPU's place, and masks beside the lists.

use std::path::Path;

use super::files::Root;
use super::layout::{list, numbers};
use super::machine::Machine;

/// Writes them below `dir`, where the machine was laid out. One package for each node that has CPUs, one CPU a core.
pub fn lay_out(machine: &Machine, dir: &Path) {
    let root = Root::new(dir);
    for (node, cpus) in &machine.nodes {
        let members = numbers(cpus);
        root.line(&format!("sys/devices/system/node/node{node}/cpumap"), mask(&members));
        for cpu in &members {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            root.line(&format!("{topology}/core_id"), cpu);
            root.line(&format!("{topology}/physical_package_id"), node);
            root.line(&format!("{topology}/core_cpus"), mask(&[*cpu]));
            root.line(&format!("{topology}/package_cpus"), mask(&members));
        }
    }
    for device in &machine.devices {
        // A recorded machine says no device's CPUs; a kernel would, from its node.
        let node = device.numa.and_then(|node| machine.nodes.get(&u32::try_from(node).ok()?));
        let cpus = machine.local_cpus(device).or_else(|| node.cloned());
        let path = format!("{}/local_cpus", machine.place(device));
        root.line(&path, mask(&numbers(&cpus.unwrap_or_else(|| machine.all_cpus()))));
    }
    for device in &machine.devices {
        if let Some(name) = &device.nvme {
            let block = format!("{}/nvme/{name}/{name}n1", machine.place(device));
            root.line(&format!("{block}/size"), 1 << 21);
            root.link(&format!("sys/class/block/{name}n1"), &block);
        }
    }
}

/// A set as the kernel's `%*pb` prints it: words of 32 bits, the highest first.
pub fn mask(members: &[u32]) -> String {
    let words = members.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |at: u32| {
        let own = members.iter().filter(|member| *member / 32 == at);
        own.fold(0_u32, |bits, member| bits | 1 << (member % 32))
    };
    let words: Vec<String> = (0..words).rev().map(|at| format!("{:08x}", word(at))).collect();
    words.join(",")
}
