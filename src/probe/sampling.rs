//! Sampling until the median is known well enough, or until the time is spent.

use std::time::{Duration, Instant};

use super::depth::measuring_time;
use super::statistics::{Figures, uncertainty};

/// Limits for the samples of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// No new sample after this time, once there are `least` of them.
    pub time: Duration,
    /// Samples taken even if that needs ten times as long. Three are taken in any case.
    pub least: usize,
    /// Sampling ends when the median's confidence interval is this share of the median.
    pub share: f64,
    /// If set, exactly this many runs, instead of the limits above.
    pub runs: Option<u32>,
}

impl Budget {
    pub const fn new(milliseconds: u64, least: usize, share: f64) -> Self {
        Self { time: Duration::from_millis(milliseconds), least, share, runs: None }
    }
}

/// Maximum number of samples.
const MOST: usize = 20_000;

/// Minimum number of samples.
const FEWEST: usize = 3;

/// Longest warm-up of runs that are timed singly, and their number: the first accesses to a page are slow.
const WARM_UP: Duration = Duration::from_millis(2);
const WARM_UP_RUNS: u32 = 64;

/// Shortest sample: reading the clock takes 25 ns.
const SHORTEST: Duration = Duration::from_micros(4);

/// Runs of an operation for its CPU time take at most this part of the budget, one third.
const CPU_PART: u32 = 3;

/// What one run takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timed {
    /// Samples, in seconds.
    pub seconds: Vec<f64>,
    /// CPU time of this process, of all threads and so of helpers too, in seconds.
    pub cpu: Option<f64>,
}

/// Collects samples until there are enough.
pub struct Sampler {
    budget: Budget,
    begun: Instant,
    samples: Vec<f64>,
    next_check: usize,
}

impl Sampler {
    pub fn new(mut budget: Budget) -> Self {
        budget.time = measuring_time(budget.time);
        Self { budget, begun: Instant::now(), samples: Vec::new(), next_check: budget.least.max(6) }
    }

    pub fn wants_more(&mut self) -> bool {
        let taken = self.samples.len();
        if let Some(runs) = self.budget.runs {
            return taken < runs as usize;
        }
        let spent = self.begun.elapsed();
        if taken < FEWEST || taken < self.budget.least && spent < self.budget.time * 10 {
            return true;
        }
        if taken >= MOST || spent >= self.budget.time {
            return false;
        }
        if taken >= self.next_check {
            // Each check sorts all samples: checks become rarer.
            self.next_check = taken + taken / 2;
            return uncertainty(&self.samples).is_none_or(|width| width > self.budget.share);
        }
        true
    }

    pub fn push(&mut self, sample: f64) {
        self.samples.push(sample);
    }

    /// The figures, and the samples.
    pub fn finish(self) -> (Option<Figures>, Vec<f64>) {
        (Figures::of(&self.samples), self.samples)
    }
}

/// Times an operation until its median is known, in seconds per run.
///
/// The first runs warm up and do not count. Operations that are too short for the clock run several times per sample.
pub fn time<E>(
    budget: Budget,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let first = Instant::now();
    operation()?;
    // An operation that exceeds the whole budget needs no batches.
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
    sample(budget, batch.min(budget.runs.unwrap_or(batch)), operation)
}

/// Times an operation with one run per sample, for loads that could overlap with the next run: the clock waits for all earlier
/// loads (Linux reads the time stamp counter in order).
///
/// The first runs warm up and do not count.
pub fn time_singly<E>(
    budget: Budget,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let begun = Instant::now();
    for _ in 0..WARM_UP_RUNS {
        operation()?;
        if begun.elapsed() > WARM_UP {
            break;
        }
    }
    sample(budget, 1, operation)
}

