//! The parent's side: one child for each GPU and NUMA node, and the crossovers of all results.

use super::cases;
use super::crossover::crossover;
use super::point::LIMITED_BY_LINK;
use super::task::{Choices, Task};
use crate::model::figure::Direction;
use crate::model::figure::copy::{MAPPING, Quantity, WAYS};
use crate::model::{ProbeKind, ProbeReport};
use crate::probe::children::Children;
use crate::probe::machine::Machine;
use crate::probe::scope::{Nodes, ProbeError, Scope, bindings};
use crate::probe::supervise::{Probe, expect_bandwidth};
use crate::probe::target::Target;
use crate::probe::verdict::Subject;

/// `gdr probe copy`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    /// The only backend to use, by name.
    pub backend: Option<String>,
    /// The only copy kernel to use, by name.
    pub kernel: Option<String>,
    /// The NUMA nodes to copy from.
    pub nodes: Nodes,
    pub choices: Choices,
}

impl Options {
    /// One task for each NUMA node. The first, of the GPU's own node, measures everything, the others only copies.
    fn tasks(&self, machine: &Machine, target: Target) -> Result<Vec<Task>, ProbeError> {
        let mut nodes = bindings(self.nodes, machine, target.home)?;
        if !cases::includes_sweep(&self.choices) {
            nodes.truncate(1);
        }
        let tasks = nodes.into_iter().enumerate().map(|(at, node)| Task {
            target: target.clone(),
            node,
            sweep_only: at > 0,
            backend: self.backend.clone(),
            terms: self.scope.terms.clone(),
            choices: self.choices.clone(),
        });
        Ok(tasks.collect())
    }
}

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Copy;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let kernel = self.kernel.iter().map(|kernel| ("GDR_COPY_KERNEL", kernel.as_str()));
        let kernel: Vec<(&str, &str)> = kernel.collect();
        children.run_tasks(&self.scope, machine, &kernel, |target| self.tasks(machine, target))
    }

    /// Crossovers need complete sweeps.
    fn finish(&self, report: &mut ProbeReport) {
        if report.complete {
            add_crossovers(report);
        }
    }

    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        let shares = self.scope.terms.shares;
        for gpu in &report.gpus {
            for (way, limit) in WAYS.iter().filter_map(|way| Some((way, way.limit?))) {
                let about = Subject::new(&gpu.subject, way.backend);
                report.results.extend(limit.directions.iter().map(|direction| {
                    let share = limit.share(*direction, &shares);
                    let name = way.bandwidth(*direction);
                    expect_bandwidth(&about, &name, LIMITED_BY_LINK, gpu.link, share)
                }));
            }
        }
        Ok(())
    }
}

