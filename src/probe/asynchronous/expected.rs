//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::Options;
use crate::model::ProbeReport;
use crate::probe::expected::recorded;
use crate::probe::supervise::{Machine, ProbeError};

/// The machine's GPUs: no link promises how soon a stream sees a word.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = recorded("async", &options.scope, machine)?;
    report.results = report
        .gpus
        .iter()
        .map(|gpu| {
            let about = crate::probe::verdict::Subject {
                subject: gpu.subject.clone(),
                backend: "cuda".to_owned(),
                numa: None,
            };
            let why = "no link promises how soon a stream sees a word: it is measured on the machine itself";
            about.not_measured("async.poll.host.latency", 4, why.to_owned())
        })
        .collect();
    Ok(report)
}