/// What it takes to read the clock: the median of some readings.
pub fn clock_cost() -> Duration {
    let mut costs = [Duration::ZERO; 31].map(|_| Instant::now().elapsed());
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// The time since `begun` without that of reading the clock.
pub fn elapsed(begun: Instant, clock: Duration) -> Duration {
    without(begun.elapsed(), clock)
}

/// A run that is shorter than the clock overlaps with it: at least half of the time remains.
fn without(time: Duration, clock: Duration) -> Duration {
    time.saturating_sub(clock).max(time / 2)
}

fn sample<E>(
    budget: Budget,
    batch: u32,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let mut sampler =
        Sampler::new(Budget { runs: budget.runs.map(|runs| runs.div_ceil(batch)), ..budget });
    let clock = clock_cost();
    while sampler.wants_more() {
        let begun = Instant::now();
        for _ in 0..batch {
            operation()?;
        }
        sampler.push(elapsed(begun, clock).as_secs_f64() / f64::from(batch));
    }
    Ok(sampler.finish().1)
}

/// As `time`, or `time_singly` if `singly`, and the CPU time of one run.
pub fn time_and_cpu<E>(
    budget: Budget,
    singly: bool,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Timed, E> {
    let seconds =
        if singly { time_singly(budget, &mut operation)? } else { time(budget, &mut operation)? };
    let cpu = cpu_time(budget, &seconds, || {
        operation()?;
        if singly {
            // Waits for the loads of this run, as the timed runs do.
            std::hint::black_box(Instant::now());
        }
        Ok(())
    })?;
    let clock = if singly { clock_cost().as_secs_f64() } else { 0.0 };
    let cpu = cpu.map(|cpu| (cpu - clock).max(cpu / 2.0));
    Ok(Timed { seconds, cpu })
}

/// Times runs that each need a preparation, which is not timed.
pub fn time_prepared<E>(
    budget: Budget,
    mut prepare: impl FnMut() -> Result<(), E>,
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Timed, E> {
    prepare()?;
    operation()?;
    let mut sampler = Sampler::new(budget);
    let (mut cpu, reading) = (Duration::ZERO, clock_cost());
    while sampler.wants_more() {
        prepare()?;
        let (first, second) = (process_time(), process_time());
        let begun = Instant::now();
        operation()?;
        sampler.push(elapsed(begun, reading).as_secs_f64());
        // Reading this clock takes longer than a short copy.
        let clock = second.saturating_sub(first);
        let spent = process_time().saturating_sub(second);
        cpu += spent.saturating_sub(clock);
    }
    let seconds = sampler.finish().1;
    let runs = seconds.len().max(1) as f64;
    Ok(Timed { cpu: Some(cpu.as_secs_f64() / runs), seconds })
}

/// CPU time of one run. The operation runs in a loop, as often as fits a part of the budget if a run takes
/// the median of `seconds`.
fn cpu_time<E>(
    budget: Budget,
    seconds: &[f64],
    mut operation: impl FnMut() -> Result<(), E>,
) -> Result<Option<f64>, E> {
    let Some(figures) = Figures::of(seconds) else {
        return Ok(None);
    };
    let time = (budget.time / CPU_PART).as_secs_f64();
    let runs = (time / figures.median.max(1e-9)).clamp(1.0, MOST as f64) as u32;
    let runs = budget.runs.unwrap_or(runs);
    let before = process_time();
    for _ in 0..runs {
        operation()?;
    }
    let spent = process_time().saturating_sub(before);
    Ok(Some(spent.as_secs_f64() / f64::from(runs)))
}

/// CPU time of all threads of this process.
fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Runs per sample, so that it is long enough for the clock.
fn batch(one: Duration) -> u32 {
    let runs = SHORTEST.as_nanos() / one.as_nanos().max(1);
    u32::try_from(runs).unwrap_or(u32::MAX).clamp(1, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENEROUS: Budget =
        Budget { time: Duration::from_secs(60), least: 3, share: 0.05, runs: None };

    #[test]
    fn noisy_samples_take_longer() {
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
    fn takes_minimum_number_of_samples() {
        let taken = |time, cost| {
            let budget = Budget { time, least: 9, ..GENEROUS };
            let mut runs = 0;
            let samples = super::time(budget, || {
                runs += 1;
                std::thread::sleep(cost);
                Ok::<(), ()>(())
            });
            (samples.expect("samples").len(), runs)
        };
        let millisecond = Duration::from_millis(1);
        assert_eq!(taken(Duration::ZERO, millisecond), (3, 4), "one warm-up run");
        // A tenth of a second, up to a second on a busy machine: enough for nine samples of a millisecond.
        let (samples, runs) = taken(100 * millisecond, millisecond);
        assert!(samples >= 9 && (1..=2).contains(&(runs - samples)), "{samples} {runs}");
        let single = time_singly(GENEROUS, || Ok::<(), ()>(())).expect("samples");
        assert!(single.len() >= 6);
    }

    #[test]
    fn exact_number_of_runs() {
        let budget = Budget { runs: Some(250), ..Budget::new(10, 3, 0.0) };
        let runs = std::cell::Cell::new(0);
        let count = || {
            runs.set(runs.get() + 1);
            Ok::<(), ()>(())
        };
        let single = time_singly(budget, count).expect("samples");
        let warm_up = WARM_UP_RUNS as usize;
        assert_eq!((single.len(), runs.replace(0)), (250, 250 + warm_up));
        // Short runs share samples; no sample has more than all of them.
        let batched = time(budget, count).expect("samples").len();
        assert!((1..250).contains(&batched) && runs.replace(0) >= 250);
        let timed = time_and_cpu(budget, true, count).expect("samples");
        assert_eq!((timed.seconds.len(), runs.replace(0)), (250, 500 + warm_up));
        let prepared = std::cell::Cell::new(0);
        let prepare = || {
            assert_eq!(prepared.replace(prepared.get() + 1), runs.get());
            Ok(())
        };
        let timed = time_prepared(budget, prepare, count).expect("samples");
        assert_eq!((timed.seconds.len(), prepared.get()), (250, 251));
        assert!(timed.cpu.is_some());
    }

    #[test]
    fn subtracts_the_clock() {
        let ns = Duration::from_nanos;
        assert_eq!(without(ns(1030), ns(30)), ns(1000));
        assert_eq!(without(ns(40), ns(30)), ns(20), "shorter than the clock");
        assert_eq!(without(ns(20), ns(30)), ns(10));
        assert!(clock_cost() < Duration::from_micros(50));
    }

    #[test]
    fn cpu_time_counts_all_threads() {
        let budget = Budget::new(60, 3, 0.05);
        let spin = |time: Duration| {
            let before = thread_time();
            while thread_time().saturating_sub(before) < time {
                std::hint::spin_loop();
            }
        };
        let millisecond = Duration::from_millis(1);
        let cpu = |operation: &mut dyn FnMut()| {
            let run = || {
                operation();
                Ok::<(), ()>(())
            };
            cpu_time(budget, &[0.01], run).expect("it runs").expect("a figure")
        };
        let helped = cpu(&mut || {
            std::thread::scope(|scope| {
                scope.spawn(|| spin(5 * millisecond));
                spin(5 * millisecond);
            });
        });
        // Other tests of this process run at the same time, so there is no upper limit.
        assert!(helped >= 0.01, "{helped}");
        assert_eq!(cpu_time(budget, &[], || Err("it runs")), Ok(None));
    }

    fn thread_time() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).expect("positive")
    }

    #[test]
    fn batches_short_operations() {
        assert_eq!(batch(Duration::from_nanos(100)), 40);
        assert_eq!(batch(Duration::from_millis(1)), 1);
        assert_eq!(batch(Duration::ZERO), 1000);
        let failed = time(GENEROUS, || Err::<(), &str>("no"));
        assert_eq!(failed, Err("no"));
    }
}
