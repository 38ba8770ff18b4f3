//! The parent's side: a child for each GPU and NUMA node, and what is worked out of all results.

use super::Task;
use super::crossover::crossover;
use crate::model::{NumaNode, ProbeReport};

use crate::probe::request::Request;
use crate::probe::supervise::{Chosen, Machine, Nodes, ProbeError, Scope, Watcher, nodes, probe};
use crate::probe::verdict::Subject;
use crate::probe::watch::Interrupts;

#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
    /// The backend to use, by its name, and no other.
    pub backend: Option<String>,
    /// The copy kernel to use, by its name, and no other.
    pub kernel: Option<String>,
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
    let report = probe(
        "copy",
        scope,
        machine,
        interrupts,
        progress,
        |children, gpus| {
            let kernel = options
                .kernel
                .iter()
                .map(|kernel| ("GDR_COPY_KERNEL", kernel.as_str()));
            let kernel: Vec<(&str, &str)> = kernel.collect();
            for gpu in gpus {
                for task in tasks(options, machine, &gpu)? {
                    let subject = task.target.subject.clone();
                    if !children
                        .run(&subject, &Request::Copy(Box::new(task)), &kernel)?
                        .go_on
                    {
                        return Ok(());
                    }
                }
            }
            Ok(())
        },
    )?;
    // From which size on cuMemcpy wins is not known of sweeps that did not come to their end.
    Ok(if report.complete {
        finished(report)
    } else {
        report
    })
}

/// What is worked out of the results once all are there.
fn finished(mut report: ProbeReport) -> ProbeReport {
    let mut found = Vec::new();
    let mut sweeps: Vec<(&str, &str, Option<u32>)> = Vec::new();
    for result in report
        .results
        .iter()
        .filter(|result| result.name == "copy.write.latency")
    {
        let sweep = (
            result.subject.as_str(),
            result.backend.as_str(),
            result.numa,
        );
        if !sweeps.contains(&sweep) {
            sweeps.push(sweep);
        }
    }
    for (subject, backend, numa) in sweeps {
        let about = Subject {
            subject: subject.to_owned(),
            backend: backend.to_owned(),
            numa,
        };
        found.extend(
            ["write", "read"].map(|direction| crossover(&report.results, &about, direction)),
        );
    }
    report.results.extend(found.into_iter().flatten());
    report
}

