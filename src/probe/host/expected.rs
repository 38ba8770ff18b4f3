//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::session::{Direction, LIMITED_BY_LINK};
use super::supervise::Options;
use crate::model::{GIGABYTES_PER_SECOND, ProbeReport, ProbeResult, ProbedGpu, Shares};
use crate::probe::expected::{recorded, unknown_link};
use crate::probe::supervise::{Machine, ProbeError};
use crate::probe::verdict::{Promise, Subject};

/// What the figures of a recorded machine would be held against.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = recorded("host", &options.scope, machine)?;
    report.results = report
        .gpus
        .iter()
        .flat_map(|gpu| of_gpu(gpu, options.scope.terms.shares))
        .collect();
    Ok(report)
}

fn of_gpu(gpu: &ProbedGpu, shares: Shares) -> Vec<ProbeResult> {
    let about = Subject {
        subject: gpu.subject.clone(),
        backend: "cuda".to_owned(),
        numa: None,
    };
    let name = |direction: Direction| format!("host.pinned.{}.bandwidth", direction.name());
    let of = |direction| match gpu.link {
        Some(link) => about.promised(
            &name(direction),
            LIMITED_BY_LINK,
            GIGABYTES_PER_SECOND,
            Promise {
                value: link as f64 / 1e9,
                share: shares.pci_express,
            },
        ),
        None => unknown_link(&about, &name(direction), LIMITED_BY_LINK),
    };
    Direction::BOTH.map(of).to_vec()
}
