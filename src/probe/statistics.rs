//! Figures of many samples: percentiles, and how sure the median is. It measures nothing.

use std::collections::BTreeMap;

use crate::model::Bucket;

/// The figures of a set of samples, in the samples' unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub median: f64,
    /// One sample in twenty is below.
    pub p5: f64,
    /// One sample in twenty is above.
    pub p95: f64,
    /// One sample in a hundred is above; none below a hundred samples.
    pub p99: Option<f64>,
    /// One sample in a thousand is above; none below a thousand.
    pub p999: Option<f64>,
    pub max: f64,
    /// How many there were.
    pub samples: usize,
}

impl Figures {
    /// Of these samples, in any order; none where there is none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        Some(Self {
            median: percentile(&sorted, 0.5)?,
            p5: percentile(&sorted, 0.05)?,
            p95: percentile(&sorted, 0.95)?,
            p99: rare(&sorted, 100),
            p999: rare(&sorted, 1000),
            max: *sorted.last()?,
            samples: sorted.len(),
        })
    }
}

/// The width of the median's 95 % confidence interval as a share of the median; none below six samples, where every
/// interval of order statistics covers less than that.
///
/// The interval lies between two of the samples themselves, whatever their distribution: the ranks n/2 ∓ 0.98·√n of the
/// binomial's normal approximation.
pub fn uncertainty(samples: &[f64]) -> Option<f64> {
    if samples.len() < 6 {
        return None;
    }
    let sorted = sorted(samples);
    let n = sorted.len() as f64;
    let reach = 0.98 * n.sqrt();
    let low = (n / 2.0 - reach).floor().max(1.0) as usize;
    let high = (n / 2.0 + reach).ceil() as usize + 1;
    let (low, high) = (
        sorted.get(low - 1)?,
        sorted.get(high.min(sorted.len()) - 1)?,
    );
    let median = percentile(&sorted, 0.5)?;
    (median > 0.0).then(|| (high - low) / median)
}

/// How samples are spread: ranges of a quarter of an octave, those without a sample left out. What is not above 0 is in none.
pub fn histogram(samples: &[f64]) -> Vec<Bucket> {
    const A_OCTAVE: f64 = 4.0;
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| **sample > 0.0) {
        *counts
            .entry((sample.log2() * A_OCTAVE).floor() as i32)
            .or_default() += 1;
    }
    let edge = |at: i32| (f64::from(at) / A_OCTAVE).exp2();
    counts
        .into_iter()
        .map(|(at, samples)| Bucket {
            from: edge(at),
            to: edge(at + 1),
            samples,
        })
        .collect()
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// What one sample in so many is above; fewer samples than that have none.
fn rare(sorted: &[f64], one_in: usize) -> Option<f64> {
    let share = 1.0 - 1.0 / one_in as f64;
    (sorted.len() >= one_in)
        .then(|| percentile(sorted, share))
        .flatten()
}

/// Linear between the two nearest ranks (Hyndman and Fan's type 7, the default of R and NumPy).
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = last as f64 * share;
    let below = at.floor() as usize;
    let low = *sorted.get(below)?;
    let high = *sorted.get((below + 1).min(last))?;
    Some(low + (high - low) * (at - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_numpy() {
        // numpy.percentile([7, 1, 3, 15, 9, 4], [5, 50, 95]) = [1.5, 5.5, 13.5]
        let figures = Figures::of(&[7.0, 1.0, 3.0, 15.0, 9.0, 4.0]).expect("figures");
        assert_eq!((figures.p5, figures.median, figures.p95), (1.5, 5.5, 13.5));
        assert_eq!((figures.max, figures.samples), (15.0, 6));
        let one = Figures::of(&[2.0]).expect("figures");
        assert_eq!((one.p5, one.median, one.p95, one.max), (2.0, 2.0, 2.0, 2.0));
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn a_histogram_has_four_ranges_an_octave_and_every_sample() {
        let buckets = histogram(&[1.0, 1.1, 1.2, 2.0, 0.5, 0.0, 1000.0]);
        let told: Vec<(f64, u64)> = buckets
            .iter()
            .map(|bucket| (bucket.from, bucket.samples))
            .collect();
        // 1.2 is above 2^(1/4) = 1.189, and 1000 above 2^(39/4) = 861.
        assert_eq!(told[..2], [(0.5, 1), (1.0, 2)]);
        assert!((told[2].0 - 1.189_207).abs() < 1e-6 && told[2].1 == 1);
        assert_eq!(told[3], (2.0, 1));
        assert!((told[4].0 - 861.078).abs() < 1e-3 && told[4].1 == 1 && told.len() == 5);
        assert!((buckets[4].to - 1024.0).abs() < 1e-9);
    }

    #[test]
    fn more_samples_are_surer() {
        // Of a hundred samples the interval goes from the 40th to the 61st (Conover, 95 %).
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(uncertainty(&hundred), Some(21.0 / 50.5));
        assert_eq!(uncertainty(&[1.0; 5]), None, "too few to say");
        assert_eq!(uncertainty(&[1.0; 6]), Some(0.0));
        assert_eq!(uncertainty(&[0.0; 6]), None, "a share of nothing");
    }
}
