//! The parent's side of every probe: which GPUs, from which NUMA nodes, a child for each task, and what becomes of a child
//! that fails.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::Duration;

use super::CHILD;
use super::depth::Terms;
use super::events::{Event, Listed, Step};
use super::p2p::Between;
use super::rdma::control::Message;
use super::rdma::rendezvous::SECRET_VARIABLE;
use super::request::{Request, Target};
use super::verdict::Subject;
use super::watch::{Ended, Interrupts, Output, Wire, watch};
use crate::input::pass_environment;
use crate::model::{Bdf, Host, NumaNode, PROBE_SCHEMA, ProbeReport, ProbeResult, ProbedEnd};

/// What every probe is asked.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Simulated GPUs, and no others.
    pub sim: bool,
    /// The GPUs by number, address or UUID; `all` is all.
    pub gpus: Vec<String>,
    /// How much, and how long.
    pub terms: Terms,
}

/// From the CPUs of which NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    All,
    Near,
    One(u32),
}

/// What is known of the machine before anything is touched.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The header of the report.
    pub host: Host,
    /// Its GPUs, as `gdr topo` numbers them.
    pub gpus: Vec<Place>,
    pub nodes: Vec<NumaNode>,
    /// The ways from one GPU to another, as the topology and NVML have them.
    pub ways: BTreeMap<(Bdf, Bdf), Between>,
    pub nics: Vec<ProbedNic>,
}

impl Machine {
    /// Its GPUs as CUDA would list them, where CUDA is not asked.
    pub fn listed(&self) -> Vec<Listed> {
        let places = self.gpus.iter().zip(0..);
        places
            .map(|(place, ordinal)| Listed {
                ordinal,
                name: place.label.clone(),
                uuid: String::new(),
                bdf: Some(place.bdf),
                simulated: false,
            })
            .collect()
    }

    /// What is known of the way from one GPU to another.
    pub fn way(&self, a: Option<Bdf>, b: Option<Bdf>) -> Option<&Between> {
        self.ways.get(&(a?, b?))
    }
}

/// Where a GPU is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As in `GPU0`.
    pub name: String,
    /// What it is, where the machine says so.
    pub label: String,
    pub bdf: Bdf,
    /// The NUMA node it is on.
    pub numa: Option<u32>,
    /// What its link carries at its best, bytes a second.
    pub link: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedNic {
    /// As in `mlx5_0`.
    pub name: String,
    /// Its address; none of software over no function.
    pub bdf: Option<Bdf>,
    /// It is software over a netdev.
    pub software: bool,
    /// Its ports that are up: number, and bytes a second in one direction where that is known.
    pub ports: Vec<(u8, Option<u64>)>,
    /// The GPUs that it is the best one of.
    pub best_of: Vec<Bdf>,
    /// How it meets each GPU: in nvidia-smi's letters, and what the narrowest link between them carries.
    pub reaches: Vec<(Bdf, Option<String>, Option<u64>)>,
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
        there: String,
    },
    /// No NUMA node has that number, or it has no CPU.
    #[error("there is no NUMA node {wanted} with CPUs here; there are: {there}")]
    NoSuchNode {
        /// What was asked for.
        wanted: u32,
        there: String,
    },
}

/// Who watches a probe.
pub trait Watcher {
    /// A step begins, of what is about this.
    fn step(&mut self, subject: &str, step: &Step);

    /// Something that must be known now, and not with the report.
    fn word(&mut self, word: &str);
}

/// A probe of the GPUs that were asked for, whatever comes of it: `work` runs the children, and an interruption, a hang and a
/// list without a GPU end it early, which the report says. `sim` is how many simulated GPUs there are to list.
pub fn probe(
    name: &str,
    (scope, sim): (&Scope, u32),
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
    work: impl FnOnce(&mut Children<'_>, Vec<Chosen<'_>>) -> Result<(), ProbeError>,
) -> Result<ProbeReport, ProbeError> {
    let mut report = blank(name, scope, machine);
    let mut children = Children {
        report: &mut report,
        interrupts,
        timeout: scope.terms.timeout,
        progress,
    };
    if let Some(listed) = children.list(if scope.sim { sim } else { 0 })? {
        work(&mut children, chosen(scope, machine, &listed)?)?;
    }
    Ok(report)
}

/// A report with nothing in it yet.
pub fn blank(probe: &str, scope: &Scope, machine: &Machine) -> ProbeReport {
    ProbeReport {
        schema: PROBE_SCHEMA.to_owned(),
        probe: probe.to_owned(),
        host: machine.host.clone(),
        simulated: scope.sim,
        complete: true,
        gpus: Vec::new(),
        pairs: Vec::new(),
        ends: Vec::new(),
        results: Vec::new(),
        notes: Vec::new(),
    }
}

