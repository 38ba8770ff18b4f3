//! The virtual machines.

use anyhow::{Context, Result};

use super::fakes::{self, Fakes};
use super::hardware::{HostBridge, Part, Slot};

/// A virtual machine, or several on one network.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// Description in one sentence.
    pub description: &'static str,
    /// IOMMU, and whether the kernel uses it.
    pub iommu: Iommu,
    /// NUMA nodes, each with two CPUs.
    pub nodes: u8,
    /// Root complexes besides q35's own.
    pub bridges: &'static [HostBridge],
    /// Adds a Soft-RoCE device `rxe0` on a virtio network card at 10.0.0.N.
    pub soft_roce: bool,
    /// Fake kernel modules that can be loaded.
    pub fakes: &'static [Fakes],
    /// Adds an ivshmem device, whose BAR the fake gdrdrv can use.
    pub window: bool,
    /// Boots systemd from its disk, instead of only running a script.
    pub systemd: bool,
    /// Number of guests that run the script concurrently on one network.
    pub guests: u8,
}

/// IOMMU of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iommu {
    /// None.
    Absent,
    /// Present, but disabled in the kernel.
    Off,
    /// Translating, which enables ACS.
    On,
}

impl Machine {
    /// The label of results from this machine.
    pub fn simulated(&self) -> &'static str {
        if self.bridges.is_empty() { "vm" } else { "vm-lookalike" }
    }
}

pub const MACHINES: &[Machine] = &[PLAIN, IOMMU_ON, IOMMU_OFF, RXE, TWO_GUESTS, GDRDRV, SYSTEMD];

pub fn named(name: &str) -> Result<&'static Machine> {
    MACHINES.iter().find(|machine| machine.name == name).with_context(|| {
        let names: Vec<_> = MACHINES.iter().map(|machine| machine.name).collect();
        format!("no machine is called {name:?}; there are {}", names.join(", "))
    })
}

const PLAIN: Machine = Machine {
    name: "plain",
    description: "one node, no IOMMU, nothing of interest",
    iommu: Iommu::Absent,
    nodes: 1,
    bridges: &[],
    soft_roce: false,
    fakes: &[],
    window: false,
    systemd: false,
    guests: 1,
};

const IOMMU_ON: Machine = Machine {
    name: "iommu-on",
    description: "translating IOMMU, ACS on; two nodes: a switch with two GPU and one NIC look-alike on node 0, \
                  a GPU and a NIC look-alike at root ports of node 1",
    iommu: Iommu::On,
    nodes: 2,
    bridges: TWO_SOCKETS,
    soft_roce: false,
    fakes: &[],
    window: false,
    systemd: false,
    guests: 1,
};

const SYSTEMD: Machine = Machine {
    name: "systemd",
    description: "the hardware and look-alikes of iommu-on under Debian with systemd, on a disk that outlives the run; \
                  fakes of nvidia, nvidia-peermem and gdrdrv to load",
    fakes: &[fakes::NAMES],
    systemd: true,
    ..IOMMU_ON
};

const IOMMU_OFF: Machine = Machine {
    name: "iommu-off",
    description: "the hardware and look-alikes of iommu-on with intel_iommu=off, ACS off",
    iommu: Iommu::Off,
    ..IOMMU_ON
};

const RXE: Machine = Machine {
    name: "rxe",
    description: "one node with Soft-RoCE: rxe0 on a virtio network card at 10.0.0.1",
    soft_roce: true,
    ..PLAIN
};

const TWO_GUESTS: Machine = Machine {
    name: "two-guests",
    description: "two machines like rxe, 10.0.0.1 and 10.0.0.2 on one cable; both run the script (GDR_GUEST=1, 2)",
    guests: 2,
    ..RXE
};

const GDRDRV: Machine = Machine {
    name: "gdrdrv",
    description: "plain with a fake gdrdrv driver (`. /lib/gdrdrv.sh; gdrdrv_load`) and an ivshmem device",
    fakes: &[fakes::GDRDRV],
    window: true,
    ..PLAIN
};

const TWO_SOCKETS: &[HostBridge] = &[
    HostBridge { bus: 0x40, node: 0, slots: &[port(0, &[slot(0, Part::Upstream, SWITCH)])] },
    HostBridge {
        bus: 0x80,
        node: 1,
        slots: &[port(0, &[end(Part::Gpu)]), port(1, &[end(Part::Nic("mlx5_1"))])],
    },
];

const SWITCH: &[Slot] =
    &[port(0, &[end(Part::Gpu)]), port(1, &[end(Part::Nic("mlx5_0"))]), port(2, &[end(Part::Gpu)])];

const fn slot(device: u8, part: Part, below: &'static [Slot]) -> Slot {
    Slot { device, part, below }
}

const fn port(device: u8, below: &'static [Slot]) -> Slot {
    slot(device, Part::Port, below)
}

const fn end(part: Part) -> Slot {
    slot(0, part, &[])
}

#[cfg(test)]
mod tests {
    use super::{MACHINES, named};

    #[test]
    fn machine_names_and_labels() {
        for machine in MACHINES {
            assert_eq!(named(machine.name).unwrap().description, machine.description);
            let lookalike = machine.simulated() == "vm-lookalike";
            assert_eq!(machine.description.contains("look-alike"), lookalike, "{}", machine.name);
        }
        assert!(named("nonesuch").unwrap_err().to_string().contains("iommu-on"));
    }
}
