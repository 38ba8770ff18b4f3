//! pcie.link: every link above a GPU or a NIC runs at the width and speed that both ends support.

use std::collections::{BTreeMap, BTreeSet};

use super::{Ctx, endpoints, or_skip, unplaced};
use crate::check::{Check, CheckAction, Hint, Judgement, Source, unknown_if, words};
use crate::model::{
    ActionClass, Area, Bdf, Fact, Ids, Kind, Link, LinkState, PciDevice, RdmaDevice, Severity, Why,
};

/// A link, identified by the port above it, or by the function below it if the port is not visible.
struct Hop<'a> {
    below: &'a PciDevice,
    link: LinkState,
    /// A NIC's traffic uses it. NICs keep their links at full speed; idle GPUs do not.
    nic: bool,
    /// It ends at a GPU in its highest performance state.
    awake: bool,
    /// Why the other end's capabilities are unknown.
    other_end: Option<Why>,
}

impl Hop<'_> {
    fn is_below_maximum(&self) -> bool {
        let LinkState { current, max } = self.link;
        let known = current.speed.transfers_per_second().is_some();
        current.width < max.width || (known && current.speed < max.speed)
    }
}

pub const CHECK: Check = Check {
    id: "pcie.link",
    rule: "Every link above a GPU or a NIC runs at the full width and speed that both ends \
        support, and no slot has a quarter of the card's lanes or fewer.",
    sources: "configuration space: Link Status, current_link_*",
    severity: Severity::Warn,
    why: "A link that trained narrower or slower than both ends support, or a slot with fewer \
        lanes than the card, limits every transfer over it.",
    remedy: "Reseat the card or riser, or use a wider slot; check the slot's wiring and the \
        firmware settings.",
    action: ActionClass::ReseatGpu
        .drained("PCI Express Base Specification, 7.5.3")
        .then(ActionClass::CallVendor),
    references: &[
        "PCI Express Base Specification, 7.5.3",
        "https://docs.kernel.org/admin-guide/abi-testing.html",
    ],
    reads: &[Source::Nvml],
    volatile: true,
    hint: Some(Hint {
        cause: "A link is narrower or slower than the devices can do.",
        words: "pcie-link=4 slow=3 bandwidth=3 aer=1 gpu-word=1 topology=1 gdrcopy=1 socket-net=-2",
    }),
    judge: link,
    ..Check::DEFAULT
};

/// One judgement for each link below full width or speed, one for all others.
fn link(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let (hops, unknown) = hops(ctx);
    let mut judgements = Vec::new();
    let mut good = Vec::new();
    let one_ended = |hop: &Hop<'_>| hop.other_end.is_some() && hop.is_below_maximum();
    let (one_ended, hops): (Vec<_>, Vec<_>) = hops.into_iter().partition(|(_, hop)| one_ended(hop));
    for (above, hop) in &hops {
        let trained = trained_low(ctx, *above, hop);
        let slot = narrow_slot(ctx, *above, hop);
        if trained.is_none() && slot.is_none() {
            good.push((*above, hop));
        }
        for judgement in trained.into_iter().chain(slot) {
            judgements.push(evident(judgement, *above, hop));
        }
    }
    if !good.is_empty() {
        let count =
            if good.len() == 1 { "1 link".to_owned() } else { format!("{} links", good.len()) };
        let subject = words::list(good.iter().map(|(_, hop)| hop.below.bdf));
        let pass = Judgement::pass(
            subject,
            format!("{count} above GPUs and NICs at full width and speed."),
        );
        judgements.push(good.iter().fold(pass, |pass, (above, hop)| evident(pass, *above, hop)));
    }
    judgements.extend(with_one_end(ctx, &one_ended));
    if let Some((_, why)) = unknown.first() {
        let names = words::list(unknown.iter().map(|(bdf, _)| bdf));
        let source = format!("links above {names}: Link Status, current_link_width");
        judgements.push(Judgement::unknown(names, *why, Area::Sys, &source));
    }
    judgements.extend(unplaced(ctx));
    or_skip(ctx, judgements, "No GPU and no NIC has a link above it.")
}

type Unknowns = Vec<(Bdf, Why)>;

