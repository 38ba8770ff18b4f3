//! Figures of many samples: percentiles, and how sure the median is. It measures nothing.

/// The figures of a set of samples, in the samples' unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The middle.
    pub median: f64,
    /// One sample in twenty is below.
    pub p5: f64,
    /// One sample in twenty is above.
    pub p95: f64,
    /// One sample in a hundred is above; none below a hundred samples.
    pub p99: Option<f64>,
    /// One sample in a thousand is above; none below a thousand.
    pub p999: Option<f64>,
    /// The largest.
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
    let (low, high) = (sorted.get(low - 1)?, sorted.get(high.min(sorted.len()) - 1)?);
    let median = percentile(&sorted, 0.5)?;
    (median > 0.0).then(|| (high - low) / median)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// What one sample in so many is above; fewer samples than that have none.
fn rare(sorted: &[f64], one_in: usize) -> Option<f64> {
    let share = 1.0 - 1.0 / one_in as f64;
    (sorted.len() >= one_in).then(|| percentile(sorted, share)).flatten()
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
    fn more_samples_are_surer() {
        // Of a hundred samples the interval goes from the 40th to the 61st (Conover, 95 %).
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(uncertainty(&hundred), Some(21.0 / 50.5));
        assert_eq!(uncertainty(&[1.0; 5]), None, "too few to say");
        assert_eq!(uncertainty(&[1.0; 6]), Some(0.0));
        assert_eq!(uncertainty(&[0.0; 6]), None, "a share of nothing");
    }
}
