//! Several GPUs at once: one to all others, all others to one, and every ordered pair.

use gpu::{DeviceMemory, PeerAccess};

use super::cluster::{Cluster, Member};
use super::integrity::LOOK_AT;
use super::{Pair, Unit};
use crate::probe::events::Teller;
use crate::probe::integrity::{by_kernel, fill};
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::trouble::Trouble;
use crate::probe::verdict::Promise;

/// Each copy moves so much at most: a GPU holds one for each of the others.
const LARGEST: usize = 128 << 20;

/// One GPU writes to all others.
pub fn one_to_all(cluster: &mut Cluster<'_>, gpu: usize, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    let unit = Unit::OneToAll(gpu);
    at_once(
        cluster,
        "p2p.one-to-all.bandwidth",
        unit,
        |pair| pair.from == gpu,
        teller,
    )
}

/// All others write to one GPU.
pub fn all_to_one(cluster: &mut Cluster<'_>, gpu: usize, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    let unit = Unit::AllToOne(gpu);
    at_once(cluster, "p2p.all-to-one.bandwidth", unit, |pair| pair.to == gpu, teller)
}

/// Every GPU writes to every other.
pub fn all(cluster: &mut Cluster<'_>, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    at_once(cluster, "p2p.all-pairs.bandwidth", Unit::All, |_| true, teller)
}

/// A way that takes part: its stream's GPU, both buffers.
struct Part<'a> {
    here: &'a Member,
    there: &'a Member,
    from: DeviceMemory,
    to: DeviceMemory,
    /// A stream of its own: copies of one stream go one after the other.
    stream: gpu::Stream,
    _access: PeerAccess,
}

/// Pairs that are granted access, all at once: the sum of what they move, each copy compared.
fn at_once(
    cluster: &mut Cluster<'_>,
    name: &str,
    unit: Unit,
    takes_part: impl Fn(&Pair) -> bool,
    teller: &mut Teller<'_>,
) -> Result<(), Trouble> {
    let task = cluster.task;
    let pairs: Vec<&Pair> = task.pairs.iter().filter(|pair| takes_part(pair)).collect();
    for end in pairs.iter().flat_map(|pair| [pair.from, pair.to]) {
        // What cannot be opened was told, and takes no part.
        cluster.open(end, teller)?;
    }
    cluster.begin(name, unit, teller)?;
    let bytes = cluster
        .sizes()
        .last()
        .copied()
        .unwrap_or(4)
        .min(LARGEST)
        .next_multiple_of(16);
    let mut seeds = std::mem::take(&mut cluster.seeds);
    let (mut parts, mut patterns, mut promised) = (Vec::new(), Vec::new(), Vec::new());
    for pair in pairs {
        let Some((here, there)) = cluster.member(pair.from).zip(cluster.member(pair.to)) else {
            continue;
        };
        if !here.gpu.can_access(&there.gpu)? {
            continue;
        }
        let part = Part {
            here,
            there,
            from: here.take(bytes)?,
            to: there.take(bytes)?,
            stream: here.gpu.stream()?,
            _access: here.gpu.access(&there.gpu)?,
        };
        let (sent, before) = (seeds.next(), seeds.next());
        fill(&part.here.witness, &part.from, bytes, sent)?;
        fill(&part.there.witness, &part.to, bytes, before)?;
        parts.push(part);
        patterns.push(sent);
        promised.push(cluster.promise(pair, bytes));
    }
    let about = cluster.about(unit);
    let outcome = match parts.first() {
        None => {
            let why = "no two of these GPUs may reach each other's memory".to_owned();
            Ok(about.impossible(name, Some(bytes), false, why))
        }
        Some(first) => {
            let lanes: Vec<Lane<'_>> = parts
                .iter()
                .map(|part| Lane::new(&part.stream, || part.stream.copy(&part.to, 0, &part.from, 0, bytes)))
                .collect();
            let measured = measure(&first.here.gate, &lanes, Runs::of(bytes), cluster.budget())?;
            let wrong = parts.iter().zip(patterns).find_map(|(part, sent)| {
                let found = by_kernel(&part.there.witness, &part.to, bytes, sent);
                found.transpose().map(|wrong| (part, wrong))
            });
            match wrong {
                Some((part, wrong)) => {
                    let (from, to) = (part.here.gpu.device().ordinal, part.there.gpu.device().ordinal);
                    let words = format!("from CUDA's device {from} to {to}: {}. {LOOK_AT}", wrong?);
                    Ok(about.wrong(name, Some(bytes), words))
                }
                None => {
                    let total = bytes * parts.len();
                    let promise = promise(&promised);
                    Ok(about.bandwidth(name, total, total, &measured.all, promise))
                }
            }
        }
    };
    drop(parts);
    cluster.seeds = seeds;
    let result: Result<_, Trouble> = outcome;
    Ok(teller.result(result?)?)
}

/// All pairs move no more than all their ways carry. Below which share of it they are slow is not promised: that depends on
/// switches and links that several ways share.
fn promise(ways: &[Option<Promise>]) -> Option<Promise> {
    let values: Option<Vec<f64>> = ways.iter().map(|way| way.map(|promise| promise.value)).collect();
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