/// Every link once, by the port above it; functions of one NIC share a link.
fn hops<'a>(ctx: &'a Ctx<'_>) -> (BTreeMap<Bdf, Hop<'a>>, Unknowns) {
    let mut hops: BTreeMap<Bdf, Hop<'a>> = BTreeMap::new();
    let mut unknown: Unknowns = Vec::new();
    let mut seen: BTreeSet<Bdf> = BTreeSet::new();
    for (row, bdf) in endpoints(ctx) {
        let Some(device) = ctx.forest.device(bdf) else {
            continue;
        };
        if device.place.known().is_none() {
            // `unplaced` names it.
            seen.insert(bdf);
        }
        let chain = std::iter::successors(Some(device), |device| ctx.forest.parent(device));
        for below in chain {
            // A guest sees its NICs without the ports above them.
            let above = ctx.forest.parent(below).map_or(below.bdf, |parent| parent.bdf);
            match ctx.forest.link_above(below) {
                Fact::Known(Some(link)) => {
                    let other_end = ctx.forest.one_end_unknown(below);
                    let hop = Hop { below, link, nic: false, awake: false, other_end };
                    let hop = hops.entry(above).or_insert(hop);
                    hop.nic |= row.kind == Kind::Nic;
                    hop.awake |= below.bdf == bdf && row.kind == Kind::Gpu && is_awake(ctx, bdf);
                }
                Fact::Known(None) => {}
                Fact::Unknown(why) if seen.insert(below.bdf) => unknown.push((below.bdf, why)),
                Fact::Unknown(_) => {}
            }
        }
    }
    (hops, unknown)
}

/// False where the state is from a text: nvidia-smi wakes the GPU, and lspci ran at another time.
fn is_awake(ctx: &Ctx<'_>, gpu: Bdf) -> bool {
    if !matches!(ctx.facts.host.origin(), "" | "live") {
        return false;
    }
    let gpu = ctx.facts.nvml().and_then(|nvml| nvml.gpus.iter().find(|found| found.bdf == gpu));
    gpu.is_some_and(|gpu| gpu.performance_state == Fact::Known(0))
}

/// The links below the maximum of the only end that the source shows: whether they are at the maximum of both is unknown.
fn with_one_end(ctx: &Ctx<'_>, hops: &[(Bdf, Hop<'_>)]) -> Option<Judgement> {
    let (_, first) = hops.first()?;
    let state = |(_, hop): &(Bdf, Hop<'_>)| {
        let LinkState { current, max } = hop.link;
        let below = words::device(ctx, hop.below.bdf);
        format!("{below} runs at {current} of its {max}")
    };
    let states = words::list(hops.iter().map(state));
    let subject = words::list(hops.iter().map(|(_, hop)| hop.below.bdf));
    let judgement = if ctx.facts.platform.is_guest() {
        Judgement::info(subject, format!("{states}. In a guest the link belongs to the host."))
    } else {
        let why = first.other_end.unwrap_or(Why::NotCovered);
        let ports = "the port above it: Link Capabilities";
        let unknown = Judgement::unknown(subject, why, Area::ConfigSpace, ports);
        let message = format!("{states}; what the port at the other end supports is unknown.");
        // It says more than that a source is missing.
        Judgement { message, missing: None, ..unknown }
    };
    Some(hops.iter().fold(judgement, |judgement, (above, hop)| evident(judgement, *above, hop)))
}

/// The judgement on a link below the width or speed that both ends support; `None` for others.
fn trained_low(ctx: &Ctx<'_>, above: Bdf, hop: &Hop<'_>) -> Option<Judgement> {
    let LinkState { current, max } = hop.link;
    let below = words::device(ctx, hop.below.bdf);
    let subject = hop.below.bdf.to_string();
    let known = current.speed.transfers_per_second().is_some();
    let narrow = current.width < max.width;
    let slow = known && current.speed < max.speed;
    let between = format!("The link between {above} and {below}");
    let is_soldered = hop.below.ids.known().is_some_and(Ids::is_laptop_gpu);
    let (broken, message, advice) = match (narrow, slow) {
        (false, false) => return None,
        (true, _) if is_soldered => (
            false,
            format!(
                "{between} runs at x{} of x{}: a laptop's board may connect fewer lanes than both ends support.",
                current.width, max.width
            ),
            "",
        ),
        (true, _) => (
            true,
            format!(
                "Link at x{} of x{} that both ends support: {above} to {below}.",
                current.width, max.width
            ),
            "Reseat the card, try another slot or riser, and look for a slot shared with another (bifurcation).",
        ),
        (false, true) if hop.nic || hop.awake => (
            true,
            format!(
                "Link at {} of {} that both ends support: {above} to {below}.",
                current.speed, max.speed
            ),
            "Set the slot's speed in the firmware to the highest, reseat the card, and look for link errors in the kernel log.",
        ),
        (false, true) => (
            false,
            format!(
                "{between} runs at {} of {}: an idle GPU slows its link down, so the speed is judged only under load.",
                current.speed, max.speed
            ),
            "Run a transfer over it and look again.",
        ),
    };
    if ctx.facts.platform.is_guest() {
        let message = format!("{message} In a guest the link belongs to the host.");
        return Some(Judgement::info(subject, message));
    }
    let is_narrowest = narrow && current.width > 0 && max.width / current.width >= MANAGEMENT;
    if is_narrowest && may_manage_switches(ctx, hop.below) {
        return Some(unknown_role(&message, hop));
    }
    let judgement = if broken {
        Judgement::broken(subject, message)
    } else {
        Judgement::info(subject, message)
    };
    let judgement = judgement.action(reseat(hop));
    Some(if advice.is_empty() { judgement } else { judgement.advice(advice) })
}

