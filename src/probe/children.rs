//! The parent's side of a task: runs it in a child, and reports a child that fails.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use super::devices::{ListGpus, ListRdmaDevices};
use super::events::{Event, Listed, Step};
use super::interrupts::Interrupts;
use super::machine::Machine;
use super::scope::{Chosen, ProbeError, Scope, chosen};
use super::target::Target;
use super::task::{CHILD, Task};
use super::verdict::Subject;
use super::watch::{ChildEnd, KillOnDrop, Output, Wire, watch};
use crate::input::pass_environment;
use crate::keeper;
use crate::model::{ProbeReport, ProbedEnd};

/// The shared secret of two machines. Removed from the environment of children, whose libraries do not need it.
pub const SECRET_VARIABLE: &str = "GDR_PROBE_SECRET";

/// Shows the progress of a probe.
pub trait Watcher {
    /// A step of this subject begins.
    fn step(&mut self, subject: &str, step: &Step);

    /// Prints a message at once, not with the report.
    fn message(&mut self, message: &str);
}

/// Runs the children of a probe one after another, and adds their events to the report.
pub struct Children<'a> {
    pub report: &'a mut ProbeReport,
    pub interrupts: &'a Interrupts,
    /// Added to the expected time of each step before it counts as hung.
    pub timeout: Duration,
    pub progress: &'a mut dyn Watcher,
    /// The child that listed the GPUs.
    pub lister: Option<KillOnDrop>,
}

/// How a child starts, and what becomes of its messages and of its end.
#[derive(Default)]
pub struct Start<'a> {
    /// Variables that are set for the child.
    pub set: &'a [(&'a str, &'a str)],
    /// Removes variables from the child's environment, by name.
    pub removed: Option<fn(&str) -> bool>,
    /// A connection to another process.
    pub wire: Option<Wire>,
    /// Its standard error is kept in the result instead of shown.
    pub keeps_messages: bool,
    /// Its end is judged by the caller: a crash is a result.
    pub is_trial: bool,
    /// It is not killed after its answer: see `Task::stays`.
    pub stays: bool,
}

/// Most lines of standard error that are kept.
const MAX_MESSAGES: usize = 20_000;

/// What a child did.
#[derive(Debug, Default)]
pub struct ChildResult {
    pub listed: Vec<Listed>,
    pub nics: Vec<String>,
    /// Number of units that it began.
    pub units: usize,
    /// True if it finished its task.
    pub whole: bool,
    /// False after an interrupt.
    pub go_on: bool,
    /// Why it did not finish.
    pub failure: Option<String>,
    /// How it ended.
    pub ended: Option<ChildEnd>,
    /// The lines of its standard error, if they are kept.
    pub messages: Vec<String>,
}

