//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::client::LIMITED_BY_LINK;
use super::pairs::places;
use super::supervise::{MemoryKind, Options, task};
use crate::model::{GIGABYTES_PER_SECOND, ProbeReport};
use crate::probe::events::Listed;
use crate::probe::expected::recorded;
use crate::probe::supervise::{Machine, ProbeError, chosen};
use crate::probe::verdict::{Promise, Subject};

/// What the figures of a recorded machine would be held against, each GPU with its best NIC.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = recorded("rdma", &options.scope, machine)?;
    let listed: Vec<Listed> = machine.listed();
    let gpus: Vec<_> = match options.kind {
        MemoryKind::Host | MemoryKind::Huge => Vec::new(),
        MemoryKind::Best | MemoryKind::Pinned | MemoryKind::Gpu => {
            chosen(&options.scope, machine, &listed)?
                .iter()
                .map(|gpu| gpu.target())
                .collect()
        }
    };
    let found = match places(options, &machine.nics, &gpus) {
        Ok(found) => found,
        Err(why) => {
            report.notes.push(format!("Nothing is expected: {why}."));
            return Ok(report);
        }
    };
    let name = "rdma.write.bandwidth";
    for place in &found {
        let task = task(options, place, place);
        let about = Subject {
            subject: task.subject.clone(),
            backend: "verbs".to_owned(),
            numa: None,
        };
        // To another machine, so the port counts too.
        let limit = place.path.into_iter().chain(place.rate).min();
        report.results.push(match limit {
            Some(limit) => about.promised(
                name,
                LIMITED_BY_LINK,
                GIGABYTES_PER_SECOND,
                Promise {
                    value: limit as f64 / 1e9,
                    share: options.scope.terms.shares.port,
                },
            ),
            None => {
                let why = "what its port and the way to it carry is not known from this record"
                    .to_owned();
                about.not_measured(name, LIMITED_BY_LINK, why)
            }
        });
    }
    Ok(report)
}
