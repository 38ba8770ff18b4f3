//! Concurrent copies: one GPU to all others, all others to one, and every ordered pair.

use gpu::{DeviceMemory, Pattern, PeerAccess, Stream};

use super::cluster::{Cluster, Member};
use super::task::{OrderedPair, Unit};
use crate::model::figure::p2p;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{LOOK_AT, by_kernel, fill};
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::verdict::Promise;

/// Largest copy: each GPU holds one buffer for each of the others.
const LARGEST: usize = 128 << 20;

/// The copy of one pair.
struct PairCopy<'a> {
    pair: &'a OrderedPair,
    local_gpu: &'a Member,
    remote_gpu: &'a Member,
    from: DeviceMemory,
    to: DeviceMemory,
    sent: Pattern,
    /// Not shared: copies of one stream run one after another.
    stream: Stream,
    _access: PeerAccess,
}

/// Runs the copies of all pairs of a unit that have peer access together. The result is the sum; each copy is verified.
pub fn run(
    cluster: &mut Cluster<'_>,
    unit: Unit,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let name = match unit {
        Unit::OneToAll(_) => p2p::ONE_TO_ALL.name,
        Unit::AllToOne(_) => p2p::ALL_TO_ONE.name,
        Unit::Alone(_) | Unit::Pair(_) | Unit::Curve(_) | Unit::All => p2p::ALL_PAIRS.name,
    };
    let is_selected = |pair: &&OrderedPair| match unit {
        Unit::OneToAll(gpu) => pair.from == gpu,
        Unit::AllToOne(gpu) => pair.to == gpu,
        Unit::Alone(_) | Unit::Pair(_) | Unit::Curve(_) | Unit::All => true,
    };
    let task = cluster.task;
    let pairs: Vec<&OrderedPair> = task.pairs.iter().filter(is_selected).collect();
    for end in pairs.iter().flat_map(|pair| [pair.from, pair.to]) {
        // A GPU that cannot be opened is reported once, and its pairs are skipped.
        cluster.open(end, reporter)?;
    }
    cluster.begin(name, unit, reporter)?;
    let bytes = cluster.largest().min(LARGEST).next_multiple_of(16);
    let mut copies = Vec::new();
    for pair in pairs {
        let Some((local_gpu, remote_gpu)) = cluster.members(pair) else {
            continue;
        };
        if !local_gpu.gpu.can_access(&remote_gpu.gpu)? {
            continue;
        }
        let copy = PairCopy {
            pair,
            local_gpu,
            remote_gpu,
            from: local_gpu.allocate(bytes)?,
            to: remote_gpu.allocate(bytes)?,
            sent: cluster.seeds.next(),
            stream: local_gpu.gpu.stream()?,
            _access: local_gpu.gpu.access(&remote_gpu.gpu)?,
        };
        fill(&local_gpu.witness, &copy.from, bytes, copy.sent)?;
        fill(&remote_gpu.witness, &copy.to, bytes, cluster.seeds.next())?;
        copies.push(copy);
    }
    let about = cluster.about(unit);
    let Some(first) = copies.first() else {
        let why = "no two of these GPUs have peer access".to_owned();
        return Ok(reporter.result(about.impossible(name, Some(bytes), false, why))?);
    };
    let lanes: Vec<Lane<'_>> = copies
        .iter()
        .map(|copy| Lane::new(&copy.stream, || copy.stream.copy(&copy.to, 0, &copy.from, 0, bytes)))
        .collect();
    let measured = measure(&first.local_gpu.gate, &lanes, Runs::of(bytes), cluster.budget())?;
    for copy in &copies {
        if let Some(wrong) = by_kernel(&copy.remote_gpu.witness, &copy.to, bytes, copy.sent)? {
            let reason = format!("{}: {wrong}. {LOOK_AT}", task.arrow(copy.pair));
            return Ok(reporter.result(about.wrong(name, Some(bytes), reason))?);
        }
    }
    let total = bytes * copies.len();
    let paths: Vec<Option<Promise>> =
        copies.iter().map(|copy| cluster.promise(copy.pair, bytes)).collect();
    Ok(reporter.result(about.bandwidth(name, total, total, &measured.all, promise(&paths)))?)
}

/// The upper bound of all pairs together: the sum of their paths. No share: it depends on switches and links that several paths
/// use.
fn promise(paths: &[Option<Promise>]) -> Option<Promise> {
    let values: Option<Vec<f64>> =
        paths.iter().map(|path| path.map(|promise| promise.value)).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(Promise { value: values.iter().sum(), share: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_the_sum_of_known_paths() {
        let path = |value| Some(Promise { value, share: Some(0.5) });
        let bound = promise(&[path(25.0), path(50.0)]).expect("a bound");
        assert_eq!((bound.value, bound.share), (75.0, None));
        assert_eq!(promise(&[path(25.0), None]), None);
        assert_eq!(promise(&[]), None);
    }
}
