//! The parent's side: which GPUs from which NUMA nodes, a child for each, and what becomes of a child that fails.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::crossover::crossover;
use super::{Depth, Request, request::Task};
use crate::model::{Bdf, Host, NumaNode, PROBE_SCHEMA, ProbeReport, ProbeResult};
use crate::probe::CHILD;
use crate::probe::events::{Event, Listed, Step};
use crate::probe::verdict::Subject;
use crate::probe::watch::{Ended, Interrupts, watch};

/// What to probe.
#[derive(Debug, Clone)]
pub struct Options {
    /// The simulated GPU, and no other.
    pub sim: bool,
    /// The GPUs by number, address or UUID; `all` is all.
    pub gpus: Vec<String>,
    /// How much to do.
    pub depth: Depth,
    /// The backend to use, by its name, and no other.
    pub backend: Option<String>,
    /// The copy kernel to use, by its name, and no other.
    pub kernel: Option<String>,
    /// The CPUs to copy from.
    pub nodes: Nodes,
    /// The sizes to measure; empty for the depth's own.
    pub sizes: Vec<usize>,
    /// How long a step may take beyond its own time.
    pub patience: Duration,
}

/// From the CPUs of which NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// Each.
    All,
    /// The GPU's.
    Near,
    /// This one.
    One(u32),
}

/// What is known of the machine before anything is touched.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The header of the report.
    pub host: Host,
    /// Its GPUs, as `gdr topo` numbers them.
    pub gpus: Vec<Place>,
    /// Its NUMA nodes.
    pub nodes: Vec<NumaNode>,
}

/// Where a GPU is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As in `GPU0`.
    pub name: String,
    /// What it is, where the machine says so.
    pub label: String,
    /// Its address.
    pub bdf: Bdf,
    /// The NUMA node it is on.
    pub numa: Option<u32>,
    /// What its link carries at its best, bytes a second.
    pub link: Option<u64>,
}

/// Why nothing could be probed: the words of a usage error.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The child could not be started or heard.
    #[error("the child that probes cannot be run")]
    Child(#[from] io::Error),
    /// The request could not be written.
    #[error("the child's task cannot be written")]
    Request(#[from] serde_json::Error),
    /// No GPU goes by that name.
    #[error("there is no GPU '{wanted}' here; there are: {there}")]
    NoSuchGpu {
        /// What was asked for.
        wanted: String,
        /// What there is.
        there: String,
    },
    /// No NUMA node has that number, or it has no CPU.
    #[error("there is no NUMA node {wanted} with CPUs here; there are: {there}")]
    NoSuchNode {
        /// What was asked for.
        wanted: u32,
        /// What there is.
        there: String,
    },
}

/// Probes, and reports whatever came of it: an interruption and a hang end it early, with a note.
pub fn run(
    options: &Options,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn FnMut(&str, &Step),
) -> Result<ProbeReport, ProbeError> {
    let mut report = ProbeReport {
        schema: PROBE_SCHEMA.to_owned(),
        probe: "copy".to_owned(),
        host: machine.host.clone(),
        simulated: options.sim,
        complete: true,
        gpus: Vec::new(),
        results: Vec::new(),
        notes: Vec::new(),
    };
    let mut children = Children {
        report: &mut report,
        interrupts,
        patience: options.patience,
        progress,
    };
    let list = Request::List {
        sim: options.sim,
        patience: options.patience,
    };
    let (listed, go_on) = children.run("GPUs", &list)?;
    // Where the list did not come to its end, a GPU that is not in it may be there all the same.
    if !go_on || !report.complete || report.results.iter().any(|result| result.required) {
        return Ok(report);
    }
    for gpu in chosen(options, machine, &listed)? {
        for task in tasks(options, machine, gpu)? {
            let mut children = Children {
                report: &mut report,
                interrupts,
                patience: options.patience,
                progress,
            };
            let subject = task.subject.clone();
            if !children.run(&subject, &Request::Copy(Box::new(task)))?.1 {
                return Ok(report);
            }
        }
    }
    // From which size on cuMemcpy wins is not known of sweeps that did not come to their end.
    Ok(if report.complete { finished(report) } else { report })
}

struct Children<'a> {
    report: &'a mut ProbeReport,
    interrupts: &'a Interrupts,
    patience: Duration,
    progress: &'a mut dyn FnMut(&str, &Step),
}

