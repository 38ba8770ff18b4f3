//! The usual value of measurements, and their noise, of which many may be slow.

/// The smallest noise that is assumed, as a standard deviation of logarithms.
const LEAST: f64 = 0.03;
/// The usual value is that of the fastest group of this share of all: what is faulty is slower, and may be most of them.
const SHARE: f64 = 0.15;
/// Width of such a group, in standard deviations.
const WIDTH: f64 = 4.0;
/// The densest share of all samples whose width gives the noise.
const DENSEST: f64 = 0.2;
/// So many more samples, because the densest part of a few samples is narrow by chance. The noise of fewer is unknown, and taken to be
/// large.
const MORE: usize = 8;
const UNKNOWN: f64 = 0.3;
/// A few samples look less noisy than they are: by this part of their number.
const FEW: f64 = 8.0;

pub fn median(values: &mut [f64]) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let (below, middle, _) = values.select_nth_unstable_by(last.div_ceil(2), f64::total_cmp);
    let upper = *middle;
    if last % 2 == 0 {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some((lower + upper) / 2.0)
}

/// The standard deviation of normal noise whose densest part is as wide. Groups of slow values elsewhere change it little.
pub fn noise(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len();
    let part = (count as f64 * DENSEST).ceil() as usize + MORE;
    if count < part {
        return UNKNOWN;
    }
    let widths = values.windows(part).map(|part| part[part.len() - 1] - part[0]);
    let width = widths.min_by(f64::total_cmp).unwrap_or(0.0);
    let share = (part - 1) as f64 / count as f64;
    (width / (2.0 * quantile(share))).max(LEAST) * (1.0 + FEW / count as f64)
}

/// The usual value: the middle of the fastest group of at least [`SHARE`] of the values.
pub fn usual(values: &mut [f64], noise: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len();
    let width = WIDTH * noise;
    let enough = ((count as f64 * SHARE).ceil() as usize).max(1);
    let within = |from: f64, to: f64| {
        let first = values.partition_point(|value| *value < from);
        let end = values.partition_point(|value| *value <= to);
        &values[first..end]
    };
    let top = values.iter().rev().find(|top| within(**top - width, **top).len() >= enough)?;
    // Climbs to the middle of the group.
    let mut middle = top - width / 2.0;
    for _ in 0..30 {
        let group = within(middle - width / 2.0, middle + width / 2.0);
        let Some(next) = group.get(group.len() / 2) else {
            break;
        };
        if (next - middle).abs() < 1e-9 {
            break;
        }
        middle = *next;
    }
    Some(middle)
}

/// How many standard deviations around the mean hold this share of normal noise. Abramowitz and Stegun, formula 26.2.23.
fn quantile(share: f64) -> f64 {
    let tail = ((1.0 - share) / 2.0).clamp(1e-9, 0.499_999);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    (t - above / below).max(0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0]), Some(2.5));
        assert_eq!(median(&mut [9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&mut [9.0, 1.0, 4.0, 2.0]), Some(3.0));
    }

    /// Tables of the normal distribution.
    #[test]
    fn quantiles_of_normal_noise() {
        for (share, deviations) in [(0.2, 0.2533), (0.5, 0.6745), (0.6827, 1.0), (0.9545, 2.0)] {
            let found = quantile(share);
            assert!((found - deviations).abs() < 0.002, "{share}: {found}");
        }
    }

    /// Evenly spread values around 0 and around -1: the faster group is the usual one, even if it is the smaller.
    #[test]
    fn usual_is_the_fastest_group() {
        let group = |middle: f64, count: i32| {
            (0..count).map(move |at| middle + f64::from(at - count / 2) * 0.2 / f64::from(count))
        };
        for (fast, slow) in [(100, 0), (70, 30), (50, 50), (25, 75)] {
            let mut values: Vec<f64> = group(0.0, fast).chain(group(-1.0, slow)).collect();
            let noise = noise(&mut values.clone());
            assert!((0.03..0.25).contains(&noise), "{noise}");
            let usual = usual(&mut values, noise).expect("values");
            assert!(usual.abs() < 0.05, "{fast} of {slow}: {usual}");
        }
    }
}
