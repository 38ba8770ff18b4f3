//! pcie.acs: no port on a pair's path redirects its traffic to the root complex.

use std::collections::{BTreeMap, BTreeSet};

use super::ports::{Ports, Redirecting, ports};
use super::{Ctx, boot};
use crate::check::{Check, Hint, Judgement, Source, passthrough, unidentified, unknown_if, words};
use crate::model::config::AcsBits;
use crate::model::{ActionClass, Area, Bdf, Fact, Severity, Why};
use crate::topo::{self, MAX_PATHS};

pub const CHECK: Check = Check {
    id: "pcie.acs",
    rule: "No port on the path between a GPU and its best NICs, or a peer without NVLink, \
        redirects their traffic. Below one switch: error; paths that meet at one host \
        bridge: warn; between host bridges: info.",
    sources: "configuration space: Access Control Services",
    severity: Severity::Warn,
    why: "Access Control Services that redirect requests or completions send traffic between \
        two devices below one switch up to the root complex and back: it becomes slow, may \
        stop, and some root complexes corrupt it. Traffic that meets at a host bridge goes \
        up anyway; the bits then send it through the IOMMU, which works if the IOMMU does \
        not translate. Between host bridges clearing the bits has no effect.",
    remedy: "Clear the redirect bits on those ports: gdr fix-acs, or the setpci command of the \
        finding.",
    action: ActionClass::Configure.running("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs"),
    references: &[
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs",
        "PCI Express Base Specification, 6.12",
    ],
    reads: &[Source::NvLinks],
    hint: Some(Hint {
        cause: "Access Control Services redirect traffic between devices up to the root complex.",
        words: "acs=6 completion=6 stall=4 off-helps=4 p2p=2 many-gpus=2 gpudirect=2 iommu=2 wrong-data=2 slow=1 \
            bandwidth=1 topology=1 nccl=1 rdma=1 nic-of-gpu=1 geforce=1 container=-1 missing=-1 mpi=-1 \
            segfault=-1 driver=-1 register=-1 timeout=-2 port=-2 gid=-3 fabric=-3 no-device=-3 memlock=-3 \
            socket-net=-3",
    }),
    judges_acs: true,
    judge: acs,
    ..Check::DEFAULT
};

/// One judgement for each port that redirects, one for all others.
fn acs(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    if ctx.facts.platform.is_guest() {
        return vec![Judgement::skip(
            "machine",
            "In a guest the host's ports decide: see pcie.acs-vm.",
        )];
    }
    let found = ports(ctx);
    if found.too_many {
        return vec![too_many()];
    }
    if found.pairs == 0 && found.lost.is_empty() && ctx.facts.partial {
        let source = "the PCI functions that are missing in this text";
        return vec![Judgement::unknown("machine", Why::NotCovered, Area::Sys, source)];
    }
    if found.pairs == 0 && found.lost.is_empty() {
        return vec![Judgement::skip("machine", "No pair of devices has a port on its path.")];
    }
    if ctx.facts.is_grace() {
        return vec![grace(ctx, found.clean.iter().chain(found.redirecting.keys()))];
    }
    let held = Held::new(ctx);
    let mut judgements: Vec<Judgement> = Vec::new();
    judgements.extend(found.redirecting.iter().map(|(port, what)| match what.weight {
        // It matters if they meet below a switch or at a host bridge.
        Severity::Info if !found.lost.is_empty() => lost(&port.to_string(), &found.lost),
        _ => redirects(ctx, *port, what, &held),
    }));
    for why in [Why::Denied, Why::NotCovered, Why::Broken, Why::TimedOut] {
        let unread = found.unknown.iter().filter(|(_, reason)| **reason == why);
        let names: Vec<String> = unread.map(|(port, _)| port.to_string()).collect();
        if !names.is_empty() {
            let source = format!(
                "/sys/bus/pci/devices/*/config beyond 64 bytes, of {}",
                words::list(&names)
            );
            judgements.push(Judgement::unknown(
                words::list(&names),
                why,
                Area::ConfigSpace,
                &source,
            ));
        }
    }
    if !found.lost.is_empty() {
        judgements.push(lost(&words::list(&found.lost), &found.lost));
    }
    judgements.extend(quiet(ctx, &found));
    if judgements.is_empty() {
        let message = "No port is on the path of any pair.";
        judgements.push(Judgement::skip("machine", message));
    }
    judgements
}

