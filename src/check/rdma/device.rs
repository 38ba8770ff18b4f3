//! rdma.device: RDMA devices and their verbs nodes. Software devices and management functions of NVSwitch systems are no
//! NICs.

use super::{CLASS, nvidia_nics, rdma_module, rdma_nics};
use crate::check::{Check, Ctx, Hint, Judgement, unknown_if};
use crate::model::{ActionClass, Area, Fact, FasterPath, NodeFile, RdmaDevice, Severity};
use crate::output::shell_word;

pub const CHECK: Check = Check {
    id: "rdma.device",
    rule: "At least one NIC supports RDMA, and this user may open it.",
    sources: "/sys/class/infiniband, /dev/infiniband",
    severity: Severity::Warn,
    why: "GPUDirect RDMA needs an RDMA NIC. A program cannot use a device without a verbs \
        node, or whose node the user may not open.",
    remedy: "Load the NIC's RDMA driver and ib_uverbs; pass the nodes to the container; allow \
        users to open them.",
    action: ActionClass::Configure
        .drained("https://docs.kernel.org/infiniband/user_verbs.html")
        .then(ActionClass::ReseatNic),
    references: &["https://docs.kernel.org/infiniband/user_verbs.html"],
    explained_by: &["rdma.modules", "rdma.mixed-stack", "platform.container"],
    hint: Some(Hint {
        cause: "The process sees no usable RDMA device.",
        words: "rdma-device=5 nvshmem=5 socket-net=4 multi-node=4 no-device=3 rdma=2 missing=2 container=2 \
            fallback=2 nccl=1 not-permitted=1 failure=1 netns=1 ofi=1 slow=1 kv-transfer=1 port=1 register=-2 \
            gpu-memory=-2 gid=-2 p2p=-2",
    }),
    closes: Some(FasterPath::Rdma),
    judge: device,
    ..Check::DEFAULT
};

/// One judgement for each RDMA device, and one if there is no NIC.
fn device(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.rdma, "machine", Area::Sys, CLASS) {
        return vec![unknown];
    }
    let devices = ctx.facts.rdma.known().into_iter().flatten();
    let mut judgements: Vec<Judgement> = devices.map(|device| judge(ctx, device)).collect();
    if rdma_nics(ctx.facts).next().is_none() {
        judgements.push(no_nic(ctx));
    }
    judgements
}

fn no_nic(ctx: &Ctx<'_>) -> Judgement {
    let nics = || nvidia_nics(ctx.facts);
    let idle: Vec<String> = nics().map(|nic| nic.bdf.to_string()).collect();
    let judgement =
        Judgement::broken("machine", "There is no NIC with RDMA.").evidence(CLASS, "no NIC");
    if idle.is_empty() {
        judgement.advice(
            "Install a NIC with RDMA, or load the driver of the installed NIC (mlx5_ib, irdma, bnxt_re, efa).",
        )
    } else {
        judgement
            .evidence("/sys/bus/pci/devices", idle.join(", "))
            .command(format!("modprobe {}", rdma_module(nics())))
            .advice(format!(
                "The NVIDIA NICs at {} have no RDMA device until their driver is loaded.",
                idle.join(", ")
            ))
    }
}

fn judge(ctx: &Ctx<'_>, device: &RdmaDevice) -> Judgement {
    let source = format!("{CLASS}/{}", device.name);
    let name = device.name.clone();
    if let Fact::Known(Some(netdev)) = &device.parent {
        return Judgement::info(
            name,
            format!("Software over {netdev}: RDMA works, GPUDirect does not."),
        )
        .evidence(format!("{source}/parent"), netdev);
    }
    if device.management == Fact::Known(true) {
        return Judgement::info(
            name,
            "A management function of the NVSwitches, not a NIC: do not use it.",
        )
        .evidence("vpd", "SW_MNG");
    }
    let place = match &device.place {
        Fact::Known(Some(bdf)) => bdf.to_string(),
        Fact::Known(None) => {
            return Judgement::info(name, "It has no PCI function: GPUDirect needs a NIC.")
                .evidence(source, "no PCI function");
        }
        Fact::Unknown(why) => return Judgement::unknown(name, *why, Area::Sys, &source),
    };
    let virtual_function = match ctx.facts.virtual_function(device) {
        Some(function) => format!(", {}", function.phrase()),
        None => String::new(),
    };
    let what = format!("At {place}{virtual_function}; {}", ports(device));
    let judgement = match &device.uverbs {
        Fact::Known(Some(node)) => opens(name, &what, node),
        Fact::Known(None) => Judgement::broken(
            name,
            format!("{what}. It has no verbs node, so no program can use it."),
        )
        .evidence("/sys/class/infiniband_verbs", format!("none for {}", device.name))
        .command("modprobe ib_uverbs"),
        Fact::Unknown(why) => {
            Judgement::unknown(name, *why, Area::Sys, "/sys/class/infiniband_verbs")
        }
    };
    judgement.evidence(source, what)
}

