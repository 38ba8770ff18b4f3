//! The ports on peer-to-peer paths and what their ACS bits do; input to pcie.acs.
//!
//! Pairs are each GPU with its best NICs, and GPUs without a connecting NVLink. Below a common
//! switch the switch ports on both legs count; at the root complex only the root ports count,
//! because all traffic below them goes up anyway.

use std::collections::{BTreeMap, BTreeSet};

use super::is_translated;
use crate::check::{Ctx, nics, unidentified, words};
use crate::model::{AcsBits, Bdf, Fact, Kind, Meeting, Row, Severity, Why};
use crate::topo::MAX_PATHS;

#[derive(Default)]
pub struct Ports {
    pub pairs: usize,
    /// Ports whose ACS bits redirect no pair.
    pub clean: BTreeSet<Bdf>,
    /// Ports whose ACS redirection would hurt some pair.
    pub worth: BTreeSet<Bdf>,
    /// Ports that redirect or block a pair's traffic.
    pub redirecting: BTreeMap<Bdf, Redirecting>,
    pub unknown: BTreeMap<Bdf, Why>,
    /// Devices with an unknown place in the PCI tree.
    pub lost: Vec<String>,
    /// The pair limit is exceeded; no pair was examined.
    pub too_many: bool,
}

pub struct Redirecting {
    pub bits: AcsBits,
    /// Offset of the register.
    pub register: u16,
    /// Error if a pair below a common switch is affected.
    pub weight: Severity,
    pub pairs: Vec<String>,
    pub pair_count: usize,
    /// The IOMMU translates addresses for an endpoint of one of the pairs.
    pub translated: bool,
}

/// Pairs named in a message; sixteen devices make over a hundred.
const NAMED: usize = 4;

pub fn ports(ctx: &Ctx<'_>) -> Ports {
    let mut ports = Ports { lost: lost(ctx), ..Ports::default() };
    let Ok(pairs) = pairs(ctx) else {
        ports.too_many = true;
        return ports;
    };
    let is_translated = |row: &Row| row.bdf.is_some_and(|bdf| is_translated(ctx, bdf));
    let translated: Vec<bool> = ctx.topology.rows.iter().map(is_translated).collect();
    for (a, b) in pairs {
        look(ctx, (a, b), translated[a] || translated[b], &mut ports);
    }
    // A port may be clean for one pair and redirect another.
    ports.clean.retain(|port| !ports.redirecting.contains_key(port));
    ports
}

/// True if a port redirects a pair's traffic and clearing its ACS bits would help.
pub fn redirecting(ctx: &Ctx<'_>) -> Fact<bool> {
    let found = ports(ctx);
    let mut redirecting = found.redirecting.values();
    if redirecting.any(|port| port.weight > Severity::Info) {
        return Fact::Known(true);
    }
    let facts = ctx.facts;
    let hidden = unidentified(facts).is_some() || !found.lost.is_empty() || found.too_many;
    let unread = found.unknown.values().next().copied();
    let why = facts.pci.why().or(facts.rdma.why()).or(unread);
    match why.or(hidden.then_some(Why::NotCovered)) {
        Some(why) => Fact::Unknown(why),
        None => Fact::Known(false),
    }
}

/// Devices with an unknown place that could have a partner.
fn lost(ctx: &Ctx<'_>) -> Vec<String> {
    let alone =
        super::own(ctx).count() < 2 || super::own(ctx).all(|(row, _)| row.kind != Kind::Gpu);
    let own = super::own(ctx).filter(|(row, bdf)| {
        let place = ctx.facts.device(*bdf).and_then(|device| device.place.known());
        !alone && place.is_none_or(|place| !place.rooted && has_unknown_pair(ctx, row))
    });
    let nics = nics::rdma_nics(ctx.facts).filter(|nic| nic.place.known().is_none());
    own.map(|(row, _)| words::row(row)).chain(nics.map(|nic| nic.name.clone())).collect()
}

/// True if bridges that are missing from the snapshot hide how the row's devices meet.
fn has_unknown_pair(ctx: &Ctx<'_>, row: &Row) -> bool {
    let me = ctx.topology.number(row);
    let others = ctx.topology.rows.iter().enumerate().filter(|(_, other)| other.kind != Kind::Nvme);
    me.is_some_and(|me| {
        others
            .filter_map(|(other, _)| ctx.topology.pair(me, other))
            .any(|pair| pair.pci.known().is_none())
    })
}

