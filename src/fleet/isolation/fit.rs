//! Explains slow measurements by as few parts as possible: the part whose fault makes the measurements most likely comes first, then
//! what it leaves open is explained in the same way.

use super::entity::{Entity, Members, Sample};
use super::noise::{median, noise, usual};

/// A part that explains measurements.
#[derive(Debug, Clone)]
pub struct Explained {
    pub entity: Entity,
    /// The logarithm of its value as a share of the usual.
    pub effect: f64,
    pub dead: bool,
    pub measurements: usize,
    pub confidence: f64,
    pub same: Vec<Entity>,
}

/// Nothing counts as slower than this, as a logarithm: a twentieth. A failed measurement counts as that.
const SLOWEST: f64 = -3.0;
/// Degrees of freedom of Student's distribution for the noise: tails much heavier than normal.
const FREEDOM: f64 = 4.0;
/// This share of a part's measurements must be nearer to its effect than to the usual value.
const PURITY: f64 = 0.7;
/// Probability of a false alarm in the whole fleet, if the noise is as assumed.
const FALSE_ALARM: f64 = 1e-3;
/// Most faults.
const MAX_FAULTS: usize = 32;

/// Explains values that are lower than usual by more than `least`.
pub fn explain(members: &Members<'_>, samples: &[Sample], least: f64) -> Vec<Explained> {
    let values = relative(samples);
    let evidence = |fit: &Fit<'_>, numbers: &[u32], scratch: &mut Vec<f64>| {
        let failed = fit.failed(numbers);
        // One slow measurement says little.
        if numbers.len() < 2 && failed == 0 {
            return None;
        }
        // The usual value is one of the part's own: it may be dead, and not slow.
        if numbers.len() == samples.len() && 2 * failed <= numbers.len() {
            return None;
        }
        scratch.clear();
        scratch.extend(numbers.iter().map(|at| fit.open(*at)));
        let effect = median(scratch).filter(|effect| *effect < -least)?;
        let near = scratch.iter().filter(|value| **value < effect / 2.0).count();
        if (near as f64) < PURITY * numbers.len() as f64 {
            return None;
        }
        let gain: f64 = scratch
            .iter()
            .map(|value| surprise(value / fit.noise) - surprise((value - effect) / fit.noise))
            .sum();
        Some((gain, effect))
    };
    // What failed has no noise.
    let measured = values.iter().zip(samples);
    let measured = measured.filter(|(_, sample)| sample.value.is_some());
    let noise = noise(&mut measured.map(|(value, _)| *value).collect::<Vec<_>>());
    Fit::new(members, samples, values, noise).run(&evidence)
}

/// Explains samples of 1 by parts that cause most of them. `weights` are the evidence of a 1 and of a 0.
pub fn explain_losses(
    members: &Members<'_>,
    samples: &[Sample],
    weights: (f64, f64),
) -> Vec<Explained> {
    // As above: what is bad is negative.
    let values = samples.iter().map(|sample| -sample.value.unwrap_or(0.0));
    let evidence = |fit: &Fit<'_>, numbers: &[u32], _: &mut Vec<f64>| {
        let is_open = |at: &&u32| fit.open(**at) < -0.5;
        let lossy = numbers.iter().filter(is_open).count();
        let gain = weights.0 * lossy as f64 + weights.1 * (numbers.len() - lossy) as f64;
        (lossy > 0).then_some((gain, -1.0))
    };
    Fit::new(members, samples, values.collect(), 1.0).run(&evidence)
}

/// Logarithms of the values as shares of the usual of their group.
fn relative(samples: &[Sample]) -> Vec<f64> {
    let groups = samples.iter().map(|sample| sample.group + 1).max();
    let mut by_group: Vec<Vec<f64>> = vec![Vec::new(); groups.unwrap_or(0)];
    let log = |sample: &Sample| Some(sample.value.filter(|value| *value > 0.0)?.ln());
    for sample in samples {
        by_group[sample.group].extend(log(sample));
    }
    let usual: Vec<Option<f64>> = by_group
        .iter_mut()
        .map(|values| {
            let noise = noise(values);
            usual(values, noise)
        })
        .collect();
    let relative = |sample: &Sample| match (log(sample), usual[sample.group]) {
        (Some(value), Some(usual)) => (value - usual).clamp(SLOWEST, -SLOWEST),
        _ => SLOWEST,
    };
    samples.iter().map(relative).collect()
}

