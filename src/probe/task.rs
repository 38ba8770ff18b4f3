//! The task of a child of this binary: passed as one JSON argument, reported in lines of JSON ([`super::events`]).

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::events::{Event, Reporter};
use super::failure::StepError;
use crate::model::ProbeResult;

/// The hidden subcommand of a child.
pub const CHILD: &str = "__probe";

/// The work of one child.
pub trait Task: Serialize + DeserializeOwned {
    const NAME: &'static str;

    /// Added to the expected time of each step before it counts as hung.
    fn timeout(&self) -> Duration;

    /// Runs the task in this process, and reports steps and results.
    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError>;

    /// True if the child stays after its answer, until it is killed. See [`Children::list`](super::children::Children::list).
    fn stays(&self) -> bool {
        false
    }

    /// The result of a task that failed as a whole; `None` if its parts or another child report it.
    fn failed(&self, _: &StepError) -> Option<ProbeResult> {
        None
    }
}

/// Runs a task, and reports its end.
pub fn answer(task: &impl Task, out: &mut dyn Write) -> io::Result<()> {
    let mut reporter = Reporter::new(out, task.timeout());
    match task.run(&mut reporter) {
        Ok(()) => {}
        // The parent has exited.
        Err(StepError::Io(error)) => return Err(error),
        Err(error) => {
            if let Some(result) = task.failed(&error) {
                reporter.result(result)?;
            }
        }
    }
    reporter.send(&Event::End)?;
    while task.stays() {
        std::thread::park();
    }
    Ok(())
}

/// A part of a task, and the name of its result if it fails.
pub type Part<S> = (&'static str, fn(&mut S, &mut Reporter<'_>) -> Result<(), StepError>);

/// Runs the parts of a task one after another. A part that fails gets a result from `failed` (name, reason), and the next one still
/// runs: it may need less memory, for example.
pub fn run_parts<S>(
    parts: &[Part<S>],
    session: &mut S,
    reporter: &mut Reporter<'_>,
    failed: impl Fn(&S, &str, String) -> ProbeResult,
) -> Result<(), StepError> {
    for (name, part) in parts {
        match part(session, reporter) {
            Ok(()) => {}
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => reporter.result(failed(session, name, error.advised()))?,
        }
    }
    Ok(())
}
