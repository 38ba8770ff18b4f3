//! pcie.payload: nobody on a way sends larger packets than the next one takes.
//!
//! PCI Express Base Specification, 2.2.2 and 7.5.3.4: a packet whose payload exceeds the receiver's Max_Payload_Size is
//! malformed, which is fatal. A function sends up to its own; what it reads comes in packets of up to the root port's, as
//! far as it asks for that much at once.

use super::acs::too_many;
use super::ports::pairs;
use super::{Ctx, own};
use crate::check::{Judgement, unknown_if, words};
use crate::model::config::Express;
use crate::model::{Bdf, Fact, Kind, Meeting, Row, Severity, Why};

const SAFE: &str = "Add pci=pcie_bus_safe to the kernel command line and reboot: the kernel then gives all devices below one root \
                    port the same payload.";

/// What falls short on the way of each device and pair; one judgement for all that fit.
pub fn payload(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", "/sys/bus/pci/devices") {
        return vec![unknown];
    }
    if ctx.facts.platform.is_guest() {
        return vec![Judgement::skip(
            "machine",
            "In a guest the ports and their payload sizes belong to the host.",
        )];
    }
    let Looked {
        short: mut judgements,
        good,
        unknown,
    } = look(ctx);
    judgements.extend(between(ctx));
    if !good.is_empty() && judgements.is_empty() {
        judgements.push(fits(ctx, &good));
    }
    judgements.extend(reads(&good));
    if let Some((_, why)) = unknown.first() {
        let names = words::list(unknown.iter().map(|(bdf, _)| bdf));
        let source =
            format!("/sys/bus/pci/devices/*/config, Device Control, of {names} and what is above");
        judgements.push(Judgement::unknown(names, *why, &source));
    }
    match judgements.is_empty() {
        true => vec![Judgement::skip(
            "machine",
            "No GPU and no NIC has a link above it.",
        )],
        false => judgements,
    }
}

/// NICs that ask for less than 4096 bytes at once on ways that are as they should be.
pub fn small_reads(ctx: &Ctx<'_>) -> Vec<Bdf> {
    match ctx.facts.platform.is_guest() {
        true => Vec::new(),
        false => asking_for_less(&look(ctx).good)
            .map(|(_, bdf, _)| *bdf)
            .collect(),
    }
}

/// What was seen of each device with the ports above it.
#[derive(Default)]
struct Looked<'a> {
    short: Vec<Judgement>,
    good: Vec<Good<'a>>,
    /// Those that could not be read.
    unknown: Vec<(Bdf, Why)>,
}

type Good<'a> = (&'a Row, Bdf, &'a Express);

fn look<'a>(ctx: &'a Ctx<'_>) -> Looked<'a> {
    let mut looked = Looked::default();
    for (row, bdf) in own(ctx).filter(|(row, _)| row.physical_function.is_none()) {
        let above = match above(ctx, bdf) {
            Ok(above) => above,
            Err(why) => {
                looked.unknown.push((bdf, why));
                continue;
            }
        };
        let Some((_, express)) = above.first().copied() else {
            // Integrated into the root complex, or not PCI Express: there is no link.
            continue;
        };
        match short(row, bdf, express, &above) {
            Some(judgement) => looked.short.push(judgement),
            None => looked.good.push((row, bdf, express)),
        }
    }
    looked
}

type Way<'a> = Vec<(Bdf, &'a Express)>;

/// A function and the ports above it, the nearest first; empty where it has no link.
fn above<'a>(ctx: &'a Ctx<'_>, bdf: Bdf) -> Result<Way<'a>, Why> {
    let device = ctx.forest.device(bdf).ok_or(Why::NotCovered)?;
    let mut way = Vec::new();
    for device in std::iter::successors(Some(device), |device| ctx.forest.parent(device)) {
        match &device.config.express {
            Fact::Known(Some(express)) if express.port.is_integrated() => return Ok(Vec::new()),
            Fact::Known(Some(express)) => way.push((device.bdf, express)),
            Fact::Known(None) => return Ok(Vec::new()),
            Fact::Unknown(why) => return Err(*why),
        }
    }
    Ok(way)
}