/// Runs the children of a probe one after another, and gathers what they tell.
pub struct Children<'a> {
    pub report: &'a mut ProbeReport,
    /// What ends it early.
    pub interrupts: &'a Interrupts,
    /// How long a step may take beyond its own time.
    pub timeout: Duration,
    /// Told of each step.
    pub progress: &'a mut dyn Watcher,
}

/// What became of a child.
#[derive(Debug, Default)]
pub struct Ran {
    /// The GPUs it listed.
    pub listed: Vec<Listed>,
    /// The RDMA devices it listed.
    pub nics: Vec<String>,
    /// How many units of its task it began.
    pub units: usize,
    /// It did all of its task.
    pub whole: bool,
    /// Nobody asked to stop.
    pub go_on: bool,
    /// Why it did not come to its end.
    pub failure: Option<String>,
}

impl Children<'_> {
    /// The GPUs that CUDA shows; none where there is no use in going on, which the report says.
    pub fn list(&mut self, sim: u32) -> Result<Option<Vec<Listed>>, ProbeError> {
        self.list_if(sim, true)
    }

    /// The same; where none is required, there may be none.
    pub fn list_if(&mut self, sim: u32, required: bool) -> Result<Option<Vec<Listed>>, ProbeError> {
        let list = Request::List {
            sim,
            timeout: self.timeout,
            required,
        };
        let ran = self.run("GPUs", &list, &[])?;
        Ok(self.may_go_on(&ran).then_some(ran.listed))
    }

    /// The RDMA devices that libibverbs serves; none where there is no use in going on.
    pub fn nics(&mut self) -> Result<Option<Vec<String>>, ProbeError> {
        let nics = Request::Nics {
            timeout: self.timeout,
        };
        let ran = self.run("RDMA devices", &nics, &[])?;
        Ok(self.may_go_on(&ran).then_some(ran.nics))
    }

    /// Where a list did not come to its end, what is not in it may be there all the same.
    fn may_go_on(&self, ran: &Ran) -> bool {
        ran.go_on
            && self.report.complete
            && !self.report.results.iter().any(|result| result.required)
    }

    /// Runs one child to its end.
    pub fn run(
        &mut self,
        subject: &str,
        request: &Request,
        environment: &[(&str, &str)],
    ) -> Result<Ran, ProbeError> {
        self.run_with(subject, request, environment, None, &mut |_| {})
    }

    /// The same with a child that talks with another process: what it says to that is handed on.
    pub fn run_with(
        &mut self,
        subject: &str,
        request: &Request,
        environment: &[(&str, &str)],
        wire: Option<Wire>,
        said: &mut dyn FnMut(Message),
    ) -> Result<Ran, ProbeError> {
        // The file this process runs from, even where it has been replaced or its path is out of reach.
        let mut command = Command::new("/proc/self/exe");
        pass_environment(&mut command);
        command.arg(CHILD).arg(serde_json::to_string(request)?);
        if std::env::var_os("CUDA_DEVICE_ORDER").is_none() {
            command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        }
        command.envs(environment.iter().copied());
        // The libraries that the child loads do not need it.
        command.env_remove(SECRET_VARIABLE);
        let mut ran = Ran::default();
        let (mut lost, mut unit) = (false, None);
        let ended = watch(
            &mut command,
            self.interrupts,
            wire,
            self.timeout,
            &mut |output| {
                let event = match output {
                    Output::Event(event) => event,
                    Output::Message(line) => {
                        return self.progress.word(&format!("{subject}: {line}"));
                    }
                };
                match event {
                    Event::Doing(step) => self.progress.step(subject, &step),
                    Event::Listed(gpus) => ran.listed.extend(gpus),
                    Event::Unit(next) => {
                        ran.units += 1;
                        unit = Some(next);
                    }
                    Event::Lost => lost = true,
                    Event::Nics(names) => ran.nics = names,
                    Event::Connected(end) => {
                        let known = |known: &ProbedEnd| {
                            (&known.subject, known.remote) == (&end.subject, end.remote)
                        };
                        if !self.report.ends.iter().any(known) {
                            self.report.ends.push(*end);
                        }
                    }
                    Event::Say(message) => said(message),
                    Event::Lacking(what) => {
                        self.report.complete = false;
                        self.report.notes.push(what);
                    }
                    Event::Gpu(gpu) => {
                        if self
                            .report
                            .gpus
                            .iter()
                            .all(|known| known.subject != gpu.subject)
                        {
                            self.report.gpus.push(*gpu);
                        }
                    }
                    Event::Pair(pair) => self.report.pairs.push(*pair),
                    Event::Result(result) => self.report.results.push(*result),
                    Event::Note(note) => self.note(format!("{subject}: {note}")),
                    Event::End => {}
                }
            },
        )?;
        ran.whole = ended == Ended::WorkCompletion && !lost;
        ran.failure = match &ended {
            Ended::WorkCompletion => None,
            Ended::Interrupted => Some("it was interrupted".to_owned()),
            Ended::Stopped => Some("it was stopped".to_owned()),
            Ended::Hung(step) => Some(format!("it hangs while waiting for {}", step.what)),
            Ended::Crashed(step, status) => Some(format!(
                "it ended ({status}) while waiting for {}",
                step.what
            )),
            Ended::Garbled(error) => Some(format!("a library wrote into its output: {error}")),
        };
        ran.go_on = self.go_on(unit.as_deref().unwrap_or(subject), ended);
        Ok(ran)
    }

    fn go_on(&mut self, subject: &str, ended: Ended) -> bool {
        let simulated = self.report.simulated;
        let failed = |reason: String| -> ProbeResult {
            let about = Subject {
                subject: subject.to_owned(),
                backend: if simulated {
                    "sim".to_owned()
                } else {
                    String::new()
                },
                numa: None,
            };
            about.impossible("run", None, true, reason)
        };
        self.report.complete &= ended == Ended::WorkCompletion;
        match ended {
            // Who stopped it says why.
            Ended::WorkCompletion | Ended::Stopped => true,
            Ended::Interrupted => {
                self.note("Interrupted: this is what was done until then.".to_owned());
                false
            }
            Ended::Hung(step) => {
                self.note(format!(
                    "{subject}: gave up after waiting {:.0} s for {}. The driver or the GPU hangs: look for Xid lines in \
                     dmesg, or give it longer with --library-timeout.",
                    step.timeout.as_secs_f64(),
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
                let reason = format!(
                    "a library wrote into the output of the process that probed it: {error}"
                );
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

/// A GPU to probe, with what is known of its place.
pub struct Chosen<'a> {
    /// What CUDA says of it.
    pub listed: &'a Listed,
    /// Its place, where it is among the machine's.
    pub place: Option<&'a Place>,
}

impl Chosen<'_> {
    /// As in `GPU0 (0000:3b:00.0)`: the number is that of `gdr topo`, where the GPU is among its rows.
    pub fn subject(&self) -> String {
        let number = || format!("GPU{}", self.listed.ordinal);
        let name = self.place.map_or_else(number, |place| place.name.clone());
        match self.listed.bdf {
            Some(bdf) => format!("{name} ({bdf})"),
            None => format!("{name} (simulated)"),
        }
    }

    /// What a child is told of it.
    pub fn target(&self) -> Target {
        Target {
            subject: self.subject(),
            ordinal: (!self.listed.simulated).then_some(self.listed.ordinal),
            bdf: self.listed.bdf,
            home: self.place.and_then(|place| place.numa),
            link: self.place.and_then(|place| place.link),
        }
    }

    fn goes_by(&self, wanted: &str) -> bool {
        let name = self.place.map_or_else(
            || format!("GPU{}", self.listed.ordinal),
            |place| place.name.clone(),
        );
        let address = wanted
            .parse::<Bdf>()
            .is_ok_and(|bdf| self.listed.bdf == Some(bdf));
        address
            || name.eq_ignore_ascii_case(wanted)
            || name.strip_prefix("GPU") == Some(wanted)
            || self.listed.uuid.eq_ignore_ascii_case(wanted)
    }
}

/// The GPUs that were asked for, each once.
pub fn chosen<'a>(
    scope: &Scope,
    machine: &'a Machine,
    listed: &'a [Listed],
) -> Result<Vec<Chosen<'a>>, ProbeError> {
    let place = |listed: &Listed| {
        machine
            .gpus
            .iter()
            .find(|place| Some(place.bdf) == listed.bdf)
    };
    let all = || {
        listed.iter().map(|listed| Chosen {
            listed,
            place: place(listed),
        })
    };
    if scope.sim || scope.gpus.iter().any(|gpu| gpu == "all") {
        return Ok(all().collect());
    }
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for wanted in &scope.gpus {
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

/// The NUMA nodes to probe a GPU from, its own first; none where there is nothing to choose.
pub fn nodes(
    wanted: Nodes,
    machine: &Machine,
    home: Option<u32>,
) -> Result<Vec<&NumaNode>, ProbeError> {
    let mut nodes: Vec<&NumaNode> = machine
        .nodes
        .iter()
        .filter(|node| !node.cpus.is_empty())
        .collect();
    nodes.sort_by_key(|node| (Some(node.id) != home, node.id));
    match wanted {
        Nodes::One(number) => {
            let there: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            nodes.retain(|node| node.id == number);
            if nodes.is_empty() {
                let there = if there.is_empty() {
                    "none that are known".to_owned()
                } else {
                    there.join(", ")
                };
                return Err(ProbeError::NoSuchNode {
                    wanted: number,
                    there,
                });
            }
        }
        // Where there is one, or the GPU's is not known, there is nothing to bind to.
        Nodes::Near if nodes.len() < 2 || nodes.first().map(|node| node.id) != home => {
            nodes.clear()
        }
        Nodes::Near => nodes.truncate(1),
        Nodes::All if nodes.len() < 2 => nodes.clear(),
        Nodes::All => {}
    }
    Ok(nodes)
}
