//! Several GPUs at once: one to all others, all others to one, and every ordered pair.

use gpu::{DeviceMemory, Pattern, PeerAccess, Stream};

use super::cluster::{Cluster, Member};
use super::integrity::LOOK_AT;
use super::task::{Pair, Unit};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{by_kernel, fill};
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::verdict::Promise;

/// Each copy moves so much at most: a GPU holds one for each of the others.
const LARGEST: usize = 128 << 20;

/// One GPU writes to all others.
pub fn one_to_all(
    cluster: &mut Cluster<'_>,
    gpu: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let unit = Unit::OneToAll(gpu);
    at_once(
        cluster,
        "p2p.one-to-all.bandwidth",
        unit,
        |pair| pair.from == gpu,
        reporter,
    )
}

/// All others write to one GPU.
pub fn all_to_one(
    cluster: &mut Cluster<'_>,
    gpu: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let unit = Unit::AllToOne(gpu);
    at_once(
        cluster,
        "p2p.all-to-one.bandwidth",
        unit,
        |pair| pair.to == gpu,
        reporter,
    )
}

/// Every GPU writes to every other.
pub fn all(cluster: &mut Cluster<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    at_once(
        cluster,
        "p2p.all-pairs.bandwidth",
        Unit::All,
        |_| true,
        reporter,
    )
}

/// A way that takes part: both GPUs, a buffer of each, and what is sent.
struct Part<'a> {
    pair: &'a Pair,
    here: &'a Member,
    there: &'a Member,
    from: DeviceMemory,
    to: DeviceMemory,
    sent: Pattern,
    /// A stream of its own: copies of one stream go one after the other.
    stream: Stream,
    _access: PeerAccess,
}

/// Pairs that are granted access, all at once: the sum of what they move, each copy compared.
fn at_once(
    cluster: &mut Cluster<'_>,
    name: &str,
    unit: Unit,
    takes_part: impl Fn(&Pair) -> bool,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let task = cluster.task;
    let pairs: Vec<&Pair> = task.pairs.iter().filter(|pair| takes_part(pair)).collect();
    for end in pairs.iter().flat_map(|pair| [pair.from, pair.to]) {
        // What cannot be opened was told, and takes no part.
        cluster.open(end, reporter)?;
    }
    cluster.begin(name, unit, reporter)?;
    let bytes = cluster
        .sizes()
        .last()
        .copied()
        .unwrap_or(4)
        .min(LARGEST)
        .next_multiple_of(16);
    let mut parts = Vec::new();
    for pair in pairs {
        let Some((here, there)) = cluster.member(pair.from).zip(cluster.member(pair.to)) else {
            continue;
        };
        if !here.gpu.can_access(&there.gpu)? {
            continue;
        }
        let part = Part {
            pair,
            here,
            there,
            from: here.take(bytes)?,
            to: there.take(bytes)?,
            sent: cluster.seeds.next(),
            stream: here.gpu.stream()?,
            _access: here.gpu.access(&there.gpu)?,
        };
        fill(&here.witness, &part.from, bytes, part.sent)?;
        fill(&there.witness, &part.to, bytes, cluster.seeds.next())?;
        parts.push(part);
    }
    let about = cluster.about(unit);
    let Some(first) = parts.first() else {
        let why = "no two of these GPUs may reach each other's memory".to_owned();
        return Ok(reporter.result(about.impossible(name, Some(bytes), false, why))?);
    };
    let lanes: Vec<Lane<'_>> = parts
        .iter()
        .map(|part| {
            Lane::new(&part.stream, || {
                part.stream.copy(&part.to, 0, &part.from, 0, bytes)
            })
        })
        .collect();
    let measured = measure(&first.here.gate, &lanes, Runs::of(bytes), cluster.budget())?;
    for part in &parts {
        if let Some(wrong) = by_kernel(&part.there.witness, &part.to, bytes, part.sent)? {
            let words = format!("{}: {wrong}. {LOOK_AT}", task.arrow(part.pair));
            return Ok(reporter.result(about.wrong(name, Some(bytes), words))?);
        }
    }
    let total = bytes * parts.len();
    let ways: Vec<Option<Promise>> = parts
        .iter()
        .map(|part| cluster.promise(part.pair, bytes))
        .collect();
    Ok(reporter.result(about.bandwidth(name, total, total, &measured.all, promise(&ways)))?)
}

/// All pairs move no more than all their ways carry. Below which share of it they are slow is not promised: that depends on
/// switches and links that several ways share.
fn promise(ways: &[Option<Promise>]) -> Option<Promise> {
    let values: Option<Vec<f64>> = ways
        .iter()
        .map(|way| way.map(|promise| promise.value))
        .collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(Promise {
        value: values.iter().sum(),
        share: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_together_are_bounded_by_their_sum_where_each_is_known() {
        let way = |value| {
            Some(Promise {
                value,
                share: Some(0.5),
            })
        };
        let bound = promise(&[way(25.0), way(50.0)]).expect("a bound");
        assert_eq!((bound.value, bound.share), (75.0, None));
        assert_eq!(promise(&[way(25.0), None]), None);
        assert_eq!(promise(&[]), None);
    }
}
