//! Statistics of samples: percentiles, confidence of the median, histogram.

use std::collections::BTreeMap;

use crate::model::Bucket;

/// Percentiles of samples, in their unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub median: f64,
    pub p5: f64,
    pub p95: f64,
    /// `None` with fewer than 100 samples.
    pub p99: Option<f64>,
    /// `None` with fewer than 1000 samples.
    pub p999: Option<f64>,
    pub max: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Figures {
    /// Figures of unsorted samples; `None` without samples.
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

/// The median of times, from which the length of a measurement is planned: 1 ms without samples, and at least 1 ns.
pub fn typical_seconds(samples: &[f64]) -> f64 {
    let median = percentile(&sorted(samples), 0.5);
    median.unwrap_or(1e-3).max(1e-9)
}

/// The width of the median's 95 % confidence interval as a share of the median; `None` below six samples, where no interval of
/// order statistics covers 95 %.
///
/// The bounds are the samples of ranks n/2 ∓ 0.98·√n (normal approximation of the binomial), for any distribution.
pub fn uncertainty(samples: &[f64]) -> Option<f64> {
    if samples.len() < 6 {
        return None;
    }
    let sorted = sorted(samples);
    let n = sorted.len() as f64;
    let reach = 0.98 * n.sqrt();
    let low = (n / 2.0 - reach).floor().max(1.0) as usize;
    let high = (n / 2.0 + reach).ceil() as usize + 1;
    let (low, high) = (sorted.get(low - 1)?, sorted.get(high.min(sorted.len()) - 1)?);
    let median = percentile(&sorted, 0.5)?;
    (median > 0.0).then(|| (high - low) / median)
}

/// The arithmetic mean; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The median absolute deviation from the median; `None` without samples.
pub fn mad(samples: &[f64]) -> Option<f64> {
    let median = percentile(&sorted(samples), 0.5)?;
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - median).abs()).collect();
    percentile(&sorted(&deviations), 0.5)
}

/// Non-empty buckets of a quarter octave. Samples that are not above 0 are left out.
pub fn histogram(samples: &[f64]) -> Vec<Bucket> {
    const A_OCTAVE: f64 = 4.0;
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| **sample > 0.0) {
        *counts.entry((sample.log2() * A_OCTAVE).floor() as i32).or_default() += 1;
    }
    let edge = |at: i32| (f64::from(at) / A_OCTAVE).exp2();
    counts
        .into_iter()
        .map(|(at, samples)| Bucket { from: edge(at), to: edge(at + 1), samples })
        .collect()
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The value that one sample in `one_in` exceeds; `None` with fewer samples than that.
fn rare(sorted: &[f64], one_in: usize) -> Option<f64> {
    let share = 1.0 - 1.0 / one_in as f64;
    (sorted.len() >= one_in).then(|| percentile(sorted, share)).flatten()
}

/// Linear interpolation between the nearest ranks (Hyndman and Fan's type 7, the default of R and NumPy).
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
    fn percentiles_match_numpy() {
        // numpy.percentile([7, 1, 3, 15, 9, 4], [5, 50, 95]) = [1.5, 5.5, 13.5]
        let figures = Figures::of(&[7.0, 1.0, 3.0, 15.0, 9.0, 4.0]).expect("figures");
        assert_eq!((figures.p5, figures.median, figures.p95), (1.5, 5.5, 13.5));
        assert_eq!((figures.max, figures.samples), (15.0, 6));
        let one = Figures::of(&[2.0]).expect("figures");
        assert_eq!((one.p5, one.median, one.p95, one.max), (2.0, 2.0, 2.0, 2.0));
        assert_eq!(Figures::of(&[]), None);
        assert_eq!((mean(&[1.0, 2.0, 9.0]), mean(&[])), (Some(4.0), None));
        // scipy.stats.median_abs_deviation([1, 2, 4, 9, 20]) = 3
        assert_eq!((mad(&[9.0, 1.0, 20.0, 2.0, 4.0]), mad(&[])), (Some(3.0), None));
    }

    #[test]
    fn histogram_has_four_buckets_per_octave() {
        let buckets = histogram(&[1.0, 1.1, 1.2, 2.0, 0.5, 0.0, 1000.0]);
        let counts: Vec<(f64, u64)> =
            buckets.iter().map(|bucket| (bucket.from, bucket.samples)).collect();
        // 1.2 is above 2^(1/4) = 1.189, and 1000 above 2^(39/4) = 861.
        assert_eq!(counts[..2], [(0.5, 1), (1.0, 2)]);
        assert!((counts[2].0 - 1.189_207).abs() < 1e-6 && counts[2].1 == 1);
        assert_eq!(counts[3], (2.0, 1));
        assert!((counts[4].0 - 861.078).abs() < 1e-3 && counts[4].1 == 1 && counts.len() == 5);
        assert!((buckets[4].to - 1024.0).abs() < 1e-9);
    }

    #[test]
    fn confidence_interval_of_median() {
        // Of a hundred samples the interval goes from the 40th to the 61st (Conover, 95 %).
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(uncertainty(&hundred), Some(21.0 / 50.5));
        assert_eq!(uncertainty(&[1.0; 5]), None, "too few samples");
        assert_eq!(uncertainty(&[1.0; 6]), Some(0.0));
        assert_eq!(uncertainty(&[0.0; 6]), None, "the median is 0");
    }
}
