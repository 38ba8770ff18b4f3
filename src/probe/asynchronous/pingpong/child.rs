//! The child's side: one of the two processes.

use std::time::Duration;

use super::super::session::Session;
use super::super::task::{Task, Which};
use super::end::End;
use super::way::{Way, Word};
use super::{local, remote};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::target::Target;

/// How long a process may take to open a GPU.
const OPENING: Duration = Duration::from_secs(30);
/// How long to wait for the other process's reason where this one has failed: it may tell more.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Does one side of it. What the far process meets the near one reports.
pub fn run(which: Which, task: &Task, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let mut way = match Way::of_this_process(task.terms.timeout) {
        Ok(way) => way,
        // No error of the parent's pipe.
        Err(error) => return Err(StepError::Socket(error)),
    };
    match measure(which, task, &mut way, reporter) {
        Err(error) if !matches!(error, StepError::Io(_)) && !error.is_of_the_remote_end() => {
            let theirs = way.last(AFTERWARDS);
            way.fail(describe(&error));
            Err(theirs.unwrap_or(error))
        }
        done => done,
    }
}

/// An error in words, with what may lie behind a GPU that takes no second process.
pub fn describe(error: &StepError) -> String {
    match error {
        StepError::Gpu(error @ gpu::Error::Context { .. }) => Target::refused(error),
        error => gpu::sentence(error),
    }
}

fn measure(
    which: Which,
    task: &Task,
    way: &mut Way,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing_for("CUDA to open the GPU in two processes", OPENING)?;
    let gpu = task.target.open()?;
    let session = Session::new(task, gpu, reporter)?;
    reporter.doing_for("the other process to open the GPU", OPENING)?;
    way.say(Word::Ready);
    way.expect(&Word::Ready, OPENING)?;
    let mut end = End::new(&session, which, way)?;
    match which {
        Which::Local => local::run(&mut end, reporter),
        Which::Remote => remote::run(&mut end, reporter),
    }
}
