//! `async.pingpong`: messages between two processes that have one GPU each to themselves, or the same, there and back in the order of their
//! streams. Each is another child; the near one measures, and has what there is to tell.
//!
//! [`between`] is the parent's side, [`answer`] a child's. The children speak over a socket that the parent gave them: [`way`].

mod end;
mod local;
mod memory;
mod pair;
mod remote;
mod trial;
pub(super) mod way;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use pair::between;

use super::Task;
use super::session::Session;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::request::Target;
use end::End;
use way::{Way, Word};

/// What cannot be done is told of this.
pub const PART: &str = "async.pingpong";
/// How long a process may take to open a GPU.
const OPENING: Duration = Duration::from_secs(30);
/// How long the other one's word may be on its way, where this one has failed: it may tell more.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Sends first, and measures.
    Local,
    /// Changes each message, and sends it back.
    Remote,
}

/// Does one side of it. What the far one meets the near one tells.
pub fn answer(which: Which, task: &Task, reporter: &mut Reporter<'_>) -> io::Result<()> {
    let mut way = match Way::of_this_process(task.terms.timeout) {
        Ok(way) => way,
        Err(error) => return told(which, task, reporter, &StepError::Io(error)),
    };
    let outcome = run(which, task, &mut way, reporter);
    let failure = match outcome {
        Ok(()) => return Ok(()),
        Err(StepError::Io(error)) => return Err(error),
        Err(failure) if failure.is_of_the_remote_end() => failure,
        Err(failure) => {
            let theirs = way.last(AFTERWARDS);
            way.say(&Word::Failed(words(&failure)));
            theirs.unwrap_or(failure)
        }
    };
    told(which, task, reporter, &failure)
}

fn told(
    which: Which,
    task: &Task,
    reporter: &mut Reporter<'_>,
    failure: &StepError,
) -> io::Result<()> {
    if which == Which::Remote {
        return Ok(());
    }
    let about = task.target.about(task.target.cuda(), None);
    reporter.result(about.impossible(PART, None, true, words(failure)))
}

/// Of a GPU that takes no second process, with what may lie behind it.
fn words(failure: &StepError) -> String {
    match failure {
        StepError::Gpu(error @ gpu::Error::Context { .. }) => Target::refused(error),
        failure => gpu::sentence(failure),
    }
}

fn run(
    which: Which,
    task: &Task,
    way: &mut Way,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing_for("CUDA to open the GPU in two processes", OPENING)?;
    let gpu = task.target.open()?;
    let session = Session::new(task, gpu, reporter)?;
    reporter.doing_for("the other process to open the GPU", OPENING)?;
    way.say(&Word::Ready);
    way.expect(&Word::Ready, OPENING)?;
    let mut end = End::new(&session, which, way)?;
    match which {
        Which::Local => local::run(&mut end, reporter),
        Which::Remote => remote::run(&mut end, reporter),
    }
}