/// What is wrong between one device and the ports above it.
fn short(row: &Row, bdf: Bdf, express: &Express, way: &Way<'_>) -> Option<Judgement> {
    let subject = words::row(row);
    let own = express.max_payload;
    if let Some((port, there)) = way.iter().skip(1).find(|(_, port)| port.max_payload < own) {
        let message = format!(
            "{subject} may send {own} bytes in a packet, and the port {port} above it accepts {}: its writes are malformed there, which is a fatal error.",
            there.max_payload
        );
        let judgement = Judgement::broken(subject, message).weighing(Severity::Error);
        return Some(control(control(judgement, bdf, express), *port, there).advice(SAFE));
    }
    let (root, there) = way.last().filter(|(root, _)| *root != bdf)?;
    (there.max_payload > own && express.max_read_request > own).then(|| {
        let message = format!(
            "{subject} accepts {own} bytes in a packet and requests {} at once, and the port {root} may answer with {}: such an answer is malformed.",
            express.max_read_request, there.max_payload
        );
        let judgement = Judgement::broken(subject, message).weighing(Severity::Warn);
        control(control(judgement, bdf, express), *root, there).advice(SAFE)
    })
}

/// Pairs below a common bridge, of which one sends more than the other takes. The root complex may cut packets up.
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
        if [a, b]
            .iter()
            .any(|row| rows[*row].physical_function.is_some())
        {
            continue;
        }
        let payload = |bdf: Bdf| {
            let device = ctx.forest.device(bdf)?;
            Some((bdf, device.config.express.present()?))
        };
        let hops: Vec<_> = path
            .hops
            .iter()
            .filter_map(|hop| payload(hop.bdf))
            .collect();
        let (Some((_, first)), Some((_, last))) = (hops.first(), hops.last()) else {
            continue;
        };
        // What a device's own ports take is told with the device.
        let turn = hops
            .iter()
            .position(|(bdf, _)| path.meeting == Meeting::Bridge(*bdf))
            .unwrap_or(0);
        let legs = [(a, b, first, &hops[turn..]), (b, a, last, &hops[..turn])];
        for (from, to, sender, leg) in legs {
            let Some((bdf, taker)) = leg
                .iter()
                .find(|(_, taker)| taker.max_payload < sender.max_payload)
            else {
                continue;
            };
            let (from, to) = (words::row(&rows[from]), words::row(&rows[to]));
            let message = format!(
                "{from} may send {} bytes in a packet, and on the path to {to} {bdf} accepts {}: writes between them are malformed there, which is a fatal error.",
                sender.max_payload, taker.max_payload
            );
            let judgement =
                Judgement::broken(format!("{from} to {to}"), message).weighing(Severity::Error);
            judgements.push(control(judgement, *bdf, taker).advice(SAFE));
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
    good.iter().fold(judgement, |judgement, (_, bdf, express)| {
        control(judgement, *bdf, express)
    })
}

/// What a NIC should ask for at once, bytes: the most there is.
const BEST: u16 = 4096;

fn asking_for_less<'a, 'b>(good: &'b [Good<'a>]) -> impl Iterator<Item = &'b Good<'a>> {
    good.iter()
        .filter(|(row, _, express)| row.kind == Kind::Nic && express.max_read_request < BEST)
}

/// NICs that ask for less than 4096 bytes at once: no fault, and where a transfer is slow the first thing to try.
fn reads(good: &[Good<'_>]) -> Option<Judgement> {
    let small: Vec<_> = asking_for_less(good).collect();
    let (_, first, _) = small.first()?;
    let subject = words::list(small.iter().map(|(row, ..)| words::row(row)));
    let message = format!(
        "{subject}: reads request less than {BEST} bytes at once. If reads are slow, try {BEST}."
    );
    let judgement = small.iter().fold(
        Judgement::info(subject, message),
        |judgement, (_, bdf, express)| control(judgement, *bdf, express),
    );
    Some(
        judgement
            .fix("mrrs")
            .command(format!("setpci -s {first} CAP_EXP+0x8.w=5000:7000")),
    )
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
