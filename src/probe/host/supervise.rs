//! The parent's side: a child for each GPU and NUMA node.

use super::Task;
use crate::model::{NumaNode, ProbeReport};

use crate::probe::request::Request;
use crate::probe::supervise::{Chosen, Machine, Nodes, ProbeError, Scope, Watcher, nodes, probe};
use crate::probe::watch::Interrupts;

#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
    /// The CPUs to copy from.
    pub nodes: Nodes,
}

/// Probes, and reports whatever came of it: an interruption and a hang end it early, with a note.
pub fn run(
    options: &Options,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let scope = (&options.scope, 1);
    probe(
        "host",
        scope,
        machine,
        interrupts,
        progress,
        |children, gpus| {
            for gpu in gpus {
                for task in tasks(options, machine, &gpu)? {
                    let subject = task.target.subject.clone();
                    if !children
                        .run(&subject, &Request::Host(Box::new(task)), &[])?
                        .go_on
                    {
                        return Ok(());
                    }
                }
            }
            Ok(())
        },
    )
}

/// A task for each NUMA node, the GPU's own first: it does everything.
fn tasks(options: &Options, machine: &Machine, gpu: &Chosen<'_>) -> Result<Vec<Task>, ProbeError> {
    let target = gpu.target();
    let nodes = nodes(options.nodes, machine, target.home)?;
    let task = |node: Option<&NumaNode>, links_only| Task {
        target: target.clone(),
        node: node.map(|node| (node.id, node.cpus.clone())),
        links_only,
        terms: options.scope.terms.clone(),
    };
    Ok(match nodes.as_slice() {
        [] => vec![task(None, false)],
        nodes => nodes
            .iter()
            .enumerate()
            .map(|(at, node)| task(Some(node), at > 0))
            .collect(),
    })
}