/// Minus the logarithm of the probability of noise, up to a constant.
fn surprise(deviations: f64) -> f64 {
    (FREEDOM + 1.0) / 2.0 * (deviations * deviations / FREEDOM).ln_1p()
}

/// The evidence for a part from its samples, and its effect; none if it explains nothing.
type Evidence<'e> = &'e dyn Fn(&Fit<'_>, &[u32], &mut Vec<f64>) -> Option<(f64, f64)>;

struct Fit<'m> {
    entities: &'m [Entity],
    members: Vec<Vec<u32>>,
    samples: &'m [Sample],
    values: Vec<f64>,
    /// What the parts found so far predict: the slowest part of a path decides.
    predicted: Vec<f64>,
    noise: f64,
}

impl<'m> Fit<'m> {
    fn new(members: &'m Members<'_>, samples: &'m [Sample], values: Vec<f64>, noise: f64) -> Self {
        Self {
            entities: &members.entities,
            members: members.samples(samples),
            samples,
            predicted: vec![0.0; values.len()],
            values,
            noise,
        }
    }

    /// What is not explained of a sample.
    fn open(&self, at: u32) -> f64 {
        self.values[at as usize] - self.predicted[at as usize]
    }

    /// How many of these samples failed.
    fn failed(&self, numbers: &[u32]) -> usize {
        let failed = |at: &&u32| self.samples[**at as usize].value.is_none();
        numbers.iter().filter(failed).count()
    }

    fn run(mut self, evidence: Evidence<'_>) -> Vec<Explained> {
        let threshold = (self.entities.len().max(1) as f64).ln() - FALSE_ALARM.ln();
        let mut found = Vec::new();
        let mut scratch = Vec::new();
        while found.len() < MAX_FAULTS {
            let gains: Vec<Option<(f64, f64)>> =
                self.members.iter().map(|numbers| evidence(&self, numbers, &mut scratch)).collect();
            let by_gain = |(at, gain): (usize, &Option<(f64, f64)>)| {
                gain.filter(|(gain, _)| *gain > threshold).map(|(gain, effect)| (at, gain, effect))
            };
            // Of equal ones the first, which is the smallest part.
            let best = gains.iter().enumerate().filter_map(by_gain);
            let Some((best, gain, effect)) =
                best.reduce(|best, next| if next.1 > best.1 + 1e-6 { next } else { best })
            else {
                break;
            };
            found.push(self.explained(best, (gain, effect), &gains, threshold));
            for at in &self.members[best] {
                let predicted = &mut self.predicted[*at as usize];
                *predicted = predicted.min(effect);
            }
        }
        found
    }

    fn explained(
        &self,
        best: usize,
        (gain, effect): (f64, f64),
        gains: &[Option<(f64, f64)>],
        threshold: f64,
    ) -> Explained {
        let entity = self.entities[best];
        let others = gains.iter().enumerate().filter(|(at, _)| *at != best);
        let mut same = Vec::new();
        // Nothing is at fault: as likely as the threshold says.
        let mut against = (threshold - gain).exp();
        for (at, other) in others {
            let Some((other, _)) = other else { continue };
            let is_same = self.members[at] == self.members[best];
            if is_same {
                same.push(self.entities[at]);
            }
            // A larger part with the same measurements does not contradict.
            if !(is_same && self.entities[at].contains(&entity)) {
                against += (other - gain).min(0.0).exp();
            }
        }
        let numbers = &self.members[best];
        Explained {
            entity,
            effect,
            dead: 2 * self.failed(numbers) > numbers.len(),
            measurements: numbers.len(),
            confidence: 1.0 / (1.0 + against),
            same,
        }
    }
}
