//! Results and their verdicts, and the exit code of a report.

use serde::{Deserialize, Serialize};

use super::statistics::{Figures, histogram, mad, mean};
use crate::model::{
    GIGABYTES_PER_SECOND, MICROSECONDS, MILLIONS_PER_SECOND, NextStep, Outcome, ProbeKind,
    ProbeReport, ProbeResult, ProbeVerdict,
};

/// The peak rate of a link, and the share of it that a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// In the unit of the figure. A larger figure is impossible.
    pub value: f64,
    /// A figure below this share is slow; `None` if the link is not the limit.
    pub share: Option<f64>,
}

impl Promise {
    /// For a link of this peak rate in bytes/s, in GB/s.
    pub fn of_link(link: u64, share: Option<f64>) -> Self {
        Self { value: link as f64 / 1e9, share }
    }

    /// For both directions of a link together.
    pub fn doubled(self) -> Self {
        Self { value: self.value * 2.0, ..self }
    }
}

/// The subject of results: what is verified or measured, and by which backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// A GPU, a pair or a port.
    pub subject: String,
    pub backend: String,
    /// The NUMA node that the process is bound to.
    pub numa: Option<u32>,
}

impl Subject {
    /// A subject without a NUMA node.
    pub fn new(subject: &str, backend: &str) -> Self {
        Self { subject: subject.to_owned(), backend: backend.to_owned(), numa: None }
    }

    /// The whole machine.
    pub fn machine(backend: &str) -> Self {
        Self::new("machine", backend)
    }

    fn bare(&self, name: &str, bytes: Option<usize>) -> ProbeResult {
        ProbeResult {
            name: name.to_owned(),
            subject: self.subject.clone(),
            backend: self.backend.clone(),
            bytes: bytes.map(|bytes| bytes as u64),
            numa: self.numa,
            ..ProbeResult::default()
        }
    }

    /// `verified` bytes were compared, and all are right.
    pub fn right(&self, name: &str, bytes: Option<usize>, verified: usize) -> ProbeResult {
        ProbeResult { verified: verified as u64, ..self.bare(name, bytes) }
    }

    /// Data was wrong.
    pub fn wrong(&self, name: &str, bytes: Option<usize>, reason: String) -> ProbeResult {
        ProbeResult { verdict: ProbeVerdict::Wrong, reason: Some(reason), ..self.bare(name, bytes) }
    }

    /// `result`, or the reason why its data was wrong.
    pub fn checked(&self, result: ProbeResult, wrong: Option<String>) -> ProbeResult {
        match wrong {
            None => result,
            Some(reason) => {
                ProbeResult { bytes: result.bytes, ..self.wrong(&result.name, None, reason) }
            }
        }
    }

    /// It could not be done. The probe fails if it is `required`.
    pub fn impossible(
        &self,
        name: &str,
        bytes: Option<usize>,
        required: bool,
        reason: String,
    ) -> ProbeResult {
        ProbeResult {
            verdict: ProbeVerdict::Impossible,
            reason: Some(reason),
            required,
            ..self.bare(name, bytes)
        }
    }

    /// A latency, from samples in seconds.
    pub fn latency(
        &self,
        name: &str,
        bytes: Option<usize>,
        verified: usize,
        seconds: &[f64],
    ) -> ProbeResult {
        let samples: Vec<f64> = seconds.iter().map(|seconds| seconds * 1e6).collect();
        let bare = ProbeResult { verified: verified as u64, ..self.bare(name, bytes) };
        let rare = Figures::of(&samples);
        ProbeResult {
            p99: rare.and_then(|figures| figures.p99),
            p999: rare.and_then(|figures| figures.p999),
            ..with_figures(bare, MICROSECONDS, &samples)
        }
    }

    /// A latency with its minimum, mean and a histogram, from samples in seconds.
    pub fn spread(
        &self,
        name: &str,
        bytes: Option<usize>,
        verified: usize,
        seconds: &[f64],
    ) -> ProbeResult {
        let samples: Vec<f64> = seconds.iter().map(|seconds| seconds * 1e6).collect();
        ProbeResult {
            min: samples.iter().copied().min_by(f64::total_cmp),
            mean: mean(&samples),
            histogram: histogram(&samples),
            ..self.latency(name, bytes, verified, seconds)
        }
    }