/// A task for each NUMA node, the GPU's own first: it does everything, the others copy alone.
fn tasks(options: &Options, machine: &Machine, gpu: &Chosen<'_>) -> Result<Vec<Task>, ProbeError> {
    let home = gpu.place.and_then(|place| place.numa);
    let scope = &options.scope;
    let task = |node: Option<&NumaNode>, sweep_only| Task {
        target: gpu.target(),
        node: node.map(|node| (node.id, node.cpus.clone())),
        sweep_only,
        backend: options.backend.clone(),
        terms: scope.terms.clone(),
    };
    Ok(match nodes(options.nodes, machine, home)?.as_slice() {
        [] => vec![task(None, false)],
        nodes => nodes
            .iter()
            .enumerate()
            .map(|(at, node)| task(Some(node), at > 0))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::model::{Host, IdList, Shares};
    use crate::probe::depth::{Depth, Terms};
    use crate::probe::events::Listed;
    use crate::probe::supervise::{Place, chosen};

    fn machine() -> Machine {
        let place = |name: &str, bdf: &str, numa| Place {
            name: name.to_owned(),
            label: String::new(),
            bdf: bdf.parse().expect("an address"),
            numa,
            link: Some(63_015_384_615),
        };
        let node = |id, cpus| NumaNode {
            id,
            cpus: IdList::new(cpus),
        };
        Machine {
            host: Host::default(),
            gpus: vec![
                place("GPU0", "0000:3b:00.0", Some(0)),
                place("GPU1", "0000:86:00.0", Some(1)),
            ],
            nodes: vec![node(0, 0..4), node(1, 4..8), node(2, 0..0)],
            nics: Vec::new(),
            ways: Default::default(),
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
        // CUDA_VISIBLE_DEVICES has turned the order round.
        vec![gpu(0, "0000:86:00.0"), gpu(1, "0000:3b:00.0")]
    }

    fn options(gpus: &[&str], nodes: Nodes) -> Options {
        Options {
            scope: Scope {
                sim: false,
                gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
                terms: Terms {
                    depth: Depth::Quick,
                    sizes: Vec::new(),
                    shares: Shares::default(),
                    timeout: Duration::from_secs(10),
                },
            },
            backend: None,
            kernel: None,
            nodes,
        }
    }

    fn subjects(gpus: &[&str]) -> Result<Vec<String>, String> {
        let (machine, listed) = (machine(), listed());
        let found = chosen(&options(gpus, Nodes::Near).scope, &machine, &listed);
        let subjects = found.map(|found| found.iter().map(Chosen::subject).collect());
        subjects.map_err(|error| error.to_string())
    }

    #[test]
    fn a_gpu_goes_by_the_name_that_topo_gives_it() {
        let both = ["GPU1 (0000:86:00.0)", "GPU0 (0000:3b:00.0)"];
        assert_eq!(subjects(&["all"]).expect("all"), both);
        for wanted in [
            "0",
            "GPU0",
            "gpu0",
            "0000:3b:00.0",
            "3b:00.0",
            "GPU-00000001",
        ] {
            assert_eq!(subjects(&[wanted]).expect(wanted), both[1..], "{wanted}");
        }
        assert_eq!(
            subjects(&["1", "86:00.0", "GPU1"]).expect("once"),
            both[..1]
        );
        let error = subjects(&["2"]).expect_err("there are two");
        assert_eq!(
            error,
            "there is no GPU '2' here; there are: GPU1 (0000:86:00.0), GPU0 (0000:3b:00.0)"
        );
    }

    fn nodes_of(wanted: Nodes, machine: &Machine) -> Result<Vec<(Option<u32>, bool)>, String> {
        let listed = listed();
        let options = options(&["1"], wanted);
        let gpu = chosen(&options.scope, machine, &listed)
            .expect("a GPU")
            .remove(0);
        let tasks = tasks(&options, machine, &gpu).map_err(|error| error.to_string())?;
        Ok(tasks
            .iter()
            .map(|task| (task.node.as_ref().map(|node| node.0), task.sweep_only))
            .collect())
    }

    #[test]
    fn the_gpus_own_node_comes_first_and_does_everything() {
        let machine = machine();
        let nodes = |wanted| nodes_of(wanted, &machine);
        assert_eq!(
            nodes(Nodes::All),
            Ok(vec![(Some(1), false), (Some(0), true)])
        );
        assert_eq!(nodes(Nodes::Near), Ok(vec![(Some(1), false)]));
        assert_eq!(nodes(Nodes::One(0)), Ok(vec![(Some(0), false)]));
        let error = nodes(Nodes::One(2)).expect_err("it has no CPU");
        assert_eq!(
            error,
            "there is no NUMA node 2 with CPUs here; there are: 1, 0"
        );
    }

    #[test]
    fn one_node_needs_no_binding() {
        let mut one = machine();
        one.nodes.truncate(1);
        assert_eq!(nodes_of(Nodes::All, &one), Ok(vec![(None, false)]));
        assert_eq!(nodes_of(Nodes::Near, &one), Ok(vec![(None, false)]));
        let mut homeless = machine();
        homeless.gpus.clear();
        let listed = listed();
        let options = options(&["all"], Nodes::Near);
        let gpu = chosen(&options.scope, &homeless, &listed)
            .expect("GPUs")
            .remove(0);
        let tasks = tasks(&options, &homeless, &gpu).expect("a task");
        assert_eq!((tasks.len(), &tasks[0].node), (1, &None));
    }
}
