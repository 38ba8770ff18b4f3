//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::session::{Direction, ENGINE_SHARE, LIMITED_BY_LINK};
use super::supervise::Options;
use crate::model::{GIGABYTES_PER_SECOND, ProbeReport, ProbeResult, ProbedGpu};
use crate::probe::expected::{recorded, unknown_link};
use crate::probe::supervise::{Machine, ProbeError};
use crate::probe::verdict::{Promise, Subject};

/// What the figures of a recorded machine would be held against.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = recorded("host", &options.scope, machine)?;
    report.results = report.gpus.iter().flat_map(of_gpu).collect();
    Ok(report)
}

fn of_gpu(gpu: &ProbedGpu) -> Vec<ProbeResult> {
    let about = Subject {
        subject: gpu.subject.clone(),
        backend: "cuda".to_owned(),
        numa: None,
    };
    let name = |direction: Direction| format!("host.pinned.{}.bandwidth", direction.name());
    let of = |direction| match gpu.link {
        Some(link) => about.not_measured(
            &name(direction),
            LIMITED_BY_LINK,
            GIGABYTES_PER_SECOND,
            Promise {
                value: link as f64 / 1e9,
                share: Some(ENGINE_SHARE),
            },
        ),
        None => unknown_link(&about, &name(direction), LIMITED_BY_LINK),
    };
    Direction::BOTH.map(of).to_vec()
}
