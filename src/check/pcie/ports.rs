//! Which ports the traffic of GPUs passes, and what each does to it: the ground that pcie.acs judges on.
//!
//! The pairs are each GPU with its best NICs, and GPUs with each other where no NVLink joins them. Of a pair that meets
//! below a switch, the switch's ports on both legs count; of one that meets at the root complex, its root ports alone:
//! below them everything goes up anyway.

use std::collections::{BTreeMap, BTreeSet};

use super::is_translated;
use crate::check::{Ctx, passthrough, words};
use crate::model::{Bdf, Fact, Kind, Meeting, Path, Row, Severity, Why};
use crate::topo::{self, MAX_PATHS, Redirect, Role};

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
    /// There are more pairs than gdr computes the paths of: none was looked at.
    pub too_many: bool,
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
    /// The first pairs, in words.
    pub pairs: Vec<String>,
    /// How many there are.
    pub pair_count: usize,
    /// The IOMMU translates the addresses of an end of one of them.
    pub translated: bool,
}

/// How many pairs are named: sixteen devices make a hundred.
const NAMED: usize = 4;

/// Looks at every pair.
pub fn ports(ctx: &Ctx<'_>) -> Ports {
    let mut ports = Ports {
        lost: lost(ctx),
        ..Ports::default()
    };
    let Ok(pairs) = pairs(ctx) else {
        ports.too_many = true;
        return ports;
    };
    let is_translated = |row: &Row| row.bdf.is_some_and(|bdf| is_translated(ctx, bdf));
    let translated: Vec<bool> = ctx.topology.rows.iter().map(is_translated).collect();
    for (a, b) in pairs {
        look(ctx, (a, b), translated[a] || translated[b], &mut ports);
    }
    // A port may be clean for one pair and in the way of another.
    ports
        .clean
        .retain(|port| !ports.redirecting.contains_key(port));
    ports
}

/// Whether a port is known to send a pair's traffic up where clearing its bits would mend that.
pub fn redirecting(ctx: &Ctx<'_>) -> bool {
    let found = ports(ctx);
    found
        .redirecting
        .values()
        .any(|port| port.weight > Severity::Info)
}

/// The devices without a known place, where they could have a partner.
fn lost(ctx: &Ctx<'_>) -> Vec<String> {
    let alone =
        super::own(ctx).count() < 2 || super::own(ctx).all(|(row, _)| row.kind != Kind::Gpu);
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

/// There are more pairs than gdr computes the paths of.
pub struct TooMany;

/// Each GPU with its best NICs, and GPUs with each other where no NVLink is known to join them. What is handed to a
/// virtual machine has no pair here.
pub fn pairs(ctx: &Ctx<'_>) -> Result<Vec<(usize, usize)>, TooMany> {
    let topology = ctx.topology;
    if !topology.has_all_pairs() {
        return Err(TooMany);
    }
    let is_handed = |row: usize| {
        let holder = topology.device(row).and_then(passthrough::holder);
        holder.is_some()
    };
    let handed: Vec<bool> = (0..topology.rows.len()).map(is_handed).collect();
    let gpus: Vec<usize> = topology
        .rows_of(Kind::Gpu)
        .map(|(at, _)| at)
        .filter(|at| !handed[*at])
        .collect();
    let with_nics = topology
        .matches
        .iter()
        .filter(|of| gpus.binary_search(&of.row).is_ok());
    let with_nics = with_nics.flat_map(|of| of.best.iter().map(|nic| (of.row, *nic)));
    let with_gpus = gpus.iter().enumerate().flat_map(|(at, a)| {
        let others = gpus[at + 1..].iter();
        others
            .filter(|b| !is_joined(ctx, *a, **b))
            .map(|b| (*a, *b))
    });
    let pairs = with_nics.filter(|(_, nic)| !handed[*nic]).chain(with_gpus);
    let pairs: Vec<(usize, usize)> = pairs.take(MAX_PATHS + 1).collect();
    match pairs.len() <= MAX_PATHS {
        true => Ok(pairs),
        false => Err(TooMany),
    }
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
        let role = ctx
            .forest
            .device(redirect.port)
            .map(|device| ctx.forest.role(device));
        below_a_switch || role != Some(Role::DownstreamPort)
    })
}

fn look(ctx: &Ctx<'_>, (a, b): (usize, usize), translated: bool, ports: &mut Ports) {
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
        let port = ports
            .redirecting
            .entry(redirect.port)
            .or_insert_with(|| Redirecting {
                bits: Vec::new(),
                cleared: redirect.cleared,
                register: redirect.register,
                weight,
                pairs: Vec::new(),
                pair_count: 0,
                translated: false,
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

/// The pair in words, with its class, and with the doubt whether NVLink joins it.
fn in_words(ctx: &Ctx<'_>, a: usize, b: usize) -> String {
    let rows = &ctx.topology.rows;
    let pair = ctx.topology.pair(a, b);
    let class = ctx
        .topology
        .class(a, b)
        .map_or("?", |class| class.letters());
    let doubt = match pair.map(|pair| pair.nvlinks) {
        Some(Fact::Unknown(_)) if rows[b].kind == Kind::Gpu => ", if no NVLink joins them",
        _ => "",
    };
    format!("{} and {} ({class}{doubt})", rows[a].name, rows[b].name)
}