    /// A message rate, from samples in seconds per message of `bytes`.
    pub fn rate(&self, name: &str, bytes: usize, seconds: &[f64]) -> ProbeResult {
        let measurable = seconds.iter().filter(|seconds| **seconds > 0.0);
        let samples: Vec<f64> = measurable.map(|seconds| 1e-6 / seconds).collect();
        with_figures(self.bare(name, Some(bytes)), MILLIONS_PER_SECOND, &samples)
    }

    /// A bandwidth, from samples in seconds per `bytes`.
    pub fn bandwidth(
        &self,
        name: &str,
        bytes: usize,
        verified: usize,
        seconds: &[f64],
        promise: Option<Promise>,
    ) -> ProbeResult {
        let measurable = seconds.iter().filter(|seconds| **seconds > 0.0);
        let samples: Vec<f64> = measurable.map(|seconds| bytes as f64 / seconds / 1e9).collect();
        let bare = ProbeResult { verified: verified as u64, ..self.bare(name, Some(bytes)) };
        with_verdict(with_figures(bare, GIGABYTES_PER_SECOND, &samples), promise)
    }

    /// The expected figure of a recorded machine.
    pub fn promised(&self, name: &str, bytes: usize, unit: &str, promise: Promise) -> ProbeResult {
        let slow = promise.share.map_or_else(String::new, |share| {
            format!("less than {:.1} {unit} would be slow, ", promise.value * share)
        });
        let reason =
            format!("not measured; {slow}more than {:.1} {unit} impossible", promise.value);
        ProbeResult {
            unit: unit.to_owned(),
            expected: Some(promise.value),
            verdict: ProbeVerdict::NotMeasured,
            reason: Some(reason),
            ..self.bare(name, Some(bytes))
        }
    }

    /// Nothing is measured, and no figure is expected.
    pub fn not_measured(&self, name: &str, bytes: usize, reason: String) -> ProbeResult {
        ProbeResult {
            verdict: ProbeVerdict::NotMeasured,
            reason: Some(reason),
            ..self.bare(name, Some(bytes))
        }
    }

    /// A figure computed from other figures.
    pub fn figure(&self, name: &str, unit: &str, value: Option<f64>) -> ProbeResult {
        ProbeResult { unit: unit.to_owned(), median: value, ..self.bare(name, None) }
    }
}

fn with_figures(bare: ProbeResult, unit: &str, samples: &[f64]) -> ProbeResult {
    let figures = Figures::of(samples);
    ProbeResult {
        unit: unit.to_owned(),
        median: figures.map(|figures| figures.median),
        p5: figures.map(|figures| figures.p5),
        p95: figures.map(|figures| figures.p95),
        max: figures.map(|figures| figures.max),
        mad: mad(samples),
        samples: samples.len() as u64,
        ..bare
    }
}

fn with_verdict(mut result: ProbeResult, promise: Option<Promise>) -> ProbeResult {
    let (Some(promise), Some(median)) = (promise, result.median) else {
        return result;
    };
    let Promise { value, share } = promise;
    result.expected = share.map(|_| value);
    if median > value {
        result.verdict = ProbeVerdict::Impossible;
        result.reason = Some(format!(
            "more than the {value:.1} {} of its link: the port above is not the real one (virtual \
             machines), or not all bytes used the link",
            result.unit
        ));
    } else if let Some(share) = share.filter(|share| median < value * share) {
        result.verdict = ProbeVerdict::Slow;
        result.reason = Some(format!(
            "less than {:.0} % of the {value:.1} {} that the link carries",
            share * 100.0,
            result.unit
        ));
    }
    result
}

/// The exit code of a probe. 1: data was wrong, something required was impossible, or a figure is not as expected or is worse than its
/// baseline. 3: nothing failed, but the report is incomplete. Else 0; a slow figure is not a failure.
pub fn exit_code(report: &ProbeReport) -> u8 {
    let unexpected = report.findings.iter().any(|finding| finding.outcome == Outcome::Fail);
    let baseline = report.baseline.iter().flat_map(|diff| &diff.changes);
    let regressed =
        baseline.filter_map(|change| change.figure.as_ref()).any(|figure| figure.regression);
    let failed = failures(report).next().is_some() || unexpected || regressed;
    match (failed, report.complete) {
        (true, _) => 1,
        (false, false) => 3,
        (false, true) => 0,
    }
}