/// The judgement of a subject whose pairs depend on devices with an unknown place.
fn lost(subject: &str, devices: &[String]) -> Judgement {
    let source = format!("the place of {} in the PCI tree", words::list(devices));
    Judgement::unknown(subject, Why::NotCovered, Area::Sys, &source)
}

/// The judgements of ports that redirect nothing. A port with egress control is unknown while a function has unknown ids or an
/// unknown place: that may be the function whose traffic it blocks.
fn quiet(ctx: &Ctx<'_>, found: &Ports) -> Vec<Judgement> {
    let hidden = match unidentified(ctx.facts) {
        None if !found.lost.is_empty() => Some(lost("", &found.lost)),
        hidden => hidden,
    };
    let (open, quiet): (BTreeSet<Bdf>, BTreeSet<Bdf>) =
        found.clean.iter().partition(|port| hidden.is_some() && controls_egress(ctx, **port));
    let hidden = hidden.filter(|_| !open.is_empty());
    let unknown = hidden.map(|hidden| Judgement { subject: words::list(&open), ..hidden });
    unknown.into_iter().chain(clean(ctx, &quiet)).collect()
}

/// One judgement for all ports that do not redirect.
fn clean(ctx: &Ctx<'_>, ports: &BTreeSet<Bdf>) -> Option<Judgement> {
    let count = match ports.len() {
        0 => return None,
        1 => "1 port".to_owned(),
        count => format!("{count} ports"),
    };
    let message = format!("{count} on the paths between GPUs and NICs redirect nothing.");
    let judgement = Judgement::pass(words::list(ports), message);
    Some(ports.iter().fold(judgement, |judgement, port| {
        judgement.evidence(register(ctx, *port), control(ctx, *port))
    }))
}

/// Beyond the limit on pairs no port is judged.
pub fn too_many() -> Judgement {
    let message = format!(
        "cannot determine: there are more than {MAX_PATHS} pairs of devices, and gdr computes no more paths"
    );
    Judgement::undetermined("machine", message)
        .needs("a source with the devices of one machine only")
}

fn redirects(ctx: &Ctx<'_>, port: Bdf, what: &Redirecting, held: &Held) -> Judgement {
    let role = ctx.forest.device(port).map_or("port", |device| ctx.forest.role(device).phrase());
    let (bits, pairs) = (what.bits.names().join(", "), pair_list(what));
    let verb = topo::verb(what.bits);
    let effect = match what.weight {
        // PCIe 6.12.3: without request redirect, what egress control stops is an access violation.
        _ if verb == "blocks" => {
            "its requests are refused as access violations, and transfers between the two fail"
        }
        Severity::Error => {
            "it goes up to the root complex and back instead of directly through the switch: slow, or lost in the IOMMU"
        }
        Severity::Warn => {
            "the root complex sends it through the IOMMU, which works if the IOMMU does not translate, and is slower"
        }
        Severity::Info => {
            "the root complex sends it through the IOMMU, which works if the IOMMU does not translate; between host bridges it goes through the root complex anyway"
        }
    };
    let mut message = format!(
        "ACS {verb} traffic at {port}: the {role} {verb} ({bits}) that of {pairs}: {effect}."
    );
    if what.translated {
        message.push_str(
            " The IOMMU translates these devices' addresses, so clearing only the bits does not help: see pcie.iommu.",
        );
    }
    if let Some(pending) = boot::pending_acs(ctx, port) {
        message.push_str(&pending);
    }
    let held = held.below(port);
    let judgement = if held.is_empty() {
        // The bits that the fix clears; setpci keeps the others.
        let mask = (what.bits | AcsBits::REDIRECT).0;
        let judgement = Judgement::broken(port.to_string(), message);
        let judgement = match what.weight {
            // Between host bridges clearing the bits has no effect.
            Severity::Info => judgement,
            Severity::Warn | Severity::Error => judgement
                .fix("acs")
                .command(format!("setpci -s {port} ECAP_ACS+0x6.w=0000:{mask:04x}")),
        };
        match ctx.facts.tools.get("setpci") {
            Some(Fact::Known(None)) if judgement.fix.is_some() => {
                judgement.evidence("setpci", "not installed: it is in the package pciutils")
            }
            _ => judgement,
        }
    } else {
        let held = words::list(held);
        message.push_str(&format!(
                " {held} below it belongs to a virtual machine, which these bits isolate: do not clear them."
            ));
        Judgement::broken(port.to_string(), message).advice(
            "Leave the bits set; for virtual machines use DirectTrans with ATS: see pcie.acs-vm.",
        )
    };
    let judgement = judgement.weighing(what.weight);
    judgement
        .evidence(format!("{port} config {:#05x}, ACS control", what.register), control(ctx, port))
}

