//! Which part of a fleet is at fault, from measurements between its NICs. Pure. docs/tasks/cluster.md explains the rule.

mod entity;
mod fit;
mod noise;
#[cfg(test)]
mod tests;

pub use entity::{Entity, Nic};
pub use noise::median;

use super::schedule::Phase;
use entity::{Members, Sample};
use fit::{Explained, explain};

/// The parts of the fleet between which it is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    pub nodes: usize,
    /// The most NICs of a node.
    pub rails: usize,
    /// Of each leaf switch the NICs that hang on it.
    pub leaves: Vec<Vec<Nic>>,
}

/// What was measured between two NICs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    pub phase: Phase,
    pub client: Nic,
    pub server: Nic,
    /// Bandwidth from the client to the server, GB/s; `None` if it was not measured.
    pub there: Option<f64>,
    /// From the server to the client.
    pub back: Option<f64>,
    /// Half the round-trip time, us.
    pub latency: Option<f64>,
    /// How much counters of losses and of bad links rose at both ends.
    pub lost: u64,
    /// They could not connect, or the transfer failed.
    pub failed: bool,
}

/// What a fault shows in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symptom {
    /// Nothing gets through.
    Dead,
    Bandwidth,
    Latency,
    Loss,
}

/// A part at fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub entity: Entity,
    /// The clearest first.
    pub symptoms: Vec<Symptom>,
    /// Its bandwidth, or its latency, as a multiple of the usual; `None` for losses alone.
    pub ratio: Option<f64>,
    /// Number of measurements that it explains.
    pub measurements: usize,
    /// Probability of this explanation among all, with none of them included.
    pub confidence: f64,
    /// Parts that have the same measurements: what was measured does not tell them apart.
    pub same: Vec<Entity>,
}

/// A figure that is worse by less than this is never a fault, as a logarithm.
const LEAST_BANDWIDTH: f64 = 0.105;
const LEAST_LATENCY: f64 = 0.262;
/// Losses: the evidence of a measurement with losses and of one without, for a part at fault. It loses in nine of ten measurements,
/// a healthy part in one of a hundred.
const LOSSY: f64 = 4.5;
const CLEAN: f64 = -2.29;

/// The parts at fault, the clearest first.
pub fn isolate(network: &Network, measurements: &[Measurement]) -> Vec<Fault> {
    let one_way = Members::one_way(network);
    let two_way = Members::two_way(network);
    let mut faults: Vec<Fault> = Vec::new();
    let bandwidths = bandwidths(measurements);
    for explained in explain(&one_way, &bandwidths, LEAST_BANDWIDTH) {
        let symptom = if explained.dead { Symptom::Dead } else { Symptom::Bandwidth };
        add(&mut faults, explained, symptom);
    }
    for explained in explain(&two_way, &latencies(measurements), LEAST_LATENCY) {
        add(&mut faults, explained, Symptom::Latency);
    }
    for explained in fit::explain_losses(&two_way, &losses(measurements), (LOSSY, CLEAN)) {
        add(&mut faults, explained, Symptom::Loss);
    }
    faults
}

/// A fault; or a further symptom of one that is known, where one part contains the other.
fn add(faults: &mut Vec<Fault>, explained: Explained, symptom: Symptom) {
    let candidates = std::iter::once(explained.entity).chain(explained.same.iter().copied());
    let candidates: Vec<Entity> = candidates.collect();
    let known = faults.iter_mut().find(|fault| {
        symptom != fault.symptoms[0]
            && candidates.iter().any(|other| {
                fault.entity == *other
                    || other.contains(&fault.entity)
                    || fault.entity.contains(other)
            })
    });
    match known {
        Some(fault) if fault.symptoms.contains(&symptom) => {}
        Some(fault) => {
            fault.symptoms.push(symptom);
            fault.confidence = fault.confidence.max(explained.confidence);
        }
        None => faults.push(Fault {
            entity: explained.entity,
            symptoms: vec![symptom],
            ratio: match symptom {
                Symptom::Bandwidth => Some(explained.effect.exp()),
                Symptom::Latency => Some((-explained.effect).exp()),
                Symptom::Dead | Symptom::Loss => None,
            },
            measurements: explained.measurements,
            confidence: explained.confidence,
            same: explained.same,
        }),
    }
}

/// Bandwidths of each direction, by phase and direction: reads and writes need not be equally fast.
fn bandwidths(measurements: &[Measurement]) -> Vec<Sample> {
    let samples = |measured: &Measurement| {
        let Measurement { client, server, .. } = *measured;
        let one = |direction, value, from, to| Sample {
            group: measured.phase as usize * 2 + direction,
            value,
            from,
            to,
        };
        let directions =
            [one(0, measured.there, client, server), one(1, measured.back, server, client)];
        directions
            .into_iter()
            .filter(|sample| measured.failed || sample.value.is_some())
            .collect::<Vec<_>>()
    };
    measurements.iter().flat_map(samples).collect()
}

/// Speeds in place of latencies: more is better.
fn latencies(measurements: &[Measurement]) -> Vec<Sample> {
    let sample = |measured: &Measurement| {
        let latency = measured.latency.filter(|latency| *latency > 0.0)?;
        Some(Sample {
            group: measured.phase as usize,
            value: Some(1.0 / latency),
            from: measured.client,
            to: measured.server,
        })
    };
    measurements.iter().filter_map(sample).collect()
}

/// 1 for a measurement with losses, 0 for one without.
fn losses(measurements: &[Measurement]) -> Vec<Sample> {
    let measured = measurements.iter().filter(|measured| !measured.failed);
    let sample = |measured: &Measurement| Sample {
        group: 0,
        value: Some(f64::from(u8::from(measured.lost > 0))),
        from: measured.client,
        to: measured.server,
    };
    measured.map(sample).collect()
}