fn opens(name: String, what: &str, node: &NodeFile) -> Judgement {
    let path = &node.path;
    let state = match &node.state {
        Fact::Known(Some(state)) => state,
        Fact::Known(None) => {
            return Judgement::broken(name, format!("{what}. Its node {path} is missing."))
                .evidence(path, "not there")
                .command("udevadm trigger -s infiniband_verbs")
                .advice(format!("In a container, start it with --device={path} instead."));
        }
        Fact::Unknown(why) => return Judgement::unknown(name, *why, Area::Devices, path),
    };
    let mode = format!("mode {:04o}", state.mode);
    match state.usable {
        Fact::Known(true) => Judgement::pass(name, format!("{what}.")).evidence(path, mode),
        Fact::Unknown(_) if state.mode & 0o006 == 0o006 => {
            Judgement::pass(name, format!("{what}.")).evidence(path, mode)
        }
        Fact::Known(false) => {
            Judgement::broken(name, format!("{what}. This user may not open {path}."))
                .evidence(path, mode)
                .command(format!("chmod 0666 {}", shell_word(path)))
                .advice("A udev rule makes this permanent (rdma-core ships one).")
        }
        Fact::Unknown(why) => {
            Judgement::unknown(name, why, Area::Devices, &format!("access to {path}"))
        }
    }
}

fn ports(device: &RdmaDevice) -> String {
    let ports = match &device.ports {
        Fact::Known(ports) if !ports.is_empty() => ports,
        Fact::Known(_) => return "no port".to_owned(),
        Fact::Unknown(why) => return format!("ports {}", why.phrase()),
    };
    let word = |fact: &Fact<String>| fact.known().cloned().unwrap_or_else(|| "?".to_owned());
    let each = ports.iter().map(|port| {
        let (number, state) = (port.number, word(&port.state));
        format!("port {number} {state}, {}, {}", word(&port.link_layer), word(&port.rate))
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, NIC, assert_says, bdf, findings, machine, node, only, outcomes, rdma, set_device_id,
    };
    use crate::model::{Outcome, Why};

    #[test]
    fn usable_node_passes() {
        let mut facts = machine();
        let found = only("rdma.device", &facts);
        assert_eq!(found.outcome, Outcome::Pass);
        assert_eq!(
            found.message,
            "At 0000:04:00.0; port 1 ACTIVE, InfiniBand, 400 Gb/sec (4X NDR)."
        );
        facts.nic_mut().physical_function = Fact::Known(Some(bdf("0000:04:00.1")));
        assert_says(&only("rdma.device", &facts), "a virtual function of 0000:04:00.1");
        // In a guest nothing but the device id shows it.
        facts.nic_mut().physical_function = Fact::Known(None);
        set_device_id(&mut facts, NIC, 0x101e);
        assert_says(
            &only("rdma.device", &facts),
            "a virtual function whose physical function is on the host",
        );
    }

    #[test]
    fn software_and_management_devices_are_info() {
        let mut facts = machine();
        let mut rxe = rdma("rxe0", "0000:04:00.0");
        rxe.parent = Fact::Known(Some("eth0".to_owned()));
        let mut switch = rdma("mlx5_9", "0000:04:00.1");
        switch.management = Fact::Known(true);
        facts.rdma = Fact::Known(vec![rxe, switch]);
        let found = findings("rdma.device", &facts, &["rdma"]);
        let want = [("rxe0", Outcome::Info), ("mlx5_9", Outcome::Info), ("machine", Outcome::Fail)];
        assert_eq!(outcomes(&found), want);
        assert!(
            found[0].message.contains("GPUDirect does not")
                && found[1].message.contains("management")
        );
        let advice = &found[2].fix.as_ref().expect("advice").text();
        assert!(advice.contains("0000:04:00.0"), "{advice}");
    }

    #[test]
    fn missing_and_unusable_nodes_warn() {
        let with = |node: Fact<Option<NodeFile>>| {
            let mut facts = machine();
            facts.nic_mut().uverbs = node;
            only("rdma.device", &facts)
        };
        let state = |usable: Fact<bool>, mode: u32| {
            let mut file = node("/dev/infiniband/uverbs0", 231);
            if let Fact::Known(Some(state)) = &mut file.state {
                (state.usable, state.mode) = (usable, mode);
            }
            Fact::Known(Some(file))
        };
        let unknown = || Fact::Unknown(Why::NotCovered);
        let missing =
            NodeFile { path: "/dev/infiniband/uverbs0".to_owned(), state: Fact::Known(None) };
        for (node, outcome, word) in [
            (Fact::Known(None), Outcome::Warn, "no verbs node"),
            (Fact::Known(Some(missing)), Outcome::Warn, "uverbs0 is missing"),
            (state(Fact::Known(false), 0o660), Outcome::Warn, "may not open"),
            (state(unknown(), 0o666), Outcome::Pass, "ACTIVE"),
            (state(unknown(), 0o660), Outcome::Unknown, "access to /dev/infiniband/uverbs0"),
            (Fact::Unknown(Why::Denied), Outcome::Unknown, "infiniband_verbs"),
        ] {
            let found = with(node);
            assert_eq!(found.outcome, outcome);
            assert_says(&found, word);
        }
    }

    #[test]
    fn missing_and_unknown_devices() {
        let mut facts = machine();
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("rdma.device", &facts).outcome, Outcome::Warn);
        facts.nvme = Fact::default();
        facts.rdma = Fact::Known(vec![rdma("hns_0", "0000:04:00.0")]);
        facts.nic_mut().place = Fact::Known(None);
        assert_eq!(findings("rdma.device", &facts, &[])[0].outcome, Outcome::Info);
        facts.nic_mut().place = Fact::Unknown(Why::Broken);
        assert_eq!(only("rdma.device", &facts).outcome, Outcome::Unknown);
    }
}