/// Results that make a probe fail.
pub fn failures(report: &ProbeReport) -> impl Iterator<Item = &ProbeResult> {
    report.results.iter().filter(|result| match result.verdict {
        ProbeVerdict::Wrong => true,
        ProbeVerdict::Impossible => result.required,
        ProbeVerdict::Ok | ProbeVerdict::Slow | ProbeVerdict::NotMeasured => false,
    })
}

/// What helps first: doctor names why something failed or is slow. None where no device took part.
pub fn next_step(report: &ProbeReport) -> Option<NextStep> {
    let is_slow = report.results.iter().any(|result| result.verdict == ProbeVerdict::Slow);
    if report.simulated || (exit_code(report) != 1 && !is_slow) {
        return None;
    }
    let profile = match report.probe {
        ProbeKind::Rdma | ProbeKind::Transfer => "",
        ProbeKind::Copy | ProbeKind::Host => " --profile gdrcopy",
        ProbeKind::P2p => " --profile p2p",
        ProbeKind::Async | ProbeKind::Mp => " --profile async",
        ProbeKind::Mpi => " --profile mpi",
    };
    let command = Some(format!("sudo gdr doctor{profile}"));
    Some(NextStep { checks: Vec::new(), command, advice: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { subject: "GPU0".to_owned(), backend: "rm".to_owned(), numa: Some(1) }
    }

    #[test]
    fn bandwidth_is_compared_with_the_link() {
        let seconds = [30e-6; 8];
        let promise = |share| Some(Promise { value: 63.0, share: Some(share) });
        let fast = subject().bandwidth("copy.write.bandwidth", 1 << 20, 7, &seconds, promise(0.2));
        let median = fast.median.expect("a median");
        assert!((median - 34.9525).abs() < 0.001, "{median}");
        assert_eq!((fast.verdict, fast.expected), (ProbeVerdict::Ok, Some(63.0)));
        assert_eq!((fast.unit.as_str(), fast.samples, fast.verified), ("GB/s", 8, 7));
        let slow = subject().bandwidth("copy.write.bandwidth", 1 << 20, 7, &seconds, promise(0.6));
        assert_eq!(slow.verdict, ProbeVerdict::Slow);
        assert_eq!(
            slow.reason.as_deref(),
            Some("less than 60 % of the 63.0 GB/s that the link carries")
        );
        let limit = |value| Some(Promise { value, share: None });
        let bounded = subject().bandwidth("copy.read.bandwidth", 1 << 20, 7, &seconds, limit(63.0));
        assert_eq!((bounded.verdict, bounded.expected), (ProbeVerdict::Ok, None));
        let untrue = subject().bandwidth("copy.read.bandwidth", 1 << 20, 7, &seconds, limit(0.25));
        assert_eq!((untrue.verdict, untrue.required), (ProbeVerdict::Impossible, false));
        assert!(untrue.reason.is_some_and(|reason| reason.starts_with("more than the 0.2 GB/s")));
        let latency = subject().latency("copy.write.latency", Some(1 << 20), 0, &seconds);
        assert_eq!((latency.unit.as_str(), latency.median), ("us", Some(30.0)));
    }

    #[test]
    fn exit_codes() {
        let report =
            |complete, results| ProbeReport { complete, results, ..ProbeReport::default() };
        let fine = || subject().right("validate.malloc.stores", Some(4), 4);
        let wrong = || subject().wrong("validate.malloc.stores", Some(4), "no".to_owned());
        let impossible =
            |required| subject().impossible("validate.pool", None, required, "no".to_owned());
        assert_eq!(exit_code(&report(true, vec![fine(), impossible(false)])), 0);
        assert_eq!(exit_code(&report(false, vec![fine()])), 3);
        assert_eq!(exit_code(&report(false, vec![wrong()])), 1);
        assert_eq!(exit_code(&report(true, vec![fine(), impossible(true)])), 1);
    }
}