/// What is below the link decides what to reseat.
fn reseat(hop: &Hop<'_>) -> CheckAction {
    if hop.nic {
        ActionClass::ReseatNic.drained(CHECK.action.source).then(ActionClass::CallVendor)
    } else {
        CHECK.action
    }
}

/// Part of the lanes at which a slot is a fault of the machine, rather than a way to build it.
const NARROW: u8 = 4;

/// The slot has fewer lanes than the card.
fn narrow_slot(ctx: &Ctx<'_>, above: Bdf, hop: &Hop<'_>) -> Option<Judgement> {
    let card = ctx.forest.capability(hop.below)?;
    let slot = hop.link.max;
    if above == hop.below.bdf || slot.width == 0 || slot.width >= card.width {
        return None;
    }
    let best = Link { speed: slot.speed, ..card };
    let loss = match (slot.bytes_per_second(), best.bytes_per_second()) {
        (Some(slot), Some(best)) => {
            format!(": {:.1} of {:.1} GB/s", slot as f64 / 1e9, best as f64 / 1e9)
        }
        _ => String::new(),
    };
    let message = format!(
        "{} supports x{}; its slot below {above} gives x{}{loss}.",
        words::device(ctx, hop.below.bdf),
        card.width,
        slot.width
    );
    let subject = hop.below.bdf.to_string();
    let advice = format!(
        "Put the card into a slot with x{}, or change the slot's bifurcation in the firmware settings.",
        card.width
    );
    if hop.below.ids.known().is_some_and(Ids::is_laptop_gpu) {
        return Some(Judgement::info(subject, message));
    }
    Some(match card.width / slot.width {
        MANAGEMENT.. if may_manage_switches(ctx, hop.below) => unknown_role(&message, hop),
        _ if ctx.facts.platform.is_guest() => {
            Judgement::info(subject, format!("{message} In a guest the link belongs to the host."))
        }
        NARROW.. => Judgement::broken(subject, message).advice(advice),
        _ => Judgement::info(subject, message).advice(advice),
    })
}

/// An eighth of the lanes: x1 or x2.
const MANAGEMENT: u8 = 8;

/// A link as that of the NIC that manages the NVSwitches, if nothing says whether it is one.
fn unknown_role(message: &str, hop: &Hop<'_>) -> Judgement {
    let bdf = hop.below.bdf;
    let source = format!("vital product data of {bdf}");
    let unknown = Judgement::unknown(bdf.to_string(), Why::NotCovered, Area::ConfigSpace, &source);
    let message = format!(
        "{message} Such is the NIC that manages the NVSwitches; whether this is one is in its vital product data (lspci -vv as root), \
         which are unknown."
    );
    Judgement { message, ..unknown }
}

/// True if the function may be the NIC that manages the NVSwitches of a baseboard: its link has one or two lanes by design.
fn may_manage_switches(ctx: &Ctx<'_>, device: &PciDevice) -> bool {
    let nics = ctx.facts.rdma.known().into_iter().flatten();
    let mut own = nics.filter(|nic| nic.place.present() == Some(&device.bdf));
    device.ids.known().is_some_and(|ids| ids.vendor == Ids::MELLANOX)
        && ctx.facts.gpus().count() >= RdmaDevice::GPUS_OF_A_SWITCHED_SYSTEM
        && own.next().is_none_or(|nic| nic.management.known().is_none())
}

fn evident(judgement: Judgement, above: Bdf, hop: &Hop<'_>) -> Judgement {
    let bdf = hop.below.bdf;
    let source = match hop.below.config.express.present() {
        Some(express) => format!(
            "{bdf} config {:#05x}, Link Status; {} Link Capabilities",
            express.offset + 18,
            if hop.other_end.is_some() { "its" } else { "both ends'" }
        ),
        None => format!("/sys/bus/pci/devices/{bdf} or {above}: current_link_*, max_link_*"),
    };
    let LinkState { current, max } = hop.link;
    judgement.evidence(source, format!("{current} of {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, findings, machine, only, set_link};
    use crate::model::Outcome;

    // A record of a machine is of one moment.
    #[test]
    fn state_of_a_text_is_of_another_moment() {
        let mut facts = machine();
        facts.host.source = "nvidia-bug-report.log".to_owned();
        set_link(&mut facts, GPU, (1, 16), (5, 16));
        let found = findings("pcie.link", &facts, &[]).remove(0);
        assert_eq!(found.outcome, Outcome::Info, "{}", found.message);
        // Another part of the report saw it at its maximum.
        let express = facts.device_mut(GPU).config.express.clone();
        let link = express.present().and_then(|express| express.link).expect("a link");
        facts.attributes_mut(GPU).link =
            Fact::Known(Some(LinkState { current: link.max, max: link.max }));
        assert_eq!(only("pcie.link", &facts).outcome, Outcome::Pass);
    }
}
