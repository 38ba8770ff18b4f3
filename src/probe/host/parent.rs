//! The parent's side: one child for each GPU and NUMA node.

use super::session::{Direction, HostMemoryKind, LIMITED_BY_LINK};
use super::task::Task;
use crate::model::{ProbeKind, ProbeReport};
use crate::probe::children::Children;
use crate::probe::machine::Machine;
use crate::probe::scope::{Nodes, ProbeError, Scope, bindings};
use crate::probe::supervise::{Probe, expect_bandwidth};
use crate::probe::verdict::Subject;

/// `gdr probe host`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    /// The NUMA nodes to copy from.
    pub nodes: Nodes,
}

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Host;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        children.run_tasks(&self.scope, machine, &[], |target| {
            let nodes = bindings(self.nodes, machine, target.home)?;
            let tasks = nodes.into_iter().enumerate().map(|(at, node)| Task {
                target: target.clone(),
                node,
                // The first child, of the GPU's own node, measures everything.
                links_only: at > 0,
                terms: self.scope.terms.clone(),
            });
            Ok(tasks.collect())
        })
    }

    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        for gpu in &report.gpus {
            let about = Subject::new(&gpu.subject, "cuda");
            report.results.extend(Direction::BOTH.map(|direction| {
                let name = HostMemoryKind::Pinned.bandwidth(direction);
                let share = self.scope.terms.shares.pci_express;
                expect_bandwidth(&about, &name, LIMITED_BY_LINK, gpu.link, share)
            }));
        }
        Ok(())
    }
}