pub struct TooMany;

/// Each GPU with its best NICs, and GPUs without a known NVLink between them. Devices passed
/// through to a virtual machine are excluded.
pub fn pairs(ctx: &Ctx<'_>) -> Result<Vec<(usize, usize)>, TooMany> {
    let topology = ctx.topology;
    if !topology.has_all_pairs() {
        return Err(TooMany);
    }
    let is_passed_through = |row: usize| {
        let device = topology.device(row);
        device.is_some_and(|device| device.passthrough_driver().is_some())
    };
    let passed_through: Vec<bool> = (0..topology.rows.len()).map(is_passed_through).collect();
    let gpus: Vec<usize> =
        topology.rows_of(Kind::Gpu).map(|(at, _)| at).filter(|at| !passed_through[*at]).collect();
    let with_nics = topology.matches.iter().filter(|found| gpus.binary_search(&found.row).is_ok());
    let with_nics = with_nics.flat_map(|found| found.best.iter().map(|nic| (found.row, *nic)));
    let with_gpus = gpus.iter().enumerate().flat_map(|(at, a)| {
        let others = gpus[at + 1..].iter();
        others.filter(|b| !is_joined(ctx, *a, **b)).map(|b| (*a, *b))
    });
    let pairs = with_nics.filter(|(_, nic)| !passed_through[*nic]).chain(with_gpus);
    let pairs: Vec<(usize, usize)> = pairs.take(MAX_PATHS + 1).collect();
    if pairs.len() <= MAX_PATHS { Ok(pairs) } else { Err(TooMany) }
}

pub fn is_joined(ctx: &Ctx<'_>, a: usize, b: usize) -> bool {
    let pair = ctx.topology.pair(a, b);
    pair.is_some_and(|pair| pair.nvlinks.known().is_some_and(|links| *links > 0))
}

fn look(ctx: &Ctx<'_>, (a, b): (usize, usize), translated: bool, ports: &mut Ports) {
    ports.pairs += 1;
    let Ok(path) = ctx.topology.route(a, b) else {
        // Two rows of one function, or an unknown place.
        return;
    };
    let weight = match path.meeting {
        Meeting::Bridge(_) => Severity::Error,
        Meeting::HostBridge(_) => Severity::Warn,
        // Traffic between host bridges uses the root complex whatever the bits are; pcie.locality
        // reports that. The kernel sets these bits whenever an IOMMU is on, so a warning would
        // appear on every such machine, and clearing them would not help.
        Meeting::Interconnect(..) => Severity::Info,
    };
    for redirect in ctx.topology.governing(&path) {
        if weight > Severity::Info {
            ports.worth.insert(redirect.port);
        }
        let bits = match redirect.bits {
            Fact::Known(bits) if bits.is_empty() => {
                ports.clean.insert(redirect.port);
                continue;
            }
            Fact::Known(bits) => bits,
            Fact::Unknown(why) => {
                ports.unknown.insert(redirect.port, why);
                continue;
            }
        };
        let port = ports.redirecting.entry(redirect.port).or_insert_with(|| Redirecting {
            bits: AcsBits::default(),
            register: redirect.register,
            weight,
            pairs: Vec::new(),
            pair_count: 0,
            translated: false,
        });
        port.bits = port.bits | bits;
        if weight > port.weight {
            port.weight = weight;
            port.pairs.clear();
            port.pair_count = 0;
            port.translated = false;
        }
        if weight == port.weight {
            if port.pairs.len() < NAMED {
                port.pairs.push(in_words(ctx, a, b));
            }
            port.pair_count += 1;
            port.translated |= translated;
        }
    }
}

/// The pair with its class, and a note if NVLink between them is unknown.
fn in_words(ctx: &Ctx<'_>, a: usize, b: usize) -> String {
    let rows = &ctx.topology.rows;
    let pair = ctx.topology.pair(a, b);
    let class = ctx.topology.class(a, b).map_or("?", |class| class.letters());
    let doubt = match pair.map(|pair| pair.nvlinks) {
        Some(Fact::Unknown(_)) if rows[b].kind == Kind::Gpu => ", if no NVLink joins them",
        _ => "",
    };
    format!("{} and {} ({class}{doubt})", rows[a].name, rows[b].name)
}
