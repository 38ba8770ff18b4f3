//! The rule on simulated noise: what it must find, and what it must not.

use super::*;
use crate::model::ProbeKind;
use crate::probe::verdict::Subject;

/// Numbers of a normal distribution: xorshift64* and Box and Muller's method.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (bits as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The figures that became worse.
fn regressions(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let regressed =
        |change: &&Change| change.figure.as_ref().is_some_and(|figure| figure.regression);
    changes.iter().filter(regressed)
}

fn compare(baseline: &ProbeReport, now: &ProbeReport, tolerance: f64) -> Diff {
    super::compare(&baseline.results, &now.results, tolerance)
}

fn report(results: Vec<ProbeResult>) -> ProbeReport {
    ProbeReport {
        probe: ProbeKind::Host,
        simulated: true,
        complete: true,
        results,
        ..ProbeReport::default()
    }
}

/// How a simulated probe varies.
#[derive(Clone, Copy)]
struct Case {
    samples: usize,
    runs: usize,
    /// Standard deviation of samples, and of whole runs, as shares.
    within: f64,
    between: f64,
}

/// One bandwidth and one latency, `slower` times as slow as usual.
fn measure(noise: &mut Noise, case: Case, slower: f64) -> ProbeReport {
    let runs = (0..case.runs).map(|_| {
        let run = 1.0 + case.between * noise.normal();
        let seconds: Vec<f64> = (0..case.samples)
            .map(|_| 1e-3 * slower * run * (1.0 + case.within * noise.normal()))
            .collect();
        let about = Subject::new("GPU0", "sim");
        report(vec![
            about.bandwidth("x.bandwidth", 1 << 20, 0, &seconds, None),
            about.latency("x.latency", Some(1 << 20), 0, &seconds),
        ])
    });
    combine(runs.collect()).expect("a report")
}

/// Of 1,000 simulated comparisons, how many have a regression of either figure.
fn found(seed: u64, case: Case, slower: f64) -> usize {
    let mut noise = Noise(seed);
    let trial = |_: &usize| {
        let (before, after) = (measure(&mut noise, case, 1.0), measure(&mut noise, case, slower));
        let diff = compare(&before, &after, TOLERANCE);
        regressions(&diff.changes).next().is_some()
    };
    (0..1000).filter(trial).count()
}

#[test]
#[ignore = "slow: thousands of reports"]
fn noise_is_no_regression_and_losses_are_found() {
    let one = Case { samples: 20, runs: 1, within: 0.05, between: 0.0 };
    let cases = [
        one,
        Case { samples: 200, ..one },
        Case { runs: 3, ..one },
        // Runs that differ need more of them.
        Case { runs: 16, within: 0.02, between: 0.05, ..one },
    ];
    for case in cases {
        for seed in [0x5eed, 0xfeed_beef] {
            let false_alarms = found(seed, case, 1.0);
            assert!(false_alarms <= 10, "{false_alarms} of 1000 with {} runs", case.runs);
            // A bandwidth that falls by 15 %, and the time that follows from it.
            let losses = found(seed, case, 1.0 / 0.85);
            assert!(losses >= 990, "{losses} of 1000 with {} runs", case.runs);
        }
        // A gain is not a regression.
        assert_eq!(found(1, case, 0.85), 0);
    }
}

fn result(median: f64) -> ProbeResult {
    ProbeResult {
        name: "x".to_owned(),
        subject: "GPU0".to_owned(),
        backend: "rm".to_owned(),
        unit: "GB/s".to_owned(),
        median: Some(median),
        samples: 100,
        mad: Some(median * 0.01),
        ..ProbeResult::default()
    }
}

#[test]
fn names_figure_and_change() {
    let old = report(vec![result(20.0), ProbeResult { bytes: Some(4096), ..result(10.0) }]);
    let new = report(vec![result(15.0), ProbeResult { bytes: Some(4096), ..result(10.2) }]);
    let diff = compare(&old, &new, TOLERANCE);
    let [first, second] = diff.changes.as_slice() else {
        panic!("{diff:?}");
    };
    assert_eq!((first.area.as_str(), first.fact.as_str()), ("GPU0", "x"));
    assert_eq!(
        (first.a.as_deref(), first.b.as_deref()),
        (Some("20.000 GB/s"), Some("15.000 GB/s"))
    );
    let figure = first.figure.clone().expect("a figure");
    assert!(figure.regression && (figure.percent.expect("a change") + 25.0).abs() < 1e-9);
    assert!((figure.noise - 7.0).abs() < 1e-9, "{figure:?}");
    assert!(second.volatile && !second.figure.clone().expect("a figure").regression);
}

#[test]
fn lost_results_and_other_backends_count() {
    let impossible = ProbeResult { median: None, verdict: ProbeVerdict::Impossible, ..result(0.0) };
    let diff = compare(&report(vec![result(20.0)]), &report(vec![impossible.clone()]), TOLERANCE);
    assert_eq!(regressions(&diff.changes).count(), 1);
    assert_eq!(diff.changes[0].b.as_deref(), Some("could not run"));
    // What did not work before cannot become worse.
    let diff = compare(&report(vec![impossible]), &report(vec![result(20.0)]), TOLERANCE);
    assert_eq!(regressions(&diff.changes).count(), 0);
    let fallback = ProbeResult { backend: "staged".to_owned(), ..result(8.0) };
    let diff = compare(&report(vec![result(20.0)]), &report(vec![fallback]), TOLERANCE);
    assert_eq!(diff.changes[0].b.as_deref(), Some("8.000 GB/s by staged"));
    assert_eq!(regressions(&diff.changes).count(), 1);
    // Another size, or another GPU, is left out.
    let other = ProbeResult { bytes: Some(1), ..result(8.0) };
    let diff = compare(&report(vec![result(20.0)]), &report(vec![other]), TOLERANCE);
    assert_eq!(diff.changes.iter().filter(|change| change.matters()).count(), 0);
}

#[test]
fn runs_are_combined() {
    let runs = [20.0, 30.0, 10.0].map(|median| report(vec![result(median)]));
    let combined = combine(runs.to_vec()).expect("a report");
    assert_eq!(combined.results[0].median, Some(20.0));
    assert_eq!(combined.results[0].runs, [20.0, 30.0, 10.0]);
    let wrong = ProbeResult { median: None, verdict: ProbeVerdict::Wrong, ..result(0.0) };
    let runs = vec![report(vec![result(20.0)]), report(vec![wrong])];
    assert_eq!(combine(runs).expect("a report").results[0].verdict, ProbeVerdict::Wrong);
    assert_eq!(combine(Vec::new()), None);
}