impl Children<'_> {
    /// Runs one child to its end: the GPUs it listed, and whether to go on with the next child.
    fn run(&mut self, subject: &str, request: &Request) -> Result<(Vec<Listed>, bool), ProbeError> {
        // The file this process runs from, even where it has been replaced or its path is out of reach.
        let mut command = Command::new("/proc/self/exe");
        command.arg(CHILD).arg(serde_json::to_string(request)?);
        if std::env::var_os("CUDA_DEVICE_ORDER").is_none() {
            command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        }
        if let Request::Copy(task) = request
            && let Some(kernel) = &task.kernel
        {
            command.env("GDR_COPY_KERNEL", kernel);
        }
        let mut listed = Vec::new();
        let ended = watch(&mut command, self.interrupts, self.patience, &mut |event| match event {
            Event::Doing(step) => (self.progress)(subject, &step),
            Event::Listed(gpus) => listed.extend(gpus),
            Event::Gpu(gpu) => {
                if self.report.gpus.iter().all(|known| known.subject != gpu.subject) {
                    self.report.gpus.push(*gpu);
                }
            }
            Event::Result(result) => self.report.results.push(*result),
            Event::Note(note) => self.note(format!("{subject}: {note}")),
            Event::End => {}
        })?;
        Ok((listed, self.go_on(subject, ended)))
    }

    fn go_on(&mut self, subject: &str, ended: Ended) -> bool {
        let simulated = self.report.simulated;
        let failed = |reason: String| -> ProbeResult {
            let about = Subject {
                subject: subject.to_owned(),
                backend: if simulated { "sim".to_owned() } else { String::new() },
                numa: None,
            };
            about.impossible("run", None, true, reason)
        };
        self.report.complete &= ended == Ended::Done;
        match ended {
            Ended::Done => true,
            Ended::Interrupted => {
                self.note("Interrupted: this is what was done until then.".to_owned());
                false
            }
            Ended::Hung(step) => {
                self.note(format!(
                    "{subject}: gave up after waiting {:.0} s for {}. The driver or the GPU hangs: look for Xid lines in \
                     dmesg, or give it longer with --library-timeout.",
                    step.patience.as_secs_f64(),
                    step.what
                ));
                true
            }
            Ended::Crashed(step, status) => {
                let reason = format!(
                    "the process that probed it ended ({status}) while waiting for {}",
                    step.what
                );
                self.report.results.push(failed(reason));
                true
            }
            Ended::Garbled(error) => {
                let reason = format!("a library wrote into the output of the process that probed it: {error}");
                self.report.results.push(failed(reason));
                true
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }
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
        let sweep = (result.subject.as_str(), result.backend.as_str(), result.numa);
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
        found.extend(["write", "read"].map(|direction| crossover(&report.results, &about, direction)));
    }
    report.results.extend(found.into_iter().flatten());
    report
}

/// A GPU to probe, with what is known of its place.
pub(super) struct Chosen<'a> {
    pub(super) listed: &'a Listed,
    pub(super) place: Option<&'a Place>,
}

impl Chosen<'_> {
    /// As in `GPU0 (0000:3b:00.0)`: the number is that of `gdr topo`, where the GPU is among its rows.
    pub(super) fn subject(&self) -> String {
        let number = || format!("GPU{}", self.listed.ordinal);
        let name = self.place.map_or_else(number, |place| place.name.clone());
        match self.listed.bdf {
            Some(bdf) => format!("{name} ({bdf})"),
            None => format!("{name} (simulated)"),
        }
    }

    fn goes_by(&self, wanted: &str) -> bool {
        let name = self
            .place
            .map_or_else(|| format!("GPU{}", self.listed.ordinal), |place| place.name.clone());
        let address = wanted.parse::<Bdf>().is_ok_and(|bdf| self.listed.bdf == Some(bdf));
        address
            || name.eq_ignore_ascii_case(wanted)
            || name.strip_prefix("GPU") == Some(wanted)
            || self.listed.uuid.eq_ignore_ascii_case(wanted)
    }
}

