//! Compares the figures of a probe with recorded ones. A loss counts only if noise does not explain it.
//!
//! A figure is the median of its samples; of several runs, the median of their medians. Its standard error is estimated
//! robustly: 1.4826 times the median absolute deviation (MAD) estimates the standard deviation of normal noise, and the
//! median of n samples has 1.2533 / √n of that. With five runs or more, the spread of their medians counts too, and the larger
//! of both. A loss is a regression if it exceeds the tolerance and three standard errors of both figures together.

use std::collections::{BTreeMap, VecDeque};

use super::statistics::{Figures, mad};
use crate::model::Order as _;
use crate::model::{
    BYTES, Change, ChangeKind, Diff, FigureChange, MICROSECONDS, ProbeReport, ProbeResult,
    ProbeVerdict,
};

/// A loss up to this share is never a regression: figures of one machine differ that much from day to day.
pub const TOLERANCE: f64 = 0.07;

/// Standard errors beyond which a difference is not noise: one in 740 is beyond three on the worse side.
const ERRORS: f64 = 3.0;
/// Standard deviations of normal noise per MAD.
const DEVIATION: f64 = 1.4826;
/// Standard error of a median per standard deviation, times √n: √(π/2).
const OF_MEDIAN: f64 = 1.2533;
/// Runs from which on the spread of their medians is known.
const RUNS: usize = 5;

/// One report of several runs of a probe. Each figure is that of the run in the middle, with the medians of all runs.
pub fn combine(mut runs: Vec<ProbeReport>) -> Option<ProbeReport> {
    if runs.len() < 2 {
        return runs.pop();
    }
    let mut all: BTreeMap<Key<'_>, Vec<&ProbeResult>> = BTreeMap::new();
    let mut order: Vec<Key<'_>> = Vec::new();
    for result in runs.iter().flat_map(|run| &run.results) {
        let key = Key::of(result);
        let known = all.entry(key).or_default();
        if known.is_empty() {
            order.push(key);
        }
        known.push(result);
    }
    let results = order.iter().filter_map(|key| middle(all.remove(key)?));
    let results: Vec<ProbeResult> = results.collect();
    let mut runs = runs.into_iter();
    let mut combined = runs.next()?;
    for run in runs {
        combined.complete &= run.complete;
        let new = run.notes.into_iter().filter(|note| !combined.notes.contains(note));
        let new: Vec<String> = new.collect();
        combined.notes.extend(new);
    }
    combined.results = results;
    Some(combined)
}

/// The worst result of several runs; of equally good ones that with the median in the middle.
fn middle(mut results: Vec<&ProbeResult>) -> Option<ProbeResult> {
    let runs: Vec<f64> = results.iter().filter_map(|result| result.median).collect();
    let worst = results.iter().map(|result| rank(result.verdict)).max()?;
    let verified = results.iter().map(|result| result.verified).sum();
    results.retain(|result| rank(result.verdict) == worst);
    results.order_by(|a, b| a.median.unwrap_or(0.0).total_cmp(&b.median.unwrap_or(0.0)));
    let middle = results.swap_remove(results.len() / 2);
    Some(ProbeResult { runs, verified, ..middle.clone() })
}

fn rank(verdict: ProbeVerdict) -> u8 {
    match verdict {
        ProbeVerdict::Ok => 0,
        ProbeVerdict::NotMeasured => 1,
        ProbeVerdict::Slow => 2,
        ProbeVerdict::Impossible => 3,
        ProbeVerdict::Wrong => 4,
    }
}

/// What identifies a figure on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    subject: &'a str,
    name: &'a str,
    bytes: Option<u64>,
    chunk: Option<u64>,
    numa: Option<u32>,
    backend: &'a str,
}

impl<'a> Key<'a> {
    fn of(result: &'a ProbeResult) -> Self {
        Self {
            subject: &result.subject,
            name: &result.name,
            bytes: result.bytes,
            chunk: result.chunk,
            numa: result.numa,
            backend: &result.backend,
        }
    }

    /// The figure in a sentence.
    fn words(&self) -> String {
        let mut words = self.name.to_owned();
        if let Some(bytes) = self.bytes {
            words.push_str(&format!(", {bytes} bytes"));
        }
        if let Some(chunk) = self.chunk {
            words.push_str(&format!(" in chunks of {chunk}"));
        }
        if let Some(numa) = self.numa {
            words.push_str(&format!(", NUMA node {numa}"));
        }
        words
    }
}

/// The figures of two reports. `tolerance` is the share that a figure may lose in any case.
pub fn compare(baseline: &[ProbeResult], now: &[ProbeResult], tolerance: f64) -> Diff {
    let (mut olds, news) = (by_figure(baseline), by_figure(now));
    let mut changes = Vec::new();
    for (key, news) in news {
        let mut known = olds.remove(&key).unwrap_or_default();
        for new in news.into_values().flatten() {
            // By the same backend, else by another.
            let old = taken(&mut known, &new.backend).or_else(|| {
                let backend = *known.keys().next()?;
                taken(&mut known, backend)
            });
            match old {
                Some(old) => changes.extend(change(&key, old, new, tolerance)),
                None => changes.push(one_sided(&key, new, ChangeKind::Added)),
            }
        }
        removed(&key, known, &mut changes);
    }
    for (key, known) in olds {
        removed(&key, known, &mut changes);
    }
    let regressed = |change: &Change| {
        let figure = change.figure.as_ref();
        figure.is_some_and(|figure| figure.regression)
    };
    changes.order_by(|a, b| {
        let order = regressed(b).cmp(&regressed(a));
        order.then_with(|| a.area.cmp(&b.area))
    });
    Diff { changes }
}

