//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::arrow;
use super::cluster::LIMITED_BY_LINK;
use super::supervise::Options;
use crate::model::{GIGABYTES_PER_SECOND, ProbeReport, ProbeResult, ProbedGpu, ProbedPair, Shares};
use crate::probe::expected::recorded;
use crate::probe::supervise::{Machine, ProbeError};
use crate::probe::verdict::{Promise, Subject};

/// What the figures of a recorded machine would be held against.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = recorded("p2p", &options.scope, machine)?;
    let gpus = report.gpus.clone();
    for from in &gpus {
        for to in gpus.iter().filter(|to| to.subject != from.subject) {
            let pair = pair(machine, from, to);
            report
                .results
                .push(of_pair(&pair, options.scope.terms.shares));
            report.pairs.push(pair);
        }
    }
    Ok(report)
}

fn pair(machine: &Machine, from: &ProbedGpu, to: &ProbedGpu) -> ProbedPair {
    let between = machine.way(from.bdf, to.bdf).cloned().unwrap_or_default();
    ProbedPair {
        subject: arrow(&from.subject, &to.subject),
        from: from.subject.clone(),
        to: to.subject.clone(),
        can_access: None,
        performance_rank: None,
        atomics: None,
        nvml: between.nvml,
        nvlinks: between.nvlinks,
        class: between.class,
        // What an NVLink carries depends on the GPU's generation, which is asked of CUDA.
        link: between
            .pci
            .filter(|_| between.nvlinks.is_none_or(|links| links == 0)),
    }
}

fn of_pair(pair: &ProbedPair, shares: Shares) -> ProbeResult {
    let about = Subject {
        subject: pair.subject.clone(),
        backend: "cuda".to_owned(),
        numa: None,
    };
    let name = "p2p.copy.write.bandwidth";
    match (pair.link, pair.nvlinks) {
        (Some(link), _) => about.promised(
            name,
            LIMITED_BY_LINK,
            GIGABYTES_PER_SECOND,
            Promise {
                value: link as f64 / 1e9,
                share: shares.pci_express,
            },
        ),
        (None, Some(links)) if links > 0 => {
            let why = format!("{links} NVLinks; what each carries is asked of the GPU");
            about.not_measured(name, LIMITED_BY_LINK, why)
        }
        _ => {
            let why = "what the way between them carries is not known from this record".to_owned();
            about.not_measured(name, LIMITED_BY_LINK, why)
        }
    }
}