pub(super) fn chosen<'a>(
    options: &Options,
    machine: &'a Machine,
    listed: &'a [Listed],
) -> Result<Vec<Chosen<'a>>, ProbeError> {
    let place = |listed: &Listed| machine.gpus.iter().find(|place| Some(place.bdf) == listed.bdf);
    let all = || {
        listed.iter().map(|listed| Chosen {
            listed,
            place: place(listed),
        })
    };
    if options.sim || options.gpus.iter().any(|gpu| gpu == "all") {
        return Ok(all().collect());
    }
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for wanted in &options.gpus {
        let Some(found) = all().find(|gpu| gpu.goes_by(wanted)) else {
            let there: Vec<String> = all().map(|gpu| gpu.subject()).collect();
            return Err(ProbeError::NoSuchGpu {
                wanted: wanted.clone(),
                there: there.join(", "),
            });
        };
        if chosen.iter().all(|gpu| gpu.listed != found.listed) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// A task for each NUMA node, the GPU's own first: it does everything, the others copy alone.
fn tasks(options: &Options, machine: &Machine, gpu: Chosen<'_>) -> Result<Vec<Task>, ProbeError> {
    let home = gpu.place.and_then(|place| place.numa);
    let mut nodes: Vec<&NumaNode> = machine.nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    nodes.sort_by_key(|node| (Some(node.id) != home, node.id));
    match options.nodes {
        Nodes::One(wanted) => {
            let there: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            nodes.retain(|node| node.id == wanted);
            if nodes.is_empty() {
                let there = if there.is_empty() {
                    "none that are known".to_owned()
                } else {
                    there.join(", ")
                };
                return Err(ProbeError::NoSuchNode { wanted, there });
            }
        }
        // Where there is one, or the GPU's is not known, there is nothing to bind to.
        Nodes::Near if nodes.len() < 2 || nodes.first().map(|node| node.id) != home => nodes.clear(),
        Nodes::Near => nodes.truncate(1),
        Nodes::All if nodes.len() < 2 => nodes.clear(),
        Nodes::All => {}
    }
    let task = |node: Option<&NumaNode>, sweep_only| Task {
        subject: gpu.subject(),
        ordinal: (!options.sim).then_some(gpu.listed.ordinal),
        bdf: gpu.listed.bdf,
        home,
        link: gpu.place.and_then(|place| place.link),
        node: node.map(|node| (node.id, node.cpus.clone())),
        sweep_only,
        depth: options.depth,
        backend: options.backend.clone(),
        kernel: options.kernel.clone(),
        sizes: options.sizes.clone(),
        patience: options.patience,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::IdList;

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
        }
    }

    fn listed() -> Vec<Listed> {
        let gpu = |ordinal, bdf: &str| Listed {
            ordinal,
            name: "NVIDIA H200".to_owned(),
            uuid: format!("GPU-0000000{ordinal}"),
            bdf: bdf.parse().ok(),
        };
        // CUDA_VISIBLE_DEVICES has turned the order round.
        vec![gpu(0, "0000:86:00.0"), gpu(1, "0000:3b:00.0")]
    }

    fn options(gpus: &[&str], nodes: Nodes) -> Options {
        Options {
            sim: false,
            gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
            depth: Depth::Quick,
            backend: None,
            kernel: None,
            nodes,
            sizes: Vec::new(),
            patience: Duration::from_secs(10),
        }
    }

    fn subjects(gpus: &[&str]) -> Result<Vec<String>, String> {
        let (machine, listed) = (machine(), listed());
        let found = chosen(&options(gpus, Nodes::Near), &machine, &listed);
        let subjects = found.map(|found| found.iter().map(Chosen::subject).collect());
        subjects.map_err(|error| error.to_string())
    }

    #[test]
    fn a_gpu_goes_by_the_name_that_topo_gives_it() {
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
        let gpu = chosen(&options, machine, &listed).expect("a GPU").remove(0);
        let tasks = tasks(&options, machine, gpu).map_err(|error| error.to_string())?;
        Ok(tasks
            .iter()
            .map(|task| (task.node.as_ref().map(|node| node.0), task.sweep_only))
            .collect())
    }

    #[test]
    fn the_gpus_own_node_comes_first_and_does_everything() {
        let machine = machine();
        let nodes = |wanted| nodes_of(wanted, &machine);
        assert_eq!(nodes(Nodes::All), Ok(vec![(Some(1), false), (Some(0), true)]));
        assert_eq!(nodes(Nodes::Near), Ok(vec![(Some(1), false)]));
        assert_eq!(nodes(Nodes::One(0)), Ok(vec![(Some(0), false)]));
        let error = nodes(Nodes::One(2)).expect_err("it has no CPU");
        assert_eq!(error, "there is no NUMA node 2 with CPUs here; there are: 1, 0");
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
        let gpu = chosen(&options, &homeless, &listed).expect("GPUs").remove(0);
        let tasks = tasks(&options, &homeless, gpu).expect("a task");
        assert_eq!((tasks.len(), &tasks[0].node), (1, &None));
    }
}
