//! rdma.modules: every RDMA device has a verbs node, and every NVIDIA NIC is an RDMA device.

use super::{CLASS, nvidia_nics, rdma_module};
use crate::check::{Check, Ctx, Hint, Judgement, unknown_if, words};
use crate::model::{ActionClass, Area, Fact, FasterPath, Severity};

const VERBS: &str = "/sys/class/infiniband_verbs";

pub const CHECK: Check = Check {
    id: "rdma.modules",
    rule: "Each RDMA device has its verbs node, and each NVIDIA NIC its RDMA device.",
    sources: "/sys/class/infiniband, /sys/class/infiniband_verbs, /dev/infiniband, PCI functions",
    severity: Severity::Warn,
    why: "Programs open a NIC through /dev/infiniband/uverbsN, which ib_uverbs creates. \
        Without it libibverbs lists no device, even if /sys has one.",
    remedy: "Load ib_uverbs, and mlx5_ib for NVIDIA NICs; rdma_ucm only for programs that use the \
        connection manager. rdma-core's udev rules do so at boot.",
    action: ActionClass::Configure.running("https://docs.kernel.org/infiniband/user_verbs.html"),
    references: &["https://docs.kernel.org/infiniband/user_verbs.html"],
    explained_by: &["rdma.mixed-stack"],
    hint: Some(Hint {
        cause: "A kernel module of the RDMA stack is not loaded.",
        words: "rdma-device=4 kernel-module=3 missing=2 rdma=2 no-device=1 mixed-stack=1 peermem=-3",
    }),
    closes: Some(FasterPath::Rdma),
    judge: modules,
    ..Check::DEFAULT
};

/// Judges the modules by the devices and nodes that they create.
fn modules(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.rdma, "machine", Area::Sys, CLASS) {
        return vec![unknown];
    }
    let devices = ctx.facts.rdma.known().into_iter().flatten();
    let mut without_node = Vec::new();
    for device in devices.clone() {
        match &device.uverbs {
            Fact::Known(Some(_)) => {}
            Fact::Known(None) => without_node.push(device.name.as_str()),
            Fact::Unknown(why) => {
                return vec![Judgement::unknown("machine", *why, Area::Sys, VERBS)];
            }
        }
    }
    if !without_node.is_empty() {
        let list = words::list(&without_node);
        let judgement = if without_node.len() == devices.count() {
            Judgement::broken(
                "machine",
                format!("There is no verbs node for {list}: ib_uverbs is not loaded."),
            )
            .fix("rdma-modules")
            .command("modprobe ib_uverbs")
        } else {
            Judgement::broken(
                "machine",
                format!("There is no verbs node for {list}, while other devices have one: ib_uverbs created none for it."),
            )
            .advice("Read the uverbs and infiniband lines of the kernel log (dmesg).")
        };
        return vec![judgement.evidence(VERBS, format!("none for {list}"))];
    }
    if devices.clone().next().is_none() {
        return vec![no_device(ctx)];
    }
    let manager = match ctx.facts.rdma_stack.connection_manager {
        Fact::Known(true) => "the connection manager is loaded, too",
        Fact::Known(false) => {
            "the connection manager (rdma_ucm) is not loaded, which only some programs need"
        }
        Fact::Unknown(_) => "whether the connection manager is loaded is unknown",
    };
    vec![
        Judgement::pass("machine", format!("Each RDMA device has its verbs node; {manager}."))
            .evidence(VERBS, words::list(devices.map(|device| &device.name))),
    ]
}

/// Without an RDMA device: a fault if there is an NVIDIA NIC.
fn no_device(ctx: &Ctx<'_>) -> Judgement {
    let nics = || nvidia_nics(ctx.facts);
    // In exclusive mode the devices may belong to another network namespace.
    let elsewhere = ctx.facts.rdma_stack.shared == Fact::Known(Some(false));
    if nics().next().is_none() || elsewhere {
        return Judgement::skip("machine", "There is no RDMA device.");
    }
    let list = words::list(nics().map(|nic| nic.bdf));
    Judgement::broken("machine", format!("NVIDIA NICs are not RDMA devices: {list}."))
        .evidence(CLASS, "empty, or not there")
        .evidence("/sys/bus/pci/devices", list)
        .fix("rdma-modules")
        .command(format!("modprobe {} && modprobe ib_uverbs", rdma_module(nics())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, NIC, assert_fix_says, assert_says, machine, only, rdma};
    use crate::model::Outcome;

    #[test]
    fn one_missing_node_of_two() {
        let mut facts = machine();
        facts.nic_mut().uverbs = Fact::Known(None);
        if let Fact::Known(devices) = &mut facts.rdma {
            devices.push(rdma("mlx5_1", "0000:04:00.1"));
        }
        let found = only("rdma.modules", &facts);
        let words = "for mlx5_0, while other devices have";
        assert_says(&found, words);
        assert_fix_says(&found, "dmesg");
    }

    #[test]
    fn skipped_without_nic_in_namespace() {
        let mut facts = machine();
        facts.rdma = Fact::Known(Vec::new());
        facts.rdma_stack.shared = Fact::Known(Some(false));
        assert_eq!(only("rdma.modules", &facts).outcome, Outcome::Skip);
        facts.rdma_stack.shared = Fact::Known(Some(true));
        let nic = crate::check::testing::bdf(NIC);
        facts.devices_mut().retain(|device| device.bdf != nic);
        assert_eq!(only("rdma.modules", &facts).outcome, Outcome::Skip);
    }
}
