//! Which ports the traffic of GPUs passes, and what each does to it: the ground that pcie.acs judges on.
//!
//! The pairs are each GPU with its best NICs, and GPUs with each other where no NVLink joins them. Of a pair that meets
//! below a switch, the switch's ports on both legs count; of one that meets at the root complex, its root ports alone:
//! below them everything goes up anyway.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{Ctx, passthrough, words};
use crate::model::{Bdf, Fact, Kind, Meeting, Path, Row, Severity, Why};
use crate::topo::{self, Redirect, Role};

/// All ports on the ways of the pairs.
#[derive(Default)]
pub struct Ports {
    /// How many pairs were looked at.
    pub pairs: usize,
    /// Ports that let every pair through.
    pub clean: BTreeSet<Bdf>,
    /// Ports, clean or not, that a pair's traffic would suffer from.
    pub worth: BTreeSet<Bdf>,
    /// Ports that send a pair's traffic up, or stop it.
    pub redirecting: BTreeMap<Bdf, Redirecting>,
    /// Ports whose control register could not be read, and why.
    pub unknown: BTreeMap<Bdf, Why>,
    /// Devices whose place in the tree is not known, so that neither are their ways.
    pub lost: Vec<String>,
}

/// One port that redirects.
pub struct Redirecting {
    /// The bits, by lspci's names.
    pub bits: Vec<&'static str>,
    /// The control register without them.
    pub cleared: u16,
    /// Where that register is.
    pub register: u16,
    /// Error where a pair below a common switch suffers.
    pub weight: Severity,
    /// The pairs, in words.
    pub pairs: Vec<String>,
    /// The ends of those pairs.
    pub ends: BTreeSet<Bdf>,
}

/// Looks at every pair.
pub fn ports(ctx: &Ctx<'_>) -> Ports {
    let mut ports = Ports {
        lost: lost(ctx),
        ..Ports::default()
    };
    for (a, b) in pairs(ctx) {
        look(ctx, a, b, &mut ports);
    }
    // A port may be clean for one pair and in the way of another.
    ports.clean.retain(|port| !ports.redirecting.contains_key(port));
    ports
}

/// Whether a port is known to send a pair's traffic up where clearing its bits would mend that.
pub fn redirecting(ctx: &Ctx<'_>) -> bool {
    let found = ports(ctx);
    found.redirecting.values().any(|port| port.weight > Severity::Info)
}

/// The devices without a known place, where they could have a partner.
fn lost(ctx: &Ctx<'_>) -> Vec<String> {
    let alone = super::own(ctx).count() < 2 || super::own(ctx).all(|(row, _)| row.kind != Kind::Gpu);
    super::own(ctx)
        .filter(|(row, bdf)| {
            let place = ctx.facts.device(*bdf).and_then(|of| of.place.known());
            !alone && place.is_none_or(|place| !place.rooted && has_unknown_pair(ctx, row))
        })
        .map(|(row, _)| words::row(row))
        .collect()
}

/// Whether it is not known how a device meets another: bridges that the source does not tell of are above them.
fn has_unknown_pair(ctx: &Ctx<'_>, row: &Row) -> bool {
    let me = ctx.topology.number(row);
    let others = ctx
        .topology
        .rows
        .iter()
        .enumerate()
        .filter(|(_, other)| other.kind != Kind::Nvme);
    me.is_some_and(|me| {
        others
            .filter_map(|(other, _)| ctx.topology.pair(me, other))
            .any(|pair| pair.pci.known().is_none())
    })
}

/// Each GPU with its best NICs, and GPUs with each other where no NVLink is known to join them. What is handed to a
/// virtual machine has no pair here.
pub fn pairs(ctx: &Ctx<'_>) -> Vec<(usize, usize)> {
    let topology = ctx.topology;
    let is_gpu = |row: usize| topology.rows.get(row).is_some_and(|row| row.kind == Kind::Gpu);
    let with_nics = topology.matches.iter().filter(|of| is_gpu(of.row));
    let mut pairs: Vec<_> = with_nics
        .flat_map(|of| of.best.iter().map(|nic| (of.row, *nic)))
        .collect();
    let gpus: Vec<usize> = topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    for (at, a) in gpus.iter().enumerate() {
        for b in &gpus[at + 1..] {
            if !is_joined(ctx, *a, *b) {
                pairs.push((*a, *b));
            }
        }
    }
    let is_handed = |row: usize| {
        let device = topology.rows.get(row).and_then(|row| ctx.facts.device(row.bdf?));
        device.is_some_and(|device| passthrough::holder(device).is_some())
    };
    pairs.retain(|(a, b)| !is_handed(*a) && !is_handed(*b));
    pairs
}

/// Whether NVLink is known to join a pair.
pub fn is_joined(ctx: &Ctx<'_>, a: usize, b: usize) -> bool {
    let pair = ctx.topology.pair(a, b);
    pair.is_some_and(|pair| pair.nvlinks.known().is_some_and(|links| *links > 0))
}

/// What the ports do whose access control a pair's traffic goes by. What goes up to the root complex anyhow passes the
/// ports of switches whatever their bits are.
pub fn governing(ctx: &Ctx<'_>, path: &Path) -> impl Iterator<Item = Redirect> {
    let below_a_switch = matches!(path.meeting, Meeting::Bridge(_));
    let redirects = topo::redirects(ctx.forest, path).into_iter();
    redirects.filter(move |redirect| {
        let role = ctx.forest.device(redirect.port).map(|device| ctx.forest.role(device));
        below_a_switch || role != Some(Role::DownstreamPort)
    })
}

fn look(ctx: &Ctx<'_>, a: usize, b: usize, ports: &mut Ports) {
    let name = in_words(ctx, a, b);
    ports.pairs += 1;
    let Ok(path) = ctx.topology.route(a, b) else {
        // Two rows of one function, or a place that is not known.
        return;
    };
    let weight = match path.meeting {
        Meeting::Bridge(_) => Severity::Error,
        Meeting::HostBridge(_) => Severity::Warn,
        // Between host bridges it goes through the root complex whatever the bits are, and that the way is long is
        // pcie.locality's to say. The kernel sets these bits wherever an IOMMU is on: a warning would be on every such
        // machine, and clearing them mends nothing.
        Meeting::Interconnect(..) => Severity::Info,
    };
    for redirect in governing(ctx, &path) {
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
            bits: Vec::new(),
            cleared: redirect.cleared,
            register: redirect.register,
            weight,
            pairs: Vec::new(),
            ends: BTreeSet::new(),
        });
        port.bits.extend(bits);
        port.bits.sort_unstable();
        port.bits.dedup();
        // Each pair clears what is in its way.
        port.cleared &= redirect.cleared;
        // Who suffers most is named.
        if weight > port.weight {
            port.weight = weight;
            port.pairs.clear();
            port.ends.clear();
        }
        if weight == port.weight {
            port.pairs.push(name.clone());
            port.ends
                .extend([a, b].iter().filter_map(|row| ctx.topology.rows[*row].bdf));
        }
    }
}

/// The pair in words, with its class, and with the doubt whether NVLink joins it.
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