/// The first pairs, and the number of the others.
fn pair_list(what: &Redirecting) -> String {
    let shown = what.pairs.join("; ");
    match what.pair_count.saturating_sub(what.pairs.len()) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Devices passed through to virtual machines, by the bridges above them.
pub struct Held(BTreeMap<Bdf, Vec<Bdf>>);

impl Held {
    pub fn new(ctx: &Ctx<'_>) -> Self {
        let mut held: BTreeMap<Bdf, Vec<Bdf>> = BTreeMap::new();
        for device in passthrough::passed_through(ctx.facts) {
            for bridge in device.place.known().into_iter().flat_map(|place| &place.bridges) {
                held.entry(*bridge).or_default().push(device.bdf);
            }
        }
        Self(held)
    }

    /// The held devices below a port.
    pub fn below(&self, port: Bdf) -> &[Bdf] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }
}

/// On NVIDIA's CPUs the kernel's defaults are right, and clearing bits is unsafe. The masks are those of rdma-core's
/// rdma_topo: bits DT EC UF CR RR TB SV from the left, x for either.
fn grace<'a>(ctx: &Ctx<'_>, ports: impl Iterator<Item = &'a Bdf>) -> Judgement {
    let mut judgement = Judgement::info(
        "machine",
        "On Grace and Vera the ports keep the bits that the kernel sets (xx111x1, root ports of Vera xx101x1): GPU \
         memory is reached over NVLink-C2C, and clearing them is unsafe. Only ConnectX Data Direct needs others \
         (its port xx110x1, the GPU's xx101x1, the root port xx111x0).",
    );
    for port in ports {
        judgement = judgement.evidence(register(ctx, *port), control(ctx, *port));
    }
    judgement
}

fn controls_egress(ctx: &Ctx<'_>, port: Bdf) -> bool {
    let acs = ctx.facts.device(port).and_then(|device| device.config.acs.present());
    acs.is_some_and(|acs| acs.control.egress_control())
}

fn register(ctx: &Ctx<'_>, port: Bdf) -> String {
    let acs = ctx.facts.device(port).and_then(|device| device.config.acs.present());
    match acs {
        Some(acs) => format!("{port} config {:#05x}, ACS control", acs.control_offset()),
        None => format!("{port} config, extended capabilities"),
    }
}

fn control(ctx: &Ctx<'_>, port: Bdf) -> String {
    match ctx.facts.device(port).map(|device| &device.config.acs) {
        Some(Fact::Known(Some(acs))) => format!("{:#06x} ({})", acs.control.0, acs.control),
        Some(Fact::Known(None)) => "no access control services".to_owned(),
        Some(Fact::Unknown(why)) => why.phrase().to_owned(),
        None => "not read".to_owned(),
    }
}

#[cfg(test)]
mod tests;
