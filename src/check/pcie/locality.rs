//! pcie.locality: each GPU has a NIC near it.

use crate::check::{Check, Ctx, Hint, Judgement, nics, or_skip, unknown_devices, words};
use crate::model::{ActionClass, Area, Kind, Match, Severity, Verdict, Why};

pub const CHECK: Check = Check {
    id: "pcie.locality",
    rule: "Each GPU has a NIC below the same switch or host bridge. In a guest this is unknown, \
        and a note.",
    sources: "links of /sys/bus/pci/devices, numa_node",
    severity: Severity::Warn,
    why: "A NIC and a GPU below one switch transfer data at the full rate of the link. Through \
        the host bridge the rate is often lower, between sockets a fraction.",
    remedy: "Use the nearest NIC (gdr topo --pairs), or move the NIC to a slot below the GPU's \
        switch.",
    action: ActionClass::Nothing.running("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &["https://docs.nvidia.com/cuda/gpudirect-rdma/"],
    finds_partner: true,
    hint: Some(Hint {
        cause: "GPU and NIC are far apart in the PCI tree.",
        words: "topology=4 nic-of-gpu=4 send-gdr=4 receive-plain=4 slow=2 bandwidth=2 gpudirect=2 rdma=2 nccl=1 \
            failure=1 mismatch=1 pcie-link=1 multi-node=1 p2p=-1 guest=-1 socket-net=-2",
    }),
    needs_nics: true,
    judge: locality,
    ..Check::DEFAULT
};

/// Each GPU's best NIC, as the topology pairs them.
fn locality(ctx: &Ctx<'_>) -> Vec<Judgement> {
    // A matrix of nvidia-smi has the classes of all pairs, whatever else is unknown.
    let is_listed = ctx.facts.listed.as_ref().is_some_and(|listed| !listed.nics.is_empty());
    if !is_listed {
        if let Some(unknown) = unknown_devices(ctx) {
            return vec![unknown];
        }
        if nics::rdma_nics(ctx.facts).next().is_none() {
            return vec![Judgement::skip("machine", "There is no NIC.")];
        }
    }
    let matches = ctx.topology.matches.iter();
    let judgements: Vec<Judgement> = matches.filter_map(|found| judge(ctx, found)).collect();
    or_skip(judgements, "This machine uses no GPU itself.")
}

fn judge(ctx: &Ctx<'_>, found: &Match) -> Option<Judgement> {
    let row = ctx.topology.rows.get(found.row).filter(|row| row.kind == Kind::Gpu)?;
    let device = row.bdf.and_then(|bdf| ctx.facts.device(bdf));
    if device.is_some_and(|device| device.passthrough_driver().is_some()) {
        // Its partners belong to the virtual machine.
        return None;
    }
    let subject = words::row(row);
    let guest = ctx.facts.platform.is_guest();
    if found.verdict == Verdict::Bad && !shows_all(ctx, found.row) {
        let judgement = Judgement::unknown(
            subject,
            Why::NotCovered,
            Area::Sys,
            "nvidia-smi topo -m: the whole matrix",
        );
        let message =
            format!("{}; the matrix is cut, and a NIC that it lacks may be nearer.", found.reason);
        return Some(Judgement { message, ..judgement });
    }
    let message = format!("{}.", found.reason);
    let judgement = match found.verdict {
        Verdict::Good | Verdict::LikelyGood => Judgement::pass(subject, message),
        // A guest's PCI tree is the hypervisor's.
        Verdict::Bad | Verdict::Unknown if guest && found.pick.is_some() => {
            Judgement::info(subject, message)
        }
        Verdict::Bad => Judgement::broken(subject, message),
        Verdict::Unknown => {
            let judgement = Judgement::unknown(
                subject,
                Why::NotCovered,
                Area::Sys,
                "/sys/bus/pci/devices: places and NUMA nodes",
            );
            return Some(Judgement { message, ..judgement });
        }
    };
    let pair = found
        .pick
        .and_then(|pick| Some((ctx.topology.rows.get(pick)?, ctx.topology.pair(found.row, pick)?)));
    let judgement = match pair {
        Some((nic, pair)) => {
            let class = pair.pci.known().map_or("unknown", |class| class.letters());
            let judgement = judgement
                .evidence("links of /sys/bus/pci/devices", format!("{} {class}", words::row(nic)));
            let judgement = judgement.evidence(
                "numa_node",
                format!("{}; {}", words::numa(&row.numa), words::numa(&nic.numa)),
            );
            // Other GPUs have one path to a NIC.
            match (found.pick, row.coherent) {
                (Some(pick), true) => {
                    let path = ctx.topology.rdma_path(found.row, pick);
                    let words = path.known().map_or("unknown", |path| path.phrase());
                    judgement.evidence("expected path of GPU and NIC", words)
                }
                _ => judgement,
            }
        }
        None => judgement,
    };
    Some(match &found.advice {
        Some(advice) if !guest => judgement.advice(advice),
        _ => judgement,
    })
}

/// True unless a matrix of nvidia-smi was cut, so that it lacks the classes of pairs of this GPU and a NIC.
fn shows_all(ctx: &Ctx<'_>, gpu: usize) -> bool {
    let rows = ctx.topology.rows.iter().enumerate();
    let mut nics = rows.filter(|(_, row)| row.kind == Kind::Nic).map(|(at, _)| at);
    ctx.facts.listed.is_none()
        || nics.all(|nic| ctx.topology.pair(gpu, nic).is_none_or(|pair| pair.pci.known().is_some()))
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{Edit, GPU, NIC, assert_says, bdf, bind, machine, only, root_port};
    use crate::model::{Fact, Facts, Outcome, PciPath, RootBus, Why};

    /// The NIC below another root port, on this root bus.
    fn moved(bus: u8) -> Facts {
        let mut facts = machine();
        facts.device_mut(NIC).place = Fact::Known(PciPath {
            root: RootBus { domain: 0, bus },
            rooted: true,
            bridges: vec![bdf("0000:00:02.0")],
        });
        facts.add(root_port("0000:00:02.0"));
        facts
    }

    #[test]
    fn common_root_bus_passes() {
        let found = only("pcie.locality", &moved(0));
        assert_eq!(found.outcome, Outcome::Pass);
        assert_says(&found, "PHB");
    }

    #[test]
    fn distance_in_guest_is_info() {
        let mut facts = moved(0x80);
        facts.platform.hypervisor_flag = Fact::Known(true);
        let found = only("pcie.locality", &facts);
        assert_says(
            &found,
            "NODE in the guest's tree; the host's path is unknown; gdr probe rdma proves it",
        );
        assert_eq!((found.outcome, found.fix), (Outcome::Info, None));
        let mut facts = machine();
        facts.platform.hypervisor_flag = Fact::Known(true);
        let found = only("pcie.locality", &facts);
        assert_says(&found, "PIX in the guest's tree; the host's path is unknown");
        assert_eq!((found.outcome, found.fix), (Outcome::Info, None));
    }

    #[test]
    fn passed_through_gpu_is_skipped() {
        let mut facts = moved(0x80);
        facts.driver.gpus = Fact::Known(Default::default());
        bind(&mut facts, GPU, Some("vfio-pci"));
        assert_eq!(only("pcie.locality", &facts).outcome, Outcome::Skip);
    }

    #[test]
    fn missing_nics_or_places() {
        let mut facts = machine();
        facts.device_mut(NIC).place = Fact::Unknown(Why::Denied);
        assert_eq!(only("pcie.locality", &facts).outcome, Outcome::Unknown);
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("pcie.locality", &facts).outcome, Outcome::Skip);
        let mut facts = machine();
        facts.devices_mut().retain(|device| device.bdf == bdf(NIC));
        assert_eq!(only("pcie.locality", &facts).outcome, Outcome::Skip);
    }
}
