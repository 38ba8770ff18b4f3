//! The child's side: it opens one GPU, maps its memory, and works through its task, telling what it does and finds.

use std::io;

use gdrcopy::copy::kernels as all_kernels;
use gdrcopy::{BackendKind, Gdr, Outcome};

use super::request::Task;
use super::session::Session;
use super::{calls, kernels_check, ping_pong, sweep, validate};
use crate::model::{BackendChoice, BackendOutcome};
use crate::probe::child::bind;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Probes the mapping of one GPU.
pub fn answer(task: &Task, reporter: &mut Reporter<'_>) -> io::Result<()> {
    match probe(task, reporter) {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(StepError::Io(error)) => Err(error),
        Err(failure) => {
            let backend = if task.target.ordinal.is_none() {
                "sim"
            } else {
                ""
            };
            let about = task
                .target
                .about(backend, task.node.as_ref().map(|node| node.0));
            reporter.result(about.impossible("map", None, true, gpu::sentence(&failure)))
        }
    }
}

/// The names of the copy kernels this CPU can run.
pub fn kernels() -> Vec<&'static str> {
    let kernels = all_kernels().iter().filter(|kernel| kernel.supported());
    kernels.map(gdrcopy::copy::Kernel::name).collect()
}

fn probe(task: &Task, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    if let Some((node, cpus)) = &task.node {
        bind(*node, cpus)?;
    }
    reporter.doing("CUDA to open the GPU")?;
    let gpu = task.target.open()?;
    reporter.doing("a backend to open")?;
    let backends = backends(task);
    let opened = match (&task.backend, task.target.ordinal) {
        (_, None) => Gdr::open_with(BackendKind::Sim),
        (Some(name), _) => BackendKind::named(name).map_or_else(Gdr::open, Gdr::open_with),
        (None, _) => Gdr::open(),
    };
    let mut session = Session::new(task, gpu, opened, backends, reporter)?;
    if !task.sweep_only {
        validate::run(&mut session, reporter)?;
        kernels_check::run(&mut session, reporter)?;
        calls::run(&session, reporter)?;
        ping_pong::run(&session, reporter)?;
    }
    sweep::run(&mut session, reporter)
}

fn backends(task: &Task) -> Vec<BackendChoice> {
    let found = match task.target.ordinal {
        Some(_) => Gdr::explain(),
        None => Vec::new(),
    };
    let choices = found
        .into_iter()
        .filter(|found| found.backend != BackendKind::Sim);
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
