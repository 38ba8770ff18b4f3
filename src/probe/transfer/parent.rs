//! The parent's side: the curves over a NIC, and that of GPUDirect v2 beside them.

use std::collections::BTreeSet;

use crate::model::figure::transfer;
use crate::model::{ProbeKind, ProbeReport, ProbeResult};
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
        if is_server || has_failed || children.interrupts.pending() {
            Ok(())
        } else {
            self.v2(machine, children)
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
        let scope = &self.0.scope;
        let gpus = children.gpus(scope, 2, machine)?;
        let sizes = scope.terms.transfer_sizes();
        match p2p::curve(scope, machine, &gpus, sizes) {
            Some(task) => drop(children.run("GPUs", &task, &[])?),
            None => {
                let why = "GPUDirect v2 needs two GPUs in one machine".to_owned();
                let about = Subject::new("GPU0 -> GPU1", "cuda");
                children.report.results.push(ProbeResult {
                    bytes: None,
                    ..about.not_measured(transfer::V2.bandwidth.name, 0, why)
                });
            }
        }
        Ok(())
    }
}
