//! `async.pingpong`: messages between two processes that have one GPU each to themselves, or the same, there and back in the order of their
//! streams. Each is another child; the near one measures, and has what there is to tell.
//!
//! [`between`] is the parent's side, [`answer`] a child's. The children speak over a socket that the parent gave them: [`way`].

mod end;
mod far;
mod memory;
mod near;
mod pair;
mod trial;
pub(super) mod way;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use pair::between;

use super::Task;
use super::session::Session;
use crate::probe::events::Teller;
use crate::probe::request::Target;
use crate::probe::trouble::Trouble;
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
    Near,
    /// Changes each message, and sends it back.
    Far,
}

/// Does one side of it. What the far one meets the near one tells.
pub fn answer(which: Which, task: &Task, teller: &mut Teller<'_>) -> io::Result<()> {
    let mut way = match Way::of_this_process(task.terms.patience) {
        Ok(way) => way,
        Err(error) => return told(which, task, teller, &Trouble::Io(error)),
    };
    let outcome = run(which, task, &mut way, teller);
    let trouble = match outcome {
        Ok(()) => return Ok(()),
        Err(Trouble::Io(error)) => return Err(error),
        Err(trouble) if trouble.is_of_the_far_end() => trouble,
        Err(trouble) => {
            let theirs = way.last(AFTERWARDS);
            way.say(&Word::Failed(words(&trouble)));
            theirs.unwrap_or(trouble)
        }
    };
    told(which, task, teller, &trouble)
}

fn told(which: Which, task: &Task, teller: &mut Teller<'_>, trouble: &Trouble) -> io::Result<()> {
    if which == Which::Far {
        return Ok(());
    }
    let about = task.target.about(task.target.cuda(), None);
    teller.result(about.impossible(PART, None, true, words(trouble)))
}

/// Of a GPU that takes no second process, with what may lie behind it.
fn words(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Gpu(error @ gpu::Error::Context { .. }) => Target::refused(error),
        trouble => gpu::sentence(trouble),
    }
}

fn run(which: Which, task: &Task, way: &mut Way, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    teller.doing_for("CUDA to open the GPU in two processes", OPENING)?;
    let gpu = task.target.open()?;
    let session = Session::new(task, gpu, teller)?;
    teller.doing_for("the other process to open the GPU", OPENING)?;
    way.say(&Word::Ready);
    way.expect(&Word::Ready, OPENING)?;
    let mut end = End::new(&session, which, way)?;
    match which {
        Which::Near => near::run(&mut end, teller),
        Which::Far => far::run(&mut end, teller),
    }
}
