//! pcie.payload: no function sends larger packets than the next one on the path accepts.
//!
//! PCI Express Base Specification, 2.2.2 and 7.5.3.4: a packet whose payload exceeds the receiver's Max_Payload_Size is
//! malformed, a fatal error. A function sends packets up to its own size. Completions of its reads have up to the root
//! port's size, limited by the function's Max_Read_Request_Size.

use super::acs::too_many;
use super::ports::pairs;
use super::{Ctx, or_skip, own, unplaced};
use crate::check::{Check, Judgement, Source, unknown_if, words};
use crate::model::config::Express;
use crate::model::{ActionClass, Area, Bdf, Fact, Kind, Meeting, Row, Severity, Why};

const SAFE: &str = "Add pci=pcie_bus_safe to the kernel command line and reboot: the kernel then gives all devices below one root \
                    port the same payload.";

pub const CHECK: Check = Check {
    id: "pcie.payload",
    rule: "No device sends larger packets than the ports and peers on its paths accept.",
    sources: "configuration space: Device Control",
    severity: Severity::Error,
    why: "A packet with more payload than its receiver accepts is malformed: the receiver \
        reports a fatal error and drops it. 128 bytes everywhere always works, with more \
        header overhead.",
    remedy: "Let the kernel set one payload size below each root port: pci=pcie_bus_safe, or \
        pci=pcie_bus_peer2peer for 128 bytes everywhere.",
    action: ActionClass::Configure
        .drained("https://docs.kernel.org/admin-guide/kernel-parameters.html")
        .then(ActionClass::Reboot),
    references: &[
        "PCI Express Base Specification, 2.2.2 and 7.5.3.4",
        "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    ],
    reads: &[Source::NvLinks],
    judge: payload,
    ..Check::DEFAULT
};

/// One judgement for each device or pair with a mismatch, one for all others.
fn payload(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    if ctx.facts.platform.is_guest() {
        return vec![Judgement::skip(
            "machine",
            "In a guest the ports and their payload sizes belong to the host.",
        )];
    }
    let Comparison { mismatched: mut judgements, good, unknown } = compare(ctx);
    judgements.extend(between(ctx));
    if !good.is_empty() && judgements.is_empty() {
        judgements.push(fits(ctx, &good));
    }
    judgements.extend(reads(&good));
    if let Some((_, why)) = unknown.first() {
        let names = words::list(unknown.iter().map(|(bdf, _)| bdf));
        let source =
            format!("/sys/bus/pci/devices/*/config, Device Control, of {names} and what is above");
        judgements.push(Judgement::unknown(names, *why, Area::ConfigSpace, &source));
    }
    judgements.extend(unplaced(ctx));
    or_skip(ctx, judgements, "No GPU and no NIC has a link above it.")
}

/// NICs with a Max_Read_Request_Size below 4096 bytes whose path has no mismatch.
pub fn small_reads(ctx: &Ctx<'_>) -> Vec<Bdf> {
    if ctx.facts.platform.is_guest() {
        Vec::new()
    } else {
        small_readers(&compare(ctx).good).map(|(_, bdf, _)| *bdf).collect()
    }
}

/// The devices, by comparison with the ports above them.
#[derive(Default)]
struct Comparison<'a> {
    mismatched: Vec<Judgement>,
    good: Vec<Good<'a>>,
    /// Devices with an unreadable register on their path.
    unknown: Vec<(Bdf, Why)>,
}

type Good<'a> = (&'a Row, Bdf, &'a Express);

fn compare<'a>(ctx: &'a Ctx<'_>) -> Comparison<'a> {
    let mut comparison = Comparison::default();
    for (row, bdf) in own(ctx).filter(|(row, _)| row.virtual_function.is_none()) {
        let above = match above(ctx, bdf) {
            Ok(above) => above,
            Err(why) => {
                comparison.unknown.push((bdf, why));
                continue;
            }
        };
        let Some((_, express)) = above.first().copied() else {
            // Integrated into the root complex, or not PCI Express: no link.
            continue;
        };
        match mismatch(row, bdf, express, &above) {
            Some(judgement) => comparison.mismatched.push(judgement),
            None if lacks_ports(ctx, bdf) => comparison.unknown.push((bdf, Why::NotCovered)),
            None => comparison.good.push((row, bdf, express)),
        }
    }
    comparison
}

/// True if the source is a list of some functions, and lacks a port above this one.
fn lacks_ports(ctx: &Ctx<'_>, bdf: Bdf) -> bool {
    let place = ctx.forest.device(bdf).and_then(|device| device.place.known());
    let lacks_one = place.is_some_and(|place| {
        let mut bridges = place.bridges.iter();
        !place.rooted || bridges.any(|bridge| ctx.forest.device(*bridge).is_none())
    });
    ctx.facts.partial && lacks_one
}

type Chain<'a> = Vec<(Bdf, &'a Express)>;

/// A function and the ports above it, nearest first; empty if it has no link.
fn above<'a>(ctx: &'a Ctx<'_>, bdf: Bdf) -> Result<Chain<'a>, Why> {
    let device = ctx.forest.device(bdf).ok_or(Why::NotCovered)?;
    let mut chain = Vec::new();
    for device in std::iter::successors(Some(device), |device| ctx.forest.parent(device)) {
        match &device.config.express {
            Fact::Known(Some(express)) if express.port.is_integrated() => return Ok(Vec::new()),
            Fact::Known(Some(express)) => chain.push((device.bdf, express)),
            Fact::Known(None) => return Ok(Vec::new()),
            Fact::Unknown(why) => return Err(*why),
        }
    }
    Ok(chain)
}