/// Results by backend.
type ByBackend<'a> = BTreeMap<&'a str, VecDeque<&'a ProbeResult>>;

/// The next result of a backend.
fn taken<'a>(known: &mut ByBackend<'a>, backend: &str) -> Option<&'a ProbeResult> {
    let results = known.get_mut(backend)?;
    let result = results.pop_front();
    if results.is_empty() {
        known.remove(backend);
    }
    result
}

/// The valid figures by everything but the backend: a fallback to a slower one is a regression.
fn by_figure(results: &[ProbeResult]) -> BTreeMap<Key<'_>, ByBackend<'_>> {
    let mut figures: BTreeMap<Key<'_>, ByBackend<'_>> = BTreeMap::new();
    let results = results.iter().filter(|result| result.unit != BYTES);
    for result in results.filter(|result| result.median.is_some() || rank(result.verdict) > 2) {
        let key = Key { backend: "", ..Key::of(result) };
        let of_backend = figures.entry(key).or_default().entry(&result.backend);
        of_backend.or_default().push_back(result);
    }
    figures
}

fn removed(key: &Key<'_>, known: ByBackend<'_>, changes: &mut Vec<Change>) {
    let left = known.into_values().flatten();
    changes.extend(left.map(|old| one_sided(key, old, ChangeKind::Removed)));
}

fn one_sided(key: &Key<'_>, result: &ProbeResult, kind: ChangeKind) -> Change {
    let text = Some(shown(result));
    let (a, b) = match kind {
        ChangeKind::Added => (None, text),
        _ => (text, None),
    };
    Change {
        area: key.subject.to_owned(),
        fact: key.words(),
        a,
        b,
        kind,
        identity: false,
        // Another selection of devices or sizes is not a change of the machine.
        volatile: true,
        figure: None,
    }
}

fn change(key: &Key<'_>, old: &ProbeResult, new: &ProbeResult, tolerance: f64) -> Option<Change> {
    // Nothing worked before.
    let before = Estimate::of(old)?;
    let (percent, threshold, regression) = match Estimate::of(new) {
        Some(after) => {
            let change = after.median / before.median - 1.0;
            let lower_is_better = new.unit == MICROSECONDS;
            let loss = if lower_is_better { change } else { -change };
            let threshold = (ERRORS * before.error.hypot(after.error)).max(tolerance);
            (Some(change * 100.0), threshold, loss > threshold)
        }
        None => (None, tolerance, true),
    };
    let is_large = percent.is_none_or(|percent| percent.abs() / 100.0 > threshold);
    let backends = old.backend != new.backend;
    let by = |result: &ProbeResult| {
        if backends { format!("{} by {}", shown(result), result.backend) } else { shown(result) }
    };
    Some(Change {
        area: key.subject.to_owned(),
        fact: key.words(),
        a: Some(by(old)),
        b: Some(by(new)),
        kind: ChangeKind::Changed,
        identity: false,
        volatile: !is_large && !backends,
        figure: Some(FigureChange { percent, noise: threshold * 100.0, regression }),
    })
}

fn shown(result: &ProbeResult) -> String {
    match result.median {
        Some(_) if rank(result.verdict) <= 2 => {
            let figure = Estimate::of(result).map_or(0.0, |figure| figure.median);
            format!("{figure:.3} {}", result.unit)
        }
        _ => result.verdict.word(result.median.is_some()).to_owned(),
    }
}

/// A figure and its standard error, as a share of it.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    median: f64,
    error: f64,
}

impl Estimate {
    /// None if nothing valid was measured.
    fn of(result: &ProbeResult) -> Option<Self> {
        if rank(result.verdict) > 2 {
            return None;
        }
        let runs = Figures::of(&result.runs).map(|figures| figures.median);
        let median = runs.or(result.median).filter(|median| *median > 0.0)?;
        let samples = result.samples as f64 * result.runs.len().max(1) as f64;
        let within = error(result.mad.unwrap_or(0.0), samples);
        let between = match result.runs.len() {
            0..RUNS => 0.0,
            runs => error(mad(&result.runs).unwrap_or(0.0), runs as f64),
        };
        Some(Self { median, error: within.max(between) / median })
    }
}

/// Standard error of the median of `count` values. Few values underestimate their spread.
fn error(mad: f64, count: f64) -> f64 {
    if count < 1.0 { 0.0 } else { OF_MEDIAN * DEVIATION * mad / count.sqrt() * (1.0 + 2.0 / count) }
}

#[cfg(test)]
mod tests;