impl Children<'_> {
    /// The selected GPUs, with `sim` simulated ones in a simulation. Empty if the probe cannot continue; the report says why.
    pub fn gpus<'m>(
        &mut self,
        scope: &Scope,
        sim: u32,
        machine: &'m Machine,
    ) -> Result<Vec<Chosen<'m>>, ProbeError> {
        match self.list(if scope.sim { sim } else { 0 }, true)? {
            Some(listed) => chosen(scope, machine, &listed),
            None => Ok(Vec::new()),
        }
    }

    /// The GPUs that CUDA lists; `None` if the probe cannot continue. Without `required` an empty list is fine.
    ///
    /// The child that lists them stays until the probe's end: as long as a process holds CUDA, cuInit takes 20 ms in the next one, and
    /// otherwise a quarter of a second (H200, driver 580). It has no context.
    pub fn list(&mut self, sim: u32, required: bool) -> Result<Option<Vec<Listed>>, ProbeError> {
        let list = ListGpus { sim, timeout: self.timeout, required };
        let ran = self.run("GPUs", &list, &[])?;
        Ok(self.may_go_on(&ran).then_some(ran.listed))
    }

    /// The RDMA devices of libibverbs; `None` if the probe cannot continue.
    pub fn nics(&mut self) -> Result<Option<Vec<String>>, ProbeError> {
        let nics = ListRdmaDevices { timeout: self.timeout };
        let ran = self.run("RDMA devices", &nics, &[])?;
        Ok(self.may_go_on(&ran).then_some(ran.nics))
    }

    /// Runs the tasks of each selected GPU, until an interrupt.
    pub fn run_tasks<T: Task>(
        &mut self,
        scope: &Scope,
        machine: &Machine,
        environment: &[(&str, &str)],
        tasks: impl Fn(Target) -> Result<Vec<T>, ProbeError>,
    ) -> Result<(), ProbeError> {
        for gpu in self.gpus(scope, 1, machine)? {
            let target = gpu.target();
            let subject = target.subject.clone();
            for task in tasks(target)? {
                if !self.run(&subject, &task, environment)?.go_on {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// False after an incomplete list: a device may be missing from it.
    fn may_go_on(&self, ran: &ChildResult) -> bool {
        ran.go_on
            && self.report.complete
            && !self.report.results.iter().any(|result| result.required)
    }

    /// Runs one child until it ends.
    pub fn run<T: Task>(
        &mut self,
        subject: &str,
        task: &T,
        environment: &[(&str, &str)],
    ) -> Result<ChildResult, ProbeError> {
        self.run_with(subject, task, environment, None)
    }

    /// Runs a child that is connected to another process.
    pub fn run_with<T: Task>(
        &mut self,
        subject: &str,
        task: &T,
        environment: &[(&str, &str)],
        wire: Option<Wire>,
    ) -> Result<ChildResult, ProbeError> {
        let start = Start { set: environment, wire, ..Start::default() };
        self.run_as(subject, task, start)
    }

    /// Runs a child that starts in a certain way.
    pub fn run_as<T: Task>(
        &mut self,
        subject: &str,
        task: &T,
        start: Start<'_>,
    ) -> Result<ChildResult, ProbeError> {
        let mut command = keeper::command();
        command.args(arguments(task)?);
        self.run_command(subject, command, Start { stays: task.stays(), ..start })
    }

    /// Runs a command that runs a child, with [`arguments`].
    pub fn run_command(
        &mut self,
        subject: &str,
        mut command: Command,
        start: Start<'_>,
    ) -> Result<ChildResult, ProbeError> {
        pass_environment(&mut command);
        if std::env::var_os("CUDA_DEVICE_ORDER").is_none() {
            command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        }
        for (name, _) in std::env::vars_os() {
            if let (Some(removed), Some(text)) = (start.removed, name.to_str())
                && removed(text)
            {
                command.env_remove(name);
            }
        }
        command.envs(start.set.iter().copied());
        command.env_remove(SECRET_VARIABLE);
        let mut ran = ChildResult::default();
        let (mut lost, mut unit) = (false, None);
        let (ended, child) =
            watch(&mut command, self.interrupts, start.wire, self.timeout, &mut |output| {
                let event = match output {
                    Output::Event(event) => event,
                    Output::Message(line) if start.keeps_messages => {
                        if ran.messages.len() < MAX_MESSAGES {
                            ran.messages.push(line);
                        }
                        return;
                    }
                    Output::Message(line) => {
                        return self.progress.message(&format!("{subject}: {line}"));
                    }
                };
                match event {
                    Event::Listed(gpus) => ran.listed.extend(gpus),
                    Event::Nics(names) => ran.nics = names,
                    Event::Unit(next) => {
                        ran.units += 1;
                        unit = Some(next);
                    }
                    Event::Lost => lost = true,
                    event => self.add(subject, event),
                }
            })?;
        ran.whole = ended == ChildEnd::Done && !lost;
        ran.failure = failure_reason(&ended);
        ran.go_on = match &ended {
            ended if start.is_trial && *ended != ChildEnd::Interrupted => true,
            ended => self.go_on(unit.as_deref().unwrap_or(subject), ended),
        };
        if start.stays && ran.whole {
            self.lister = Some(child.into_idle());
        }
        ran.ended = Some(ended);
        Ok(ran)
    }

    /// Adds an event to the report.
    fn add(&mut self, subject: &str, event: Event) {
        match event {
            Event::Doing(step) => self.progress.step(subject, &step),
            Event::Connected(end) => {
                let known = |known: &ProbedEnd| {
                    (&known.subject, known.remote) == (&end.subject, end.remote)
                };
                if !self.report.ends.iter().any(known) {
                    self.report.ends.push(*end);
                }
            }
            Event::Gpu(gpu) => {
                if self.report.gpus.iter().all(|known| known.subject != gpu.subject) {
                    self.report.gpus.push(*gpu);
                }
            }
            Event::Mpi(mpi) => self.report.mpi = Some(*mpi),
            Event::Counters(changes) => self.report.counters.extend(changes),
            Event::Pair(pair) => self.report.pairs.push(*pair),
            Event::Result(result) => self.report.results.push(*result),
            Event::Note(note) => self.note(format!("{subject}: {note}")),
            Event::Listed(_) | Event::Nics(_) | Event::Unit(_) | Event::Lost | Event::End => {}
        }
    }

    /// Reports how a child ended. False after an interrupt.
    fn go_on(&mut self, subject: &str, ended: &ChildEnd) -> bool {
        self.report.complete &= *ended == ChildEnd::Done;
        match ended {
            // The code that stopped the child reports why.
            ChildEnd::Done | ChildEnd::Stopped => true,
            ChildEnd::Interrupted => {
                self.note("Interrupted: this is what was done until then.".to_owned());
                false
            }
            ChildEnd::Hung(step) => {
                self.note(format!(
                    "{subject}: gave up after waiting {:.0} s for {}. A driver or a device appears to hang: look for errors in \
                     dmesg (of NVIDIA GPUs: Xid), or give it longer with --library-timeout.",
                    step.timeout.as_secs_f64(),
                    step.what
                ));
                true
            }
            ChildEnd::Crashed(..) | ChildEnd::Garbled(_) => {
                let backend = if self.report.simulated { "sim" } else { "" };
                let reason = failure_reason(ended).unwrap_or_default();
                let result = Subject::new(subject, backend).impossible("run", None, true, reason);
                self.report.results.push(result);
                true
            }
        }
    }

    /// Adds a note to the report, once.
    pub fn note(&mut self, note: String) {
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }
}

/// The arguments of a child of this binary.
pub fn arguments<T: Task>(task: &T) -> Result<[String; 2], ProbeError> {
    let request = crate::model::to_json(&BTreeMap::from([(T::NAME, task)]))?;
    Ok([CHILD.to_owned(), request])
}

/// Why a child did not finish.
fn failure_reason(ended: &ChildEnd) -> Option<String> {
    match ended {
        ChildEnd::Done => None,
        ChildEnd::Interrupted => Some("it was interrupted".to_owned()),
        ChildEnd::Stopped => Some("it was stopped".to_owned()),
        ChildEnd::Hung(step) => Some(format!("it hangs while waiting for {}", step.what)),
        ChildEnd::Crashed(step, status) => {
            Some(format!("the child process ended ({status}) while waiting for {}", step.what))
        }
        ChildEnd::Garbled(error) => {
            Some(format!("a library wrote into the output of the child process: {error}"))
        }
    }
}
