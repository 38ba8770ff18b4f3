//! When to stop taking samples: once the median is known well enough, or the time for it is spent.

use std::time::{Duration, Instant};

use super::statistics::{Figures, uncertainty};

/// How much one figure may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// No sample is begun after this long, once there are enough.
    pub time: Duration,
    /// So many samples are taken for up to ten times as long; three whatever they cost.
    pub least: usize,
    /// It is enough once the median's confidence interval is this share of it.
    pub share: f64,
}

/// More samples than this teach nothing.
const MOST: usize = 20_000;

/// Fewer have no middle.
const FEWEST: usize = 3;

/// Shorter than this, a clock that takes 25 ns to read is a part of what it reads.
const SHORTEST: Duration = Duration::from_micros(4);

/// Collects samples until there are enough.
pub struct Sampler {
    budget: Budget,
    begun: Instant,
    samples: Vec<f64>,
    next_look: usize,
}

impl Sampler {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            begun: Instant::now(),
            samples: Vec::new(),
            next_look: budget.least.max(6),
        }
    }

    /// Whether another sample is worth its time.
    pub fn wants_more(&mut self) -> bool {
        let taken = self.samples.len();
        let spent = self.begun.elapsed();
        if taken < FEWEST || taken < self.budget.least && spent < self.budget.time * 10 {
            return true;
        }
        if taken >= MOST || spent >= self.budget.time {
            return false;
        }
        if taken >= self.next_look {
            // Each look sorts them all: looks grow rarer.
            self.next_look = taken + taken / 2;
            return uncertainty(&self.samples).is_none_or(|width| width > self.budget.share);
        }
        true
    }

    pub fn push(&mut self, sample: f64) {
        self.samples.push(sample);
    }

    /// What the samples say, and the samples.
    pub fn finish(self) -> (Option<Figures>, Vec<f64>) {
        (Figures::of(&self.samples), self.samples)
    }
}

/// Times an operation until its median is known: seconds for one run of it, one sample a batch.
///
/// The first runs warm up and are not counted. What is too short for the clock is run several times a sample.
pub fn time<E>(
    budget: Budget,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let first = Instant::now();
    operation()?;
    // What takes longer than all the samples may take needs no second look.
    let mut batch = 1;
    if first.elapsed() < budget.time {
        let begun = Instant::now();
        operation()?;
        batch = self::batch(begun.elapsed());
    }
    if batch > 1 {
        // The first runs are slow: caches and branches. The batch is sized by a warm one.
        let begun = Instant::now();
        for _ in 0..batch {
            operation()?;
        }
        batch = self::batch(begun.elapsed() / batch);
    }
    sample(budget, batch, operation)
}

/// The same, one run a sample, for what may overlap with the next run: the clock waits until every load before it is
/// answered (Linux reads the time stamp counter so). Its 25 ns are in each sample.
pub fn time_singly<E>(
    budget: Budget,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    operation()?;
    sample(budget, 1, operation)
}

fn sample<E>(
    budget: Budget,
    batch: u32,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let mut sampler = Sampler::new(budget);
    while sampler.wants_more() {
        let begun = Instant::now();
        for _ in 0..batch {
            operation()?;
        }
        sampler.push(begun.elapsed().as_secs_f64() / f64::from(batch));
    }
    Ok(sampler.finish().1)
}

/// How many runs make a sample long enough for the clock.
fn batch(one: Duration) -> u32 {
    let runs = SHORTEST.as_nanos() / one.as_nanos().max(1);
    u32::try_from(runs).unwrap_or(u32::MAX).clamp(1, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENEROUS: Budget = Budget {
        time: Duration::from_secs(60),
        least: 3,
        share: 0.05,
    };

    #[test]
    fn a_steady_figure_is_soon_known_and_a_noisy_one_takes_longer() {
        let taken = |sample: fn(usize) -> f64| {
            let mut sampler = Sampler::new(GENEROUS);
            let mut taken = 0;
            while sampler.wants_more() {
                sampler.push(sample(taken));
                taken += 1;
            }
            taken
        };
        assert_eq!(taken(|_| 1.0), 6);
        let noisy = taken(|at| 1.0 + (at * 37 % 100) as f64 / 100.0);
        assert!((100..5000).contains(&noisy), "{noisy}");
    }

    #[test]
    fn three_are_taken_whatever_they_cost_and_enough_where_that_is_cheap() {
        let taken = |time, cost| {
            let budget = Budget {
                time,
                least: 9,
                ..GENEROUS
            };
            let mut runs = 0;
            let samples = super::time(budget, || {
                runs += 1;
                std::thread::sleep(cost);
                Ok::<(), ()>(())
            });
            (samples.expect("samples").len(), runs)
        };
        let millisecond = Duration::from_millis(1);
        assert_eq!(taken(Duration::ZERO, millisecond), (3, 4), "one warms up");
        // A tenth of a second, of which a busy machine may take ten: nine samples of a millisecond fit in.
        let (samples, runs) = taken(100 * millisecond, millisecond);
        assert!(
            samples >= 9 && (1..=2).contains(&(runs - samples)),
            "{samples} {runs}"
        );
        let single = time_singly(GENEROUS, || Ok::<(), ()>(())).expect("samples");
        assert!(single.len() >= 6);
    }

    #[test]
    fn what_is_too_short_for_the_clock_is_run_in_batches() {
        assert_eq!(batch(Duration::from_nanos(100)), 40);
        assert_eq!(batch(Duration::from_millis(1)), 1);
        assert_eq!(batch(Duration::ZERO), 1000);
        let failed = time(GENEROUS, || Err::<(), &str>("no"));
        assert_eq!(failed, Err("no"));
    }
}
