//! The child's side: one of the two processes.

use std::time::Duration;

use super::super::session::Session;
use super::super::task::{Side, Task};
use super::end::{End, Link};
use super::peer::{Message, Peer};
use super::{local, remote};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Time to open a GPU.
const OPEN_TIME: Duration = Duration::from_secs(30);
/// After a failure, time to wait for the other process's error, which may explain more.
const PEER_ERROR_TIME: Duration = Duration::from_millis(300);

/// Runs one side. The local process reports errors of the remote one.
pub fn run(side: Side, task: &Task, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    // Not `StepError::Io`, which is the pipe to the parent.
    let mut peer = Peer::over_stdin(task.terms.timeout).map_err(StepError::Socket)?;
    match measure(side, task, &mut peer, reporter) {
        Err(error) if !matches!(error, StepError::Io(_)) && !error.is_from_peer() => {
            let theirs = peer.failure(PEER_ERROR_TIME);
            peer.fail(error.advised());
            Err(theirs.unwrap_or(error))
        }
        done => done,
    }
}

fn measure(
    side: Side,
    task: &Task,
    peer: &mut Peer,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing_for("CUDA to open the GPU in two processes", OPEN_TIME)?;
    let gpu = task.open()?;
    let session = Session::new(task, gpu, reporter)?;
    reporter.doing_for("the other process to open the GPU", OPEN_TIME)?;
    peer.send(Message::Ready);
    peer.expect(&Message::Ready, OPEN_TIME)?;
    let link = Link::open(&session, side, peer)?;
    let (all, _) = task.settings.series(&task.terms);
    for series in all {
        let mut end = End::new(&session, &link, peer, series)?;
        let goes_on = match side {
            Side::Local => local::run(&mut end, reporter)?,
            Side::Remote => remote::run(&mut end, reporter)?,
        };
        if !goes_on {
            break;
        }
    }
    Ok(())
}
