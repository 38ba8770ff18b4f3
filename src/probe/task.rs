//! What a child of this binary does: its one argument says it, and lines of JSON report it ([`super::events`]).

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::events::{Event, Reporter};
use super::failure::StepError;
use crate::model::ProbeResult;

/// The hidden subcommand that a child is started with.
pub const CHILD: &str = "__probe";

/// The work of one child.
pub trait Task: Serialize + DeserializeOwned {
    /// Names it in the child's argument.
    const NAME: &'static str;

    /// How long a step may take beyond its own time.
    fn timeout(&self) -> Duration;

    /// Does it in this process, and reports what it does and finds.
    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError>;

    /// The result of a task that failed as a whole; none where its parts, or another child, report that.
    fn failed(&self, _: &StepError) -> Option<ProbeResult> {
        None
    }
}

/// Does a task, and reports its end.
pub fn answer(task: &impl Task, out: &mut dyn Write) -> io::Result<()> {
    let mut reporter = Reporter::new(out, task.timeout());
    match task.run(&mut reporter) {
        Ok(()) => {}
        // The parent is gone.
        Err(StepError::Io(error)) => return Err(error),
        Err(StepError::Verbs(error)) if error.is_absent() => reporter.tell(&Event::Lacking(format!(
            "{}: install rdma-core's libibverbs and the provider of the NIC (Debian, Ubuntu: libibverbs1 and \
             ibverbs-providers; Fedora, RHEL, SUSE: libibverbs)",
            gpu::sentence(&error)
        )))?,
        Err(error) => {
            if let Some(result) = task.failed(&error) {
                reporter.result(result)?;
            }
        }
    }
    reporter.tell(&Event::End)
}

/// A part of a task, and what is impossible where it fails.
pub type Part<S> = (
    &'static str,
    fn(&mut S, &mut Reporter<'_>) -> Result<(), StepError>,
);

/// Does the parts of a task one after the other. What one lacks, memory say, the next may not need: `failed` makes a result of its
/// name and the reason.
pub fn run_parts<S>(
    parts: &[Part<S>],
    session: &mut S,
    reporter: &mut Reporter<'_>,
    failed: impl Fn(&S, &str, String) -> ProbeResult,
) -> Result<(), StepError> {
    for (name, part) in parts {
        match part(session, reporter) {
            Ok(()) => {}
            Err(error) if error.is_the_end() => return Err(error),
            Err(error) => reporter.result(failed(session, name, gpu::sentence(&error)))?,
        }
    }
    Ok(())
}