/// The mismatch between a device and the ports above it.
fn mismatch(row: &Row, bdf: Bdf, express: &Express, chain: &Chain<'_>) -> Option<Judgement> {
    let subject = words::row(row);
    let own = express.max_payload;
    if let Some((port, there)) = chain.iter().skip(1).find(|(_, port)| port.max_payload < own) {
        let message = format!(
            "Packets of {subject} are too large: it may send {own} bytes in one, and the port {port} above it accepts {}; its writes are malformed there, which is a fatal error.",
            there.max_payload
        );
        let judgement = Judgement::broken(subject, message).weighing(Severity::Error);
        return Some(control(control(judgement, bdf, express), *port, there).advice(SAFE));
    }
    let (root, there) = chain.last().filter(|(root, _)| *root != bdf)?;
    (there.max_payload > own && express.max_read_request > own).then(|| {
        let message = format!(
            "{subject} accepts {own} bytes in a packet and requests {} at once, and the port {root} may answer with {}: such an answer is malformed.",
            express.max_read_request, there.max_payload
        );
        let judgement = Judgement::broken(subject, message).weighing(Severity::Warn);
        control(control(judgement, bdf, express), *root, there).advice(SAFE)
    })
}

/// Mismatches between pairs below a common bridge. Between root ports the root complex may split packets.
fn between(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let rows = &ctx.topology.rows;
    let mut judgements = Vec::new();
    let Ok(pairs) = pairs(ctx) else {
        return vec![too_many()];
    };
    for (a, b) in pairs {
        let path = match ctx.topology.route(a, b) {
            Ok(path) if matches!(path.meeting, Meeting::Bridge(_)) => path,
            _ => continue,
        };
        if [a, b].iter().any(|row| rows[*row].virtual_function.is_some()) {
            continue;
        }
        let payload = |bdf: Bdf| {
            let device = ctx.forest.device(bdf)?;
            Some((bdf, device.config.express.present()?))
        };
        let hops: Vec<_> = path.hops.iter().filter_map(|hop| payload(hop.bdf)).collect();
        let (Some((_, first)), Some((_, last))) = (hops.first(), hops.last()) else {
            continue;
        };
        // Each leg starts at the common bridge: `mismatch` covers the sender's own ports.
        let common =
            hops.iter().position(|(bdf, _)| path.meeting == Meeting::Bridge(*bdf)).unwrap_or(0);
        let legs = [(a, b, first, &hops[common..]), (b, a, last, &hops[..common])];
        for (from, to, sender, leg) in legs {
            let Some((bdf, receiver)) =
                leg.iter().find(|(_, receiver)| receiver.max_payload < sender.max_payload)
            else {
                continue;
            };
            let (from, to) = (words::row(&rows[from]), words::row(&rows[to]));
            let message = format!(
                "Packets of {from} are too large: it may send {} bytes in one, and on the path to {to} {bdf} accepts {}; writes between them are malformed there, which is a fatal error.",
                sender.max_payload, receiver.max_payload
            );
            let judgement =
                Judgement::broken(format!("{from} to {to}"), message).weighing(Severity::Error);
            judgements.push(control(judgement, *bdf, receiver).advice(SAFE));
        }
    }
    judgements
}

fn fits(ctx: &Ctx<'_>, good: &[Good<'_>]) -> Judgement {
    let subject = words::list(good.iter().map(|(row, ..)| words::row(row)));
    let least = good.iter().all(|(.., express)| express.max_payload == 128);
    let on_purpose = ctx
        .facts
        .kernel
        .command_line
        .known()
        .is_some_and(|line| line.contains("pcie_bus_peer2peer"));
    let judgement = match (least, on_purpose) {
        (true, true) => Judgement::info(
            subject,
            "Packets have at most 128 bytes, as pci=pcie_bus_peer2peer requests: all devices accept them, with more header overhead.",
        ),
        (true, false) => Judgement::info(
            subject,
            "Packets have at most 128 bytes, the minimum: the header overhead is higher than necessary.",
        )
        .advice("Look for Max Payload Size in the firmware's settings; 256 is usual."),
        (false, _) => Judgement::pass(
            subject,
            "No device sends larger packets than the ports and peers on its paths accept.",
        ),
    };
    good.iter().fold(judgement, |judgement, (_, bdf, express)| control(judgement, *bdf, express))
}

/// Largest Max_Read_Request_Size, in bytes.
const MAX_READ: u16 = 4096;

fn small_readers<'a, 'b>(good: &'b [Good<'a>]) -> impl Iterator<Item = &'b Good<'a>> {
    good.iter()
        .filter(|(row, _, express)| row.kind == Kind::Nic && express.max_read_request < MAX_READ)
}

/// NICs with a small Max_Read_Request_Size: not a fault, but the first thing to try if reads are slow.
fn reads(good: &[Good<'_>]) -> Option<Judgement> {
    let small: Vec<_> = small_readers(good).collect();
    let (_, first, _) = small.first()?;
    let subject = words::list(small.iter().map(|(row, ..)| words::row(row)));
    let message = format!(
        "{subject}: reads request less than {MAX_READ} bytes at once. If reads are slow, try {MAX_READ}."
    );
    let judgement =
        small.iter().fold(Judgement::info(subject, message), |judgement, (_, bdf, express)| {
            control(judgement, *bdf, express)
        });
    Some(judgement.fix("mrrs").command(format!("setpci -s {first} CAP_EXP+0x8.w=5000:7000")))
}

fn control(judgement: Judgement, bdf: Bdf, express: &Express) -> Judgement {
    judgement.evidence(
        format!("{bdf} config {:#05x}, Device Control", express.offset + 8),
        format!(
            "MaxPayload {} bytes, MaxReadReq {} bytes",
            express.max_payload, express.max_read_request
        ),
    )
}

#[cfg(test)]
mod tests;
