//! The parent's side of a task: a child that runs it, and what becomes of a child that fails.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use super::devices::{ListGpus, ListRdmaDevices};
use super::events::{Event, Listed, Step};
use super::machine::Machine;
use super::scope::{Chosen, ProbeError, Scope, chosen};
use super::target::Target;
use super::task::{CHILD, Task};
use super::verdict::Subject;
use super::watch::{Ended, Interrupts, Output, Wire, watch};
use crate::input::pass_environment;
use crate::model::{ProbeReport, ProbeResult, ProbedEnd};

/// The secret of two machines that probe together. No child gets it: the libraries that a child loads do not need it.
pub const SECRET_VARIABLE: &str = "GDR_PROBE_SECRET";

/// Who watches a probe.
pub trait Watcher {
    /// A step begins, of what is about this.
    fn step(&mut self, subject: &str, step: &Step);

    /// Something that must be known now, and not with the report.
    fn word(&mut self, word: &str);
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
    /// The GPUs that were asked for; none where there is no use in going on, which the report says. `sim` is how many simulated ones
    /// there are.
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

    /// The GPUs that CUDA shows; none where there is no use in going on. Where none is required, there may be none.
    pub fn list(&mut self, sim: u32, required: bool) -> Result<Option<Vec<Listed>>, ProbeError> {
        let list = ListGpus {
            sim,
            timeout: self.timeout,
            required,
        };
        let ran = self.run("GPUs", &list, &[])?;
        Ok(self.may_go_on(&ran).then_some(ran.listed))
    }

    /// The RDMA devices that libibverbs serves; none where there is no use in going on.
    pub fn nics(&mut self) -> Result<Option<Vec<String>>, ProbeError> {
        let nics = ListRdmaDevices {
            timeout: self.timeout,
        };
        let ran = self.run("RDMA devices", &nics, &[])?;
        Ok(self.may_go_on(&ran).then_some(ran.nics))
    }

    /// Runs the tasks of each GPU that was asked for, until an interruption.
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

    /// Where a list did not come to its end, what is not in it may be there all the same.
    fn may_go_on(&self, ran: &Ran) -> bool {
        ran.go_on
            && self.report.complete
            && !self.report.results.iter().any(|result| result.required)
    }

    /// Runs one child to its end.
    pub fn run<T: Task>(
        &mut self,
        subject: &str,
        task: &T,
        environment: &[(&str, &str)],
    ) -> Result<Ran, ProbeError> {
        self.run_with(subject, task, environment, None)
    }

    /// The same with a child that is connected to another process.
    pub fn run_with<T: Task>(
        &mut self,
        subject: &str,
        task: &T,
        environment: &[(&str, &str)],
        wire: Option<Wire>,
    ) -> Result<Ran, ProbeError> {
        let request = serde_json::to_string(&BTreeMap::from([(T::NAME, task)]))?;
        // The file this process runs from, even where it has been replaced or its path is out of reach.
        let mut command = Command::new("/proc/self/exe");
        pass_environment(&mut command);
        command.arg(CHILD).arg(request);
        if std::env::var_os("CUDA_DEVICE_ORDER").is_none() {
            command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        }
        command.envs(environment.iter().copied());
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
                    Event::Listed(gpus) => ran.listed.extend(gpus),
                    Event::Nics(names) => ran.nics = names,
                    Event::Unit(next) => {
                        ran.units += 1;
                        unit = Some(next);
                    }
                    Event::Lost => lost = true,
                    event => self.add(subject, event),
                }
            },
        )?;
        ran.whole = ended == Ended::Done && !lost;
        ran.failure = unfinished(&ended);
        ran.go_on = self.go_on(unit.as_deref().unwrap_or(subject), ended);
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
            Event::Listed(_) | Event::Nics(_) | Event::Unit(_) | Event::Lost | Event::End => {}
        }
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
        self.report.complete &= ended == Ended::Done;
        match ended {
            // Who stopped it says why.
            Ended::Done | Ended::Stopped => true,
            Ended::Interrupted => {
                self.note("Interrupted: this is what was done until then.".to_owned());
                false
            }
            Ended::Hung(step) => {
                self.note(format!(
                    "{subject}: gave up after waiting {:.0} s for {}. The driver or the GPU appears to hang: look for Xid lines in \
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

    /// Adds a note to the report, once.
    pub fn note(&mut self, note: String) {
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }
}

/// Why a child did not come to its end.
fn unfinished(ended: &Ended) -> Option<String> {
    match ended {
        Ended::Done => None,
        Ended::Interrupted => Some("it was interrupted".to_owned()),
        Ended::Stopped => Some("it was stopped".to_owned()),
        Ended::Hung(step) => Some(format!("it hangs while waiting for {}", step.what)),
        Ended::Crashed(step, status) => Some(format!(
            "it ended ({status}) while waiting for {}",
            step.what
        )),
        Ended::Garbled(error) => Some(format!("a library wrote into its output: {error}")),
    }
}
