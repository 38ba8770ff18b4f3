//! The child's side: opens one GPU, maps its memory, and runs its task.

use std::time::Duration;

use gdrcopy::copy::kernels as all_kernels;
use gdrcopy::{BackendKind, Gdr, Outcome};

use super::session::Session;
use super::task::Task;
use super::{cases, sweep};
use crate::model::{BackendChoice, BackendOutcome, ProbeResult};
use crate::probe::cpus::bind;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::task;

impl task::Task for Task {
    const NAME: &'static str = "copy";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        if let Some((node, cpus)) = &self.node {
            bind(*node, cpus)?;
        }
        reporter.doing("CUDA to open the GPU")?;
        let gpu = self.target.open()?;
        reporter.doing("a backend to open")?;
        let backends = backends(self);
        let opened = match (&self.backend, self.target.ordinal) {
            (_, None) => Gdr::open_with(BackendKind::Sim),
            (Some(name), _) => BackendKind::named(name).map_or_else(Gdr::open, Gdr::open_with),
            (None, _) => Gdr::open(),
        };
        let mut session = Session::new(self, gpu, opened, backends, reporter)?;
        if self.sweep_only {
            return sweep::run(&mut session, reporter);
        }
        for test in cases::chosen(&self.choices) {
            (test.run)(&mut session, reporter)?;
        }
        Ok(())
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let backend = self.target.ordinal.map_or("sim", |_| "");
        let about = self.target.about(backend, self.node.as_ref().map(|node| node.0));
        Some(about.impossible("map", None, true, error.advised()))
    }
}

/// The names of the copy kernels that this CPU supports.
pub fn kernels() -> Vec<&'static str> {
    let kernels = all_kernels().iter().filter(|kernel| kernel.supported());
    kernels.map(gdrcopy::copy::Kernel::name).collect()
}

fn backends(task: &Task) -> Vec<BackendChoice> {
    let found = match task.target.ordinal {
        Some(_) => Gdr::explain(),
        None => Vec::new(),
    };
    let choices = found.into_iter().filter(|found| found.backend != BackendKind::Sim);
    choices
        .map(|found| BackendChoice {
            outcome: match (&task.backend, found.outcome) {
                (Some(forced), Outcome::Chosen | Outcome::Usable)
                    if forced != found.backend.name() =>
                {
                    BackendOutcome::Usable
                }
                (Some(_), Outcome::Usable) | (_, Outcome::Chosen) => BackendOutcome::Chosen,
                (_, Outcome::Usable) => BackendOutcome::Usable,
                (_, Outcome::Refused) => BackendOutcome::Refused,
            },
            backend: found.backend.name().to_owned(),
            why: found.why,
        })
        .collect()
}
