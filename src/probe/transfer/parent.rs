//! The parent's side: the curves over a NIC, and that of GPUDirect v2 beside them.

use std::collections::BTreeSet;

use crate::model::{Bdf, ProbeKind, ProbeReport, ProbeResult};
use crate::probe::children::Children;
use crate::probe::machine::Machine;
use crate::probe::rdma::{self, RemoteEnd};
use crate::probe::scope::{ProbeError, Scope};
use crate::probe::supervise::Probe;
use crate::probe::verdict::Subject;
use crate::probe::{p2p, rdma::Task};

/// `gdr probe transfer`.
#[derive(Debug, Clone)]
pub struct Options(pub rdma::Options);

/// Names of `probe p2p`, the name here, and the factor: one way is half of a round trip.
const V2: [(&str, &str, f64); 3] = [
    ("validate.copy.write", "validate.transfer.v2", 1.0),
    ("p2p.copy.round-trip.latency", "transfer.v2.latency", 0.5),
    ("p2p.copy.write.bandwidth", "transfer.v2.bandwidth", 1.0),
];

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Transfer;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.0.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        self.0.measure(machine, children)?;
        let is_server = matches!(self.0.remote, RemoteEnd::Comes(..));
        let has_failed = children.report.results.iter().any(|result| result.required);
        match is_server || has_failed || children.interrupts.pending() {
            true => Ok(()),
            false => self.v2(machine, children),
        }
    }

    fn finish(&self, report: &mut ProbeReport) {
        self.0.finish(report);
        let nics: BTreeSet<&str> = report.ends.iter().map(|end| end.device.as_str()).collect();
        let is_local = matches!(self.0.remote, RemoteEnd::Here(_));
        if is_local && !nics.is_empty() {
            let nics = Vec::from_iter(nics).join(", ");
            report.notes.push(format!(
                "ONE MACHINE: both ends are here ({nics}), and no network between two nodes is measured. gdr probe transfer HOST has \
                 the same curves between two machines."
            ));
        }
    }

    fn expect(&self, machine: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        self.0.expect(machine, report)
    }
}

impl Options {
    /// GPUDirect v2 between two GPUs of this machine.
    fn v2(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let mut scope = self.0.scope.clone();
        let gpus = children.report.gpus.iter();
        let gpus: Vec<Bdf> = gpus.filter_map(|gpu| gpu.bdf).take(2).collect();
        if !scope.sim && gpus.len() < 2 {
            let why = "GPUDirect v2 needs two GPUs in one machine".to_owned();
            let result =
                Subject::new("GPU0 > GPU1", "cuda").not_measured("transfer.v2.bandwidth", 0, why);
            children.report.results.push(ProbeResult {
                bytes: None,
                ..result
            });
            return Ok(());
        }
        scope.gpus = gpus.iter().map(Bdf::to_string).collect();
        scope.terms.sizes = scope.terms.transfer_sizes();
        let mut report = ProbeReport {
            results: Vec::new(),
            notes: Vec::new(),
            gpus: Vec::new(),
            complete: true,
            ..children.report.clone()
        };
        let mut pair = Children {
            report: &mut report,
            interrupts: children.interrupts,
            timeout: children.timeout,
            progress: &mut *children.progress,
        };
        p2p::Options { scope }.measure(machine, &mut pair)?;
        children.report.complete &= report.complete;
        report
            .notes
            .into_iter()
            .for_each(|note| children.note(note));
        let first = report.pairs.first().map(|pair| pair.subject.clone());
        let of_pair = |result: &ProbeResult| Some(&result.subject) == first.as_ref();
        let results = report.results.into_iter();
        let found = results.filter(|result| of_pair(result) || result.required);
        children.report.results.extend(found.filter_map(renamed));
        Ok(())
    }
}

/// A result of `probe p2p` as one of v2; failures keep their names.
fn renamed(mut result: ProbeResult) -> Option<ProbeResult> {
    let found = V2.iter().find(|(name, ..)| *name == result.name);
    match found {
        Some((_, name, factor)) => {
            result.name = (*name).to_owned();
            let figures = [
                &mut result.median,
                &mut result.p5,
                &mut result.p95,
                &mut result.p99,
                &mut result.p999,
                &mut result.max,
            ];
            figures
                .into_iter()
                .flatten()
                .for_each(|figure| *figure *= factor);
            Some(result)
        }
        None => result.required.then_some(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_is_half_of_a_round_trip() {
        let about = Subject::new("GPU0 -> GPU1", "cuda");
        let latency = about.latency("p2p.copy.round-trip.latency", Some(4), 0, &[8e-6; 3]);
        let found = renamed(latency).expect("a result");
        assert_eq!(
            (found.name.as_str(), found.median),
            ("transfer.v2.latency", Some(4.0))
        );
        let other = about.bandwidth("p2p.kernel.load.bandwidth", 4, 0, &[1.0], None);
        assert_eq!(renamed(other), None);
    }
}