fn add_crossovers(report: &mut ProbeReport) {
    let mut found = Vec::new();
    let written = MAPPING.latency(Direction::ToGpu);
    let mut sweeps: Vec<(&str, &str, Option<u32>)> = Vec::new();
    for result in report.results.iter().filter(|result| result.name == written) {
        let sweep = (result.subject.as_str(), result.backend.as_str(), result.numa);
        if !sweeps.contains(&sweep) {
            sweeps.push(sweep);
        }
    }
    for (subject, backend, numa) in sweeps {
        let about = Subject { subject: subject.to_owned(), backend: backend.to_owned(), numa };
        for direction in Direction::BOTH {
            found.extend(
                Quantity::COSTS
                    .iter()
                    .filter_map(|cost| crossover(&report.results, &about, direction, *cost)),
            );
        }
    }
    report.results.extend(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::model::{Host, IdList, NumaNode, ProbeVerdict};
    use crate::probe::events::Listed;
    use crate::probe::machine::LocatedGpu;
    use crate::probe::scope::{Chosen, chosen};
    use crate::probe::supervise::expected;
    use crate::probe::terms::Terms;

    fn machine() -> Machine {
        let place = |name: &str, bdf: &str, numa| LocatedGpu {
            name: name.to_owned(),
            label: String::new(),
            bdf: bdf.parse().expect("an address"),
            numa,
            link: Some(63_015_384_615),
        };
        let node = |id, cpus| NumaNode { id, cpus: IdList::new(cpus) };
        Machine {
            host: Host::default(),
            gpus: vec![
                place("GPU0", "0000:3b:00.0", Some(0)),
                place("GPU1", "0000:86:00.0", Some(1)),
            ],
            nodes: vec![node(0, 0..4), node(1, 4..8), node(2, 0..0)],
            nics: Vec::new(),
            paths: Default::default(),
        }
    }

    fn listed() -> Vec<Listed> {
        let gpu = |ordinal, bdf: &str| Listed {
            ordinal,
            name: "NVIDIA H200".to_owned(),
            uuid: format!("GPU-0000000{ordinal}"),
            bdf: bdf.parse().ok(),
            simulated: false,
        };
        // In an order set by CUDA_VISIBLE_DEVICES.
        vec![gpu(0, "0000:86:00.0"), gpu(1, "0000:3b:00.0")]
    }

    fn options(gpus: &[&str], nodes: Nodes) -> Options {
        Options {
            scope: Scope {
                sim: false,
                gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
                terms: Terms::quick(&[], Duration::from_secs(10)),
            },
            backend: None,
            kernel: None,
            nodes,
            choices: Choices::default(),
        }
    }

    fn subjects(gpus: &[&str]) -> Result<Vec<String>, String> {
        let (machine, listed) = (machine(), listed());
        let found = chosen(&options(gpus, Nodes::Near).scope, &machine, &listed);
        let subjects = found.map(|found| found.iter().map(Chosen::subject).collect());
        subjects.map_err(|error| error.to_string())
    }

    #[test]
    fn selects_gpu_by_name_address_or_uuid() {
        let both = ["GPU1 (0000:86:00.0)", "GPU0 (0000:3b:00.0)"];
        assert_eq!(subjects(&["all"]).expect("all"), both);
        for wanted in ["0", "GPU0", "gpu0", "0000:3b:00.0", "3b:00.0", "GPU-00000001"] {
            assert_eq!(subjects(&[wanted]).expect(wanted), both[1..], "{wanted}");
        }
        assert_eq!(subjects(&["1", "86:00.0", "GPU1"]).expect("once"), both[..1]);
        let error = subjects(&["2"]).expect_err("there are two");
        assert_eq!(
            error,
            "there is no GPU '2' here; there are: GPU1 (0000:86:00.0), GPU0 (0000:3b:00.0)"
        );
    }

    fn nodes_of(wanted: Nodes, machine: &Machine) -> Result<Vec<(Option<u32>, bool)>, String> {
        let listed = listed();
        let options = options(&["1"], wanted);
        let gpu = chosen(&options.scope, machine, &listed).expect("a GPU").remove(0);
        let tasks = options.tasks(machine, gpu.target()).map_err(|error| error.to_string())?;
        Ok(tasks
            .iter()
            .map(|task| (task.node.as_ref().map(|node| node.0), task.sweep_only))
            .collect())
    }

    #[test]
    fn own_node_comes_first() {
        let machine = machine();
        let nodes = |wanted| nodes_of(wanted, &machine);
        assert_eq!(nodes(Nodes::All), Ok(vec![(Some(1), false), (Some(0), true)]));
        assert_eq!(nodes(Nodes::Near), Ok(vec![(Some(1), false)]));
        assert_eq!(nodes(Nodes::One(0)), Ok(vec![(Some(0), false)]));
        let error = nodes(Nodes::One(2)).expect_err("it has no CPU");
        assert_eq!(error, "there is no NUMA node 2 with CPUs here; there are: 1, 0");
    }

    #[test]
    fn only_copies_depend_on_the_node() {
        let (machine, listed) = (machine(), listed());
        for (test, nodes) in [("api", 1), ("ping-pong", 1), ("latency", 2), ("bandwidth", 2)] {
            let mut options = options(&["1"], Nodes::All);
            options.choices.tests = vec![test.to_owned()];
            let gpu = chosen(&options.scope, &machine, &listed).expect("a GPU").remove(0);
            let tasks = options.tasks(&machine, gpu.target()).expect("tasks");
            assert_eq!(tasks.len(), nodes, "{test}");
        }
    }

    #[test]
    fn does_not_bind_with_one_or_unknown_node() {
        let mut one = machine();
        one.nodes.truncate(1);
        assert_eq!(nodes_of(Nodes::All, &one), Ok(vec![(None, false)]));
        assert_eq!(nodes_of(Nodes::Near, &one), Ok(vec![(None, false)]));
        let mut unknown = machine();
        unknown.gpus.clear();
        let listed = listed();
        let options = options(&["all"], Nodes::Near);
        let gpu = chosen(&options.scope, &unknown, &listed).expect("GPUs").remove(0);
        let tasks = options.tasks(&unknown, gpu.target()).expect("a task");
        assert_eq!((tasks.len(), &tasks[0].node), (1, &None));
    }

    #[test]
    fn expects_63_gigabytes_a_second_of_gen5_x16() {
        let machine = machine();
        let mut all = options(&["all"], Nodes::Near);
        all.scope.terms.shares.pci_express = Some(0.5);
        let report = expected(&all, &machine).expect("a report");
        let write = report.results.first().expect("a result");
        assert_eq!(write.expected.map(|rate| rate.round()), Some(63.0));
        assert_eq!(
            (write.verdict, write.median, write.samples),
            (ProbeVerdict::NotMeasured, None, 0)
        );
        assert!(expected(&options(&["7"], Nodes::Near), &machine).is_err());
    }
}
