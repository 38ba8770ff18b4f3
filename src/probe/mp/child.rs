//! The child: one of the two ranks.

use std::time::Duration;

use super::session::Session;
use super::talk::Peer;
use super::task::{Side, Task};
use super::{client, server};
use crate::model::ProbeResult;
use crate::probe::channel::Channel;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::task;

/// The name of the result of a failure.
pub const NAME: &str = "mp";
/// After a failure, time to wait for the other process's error, which may explain more.
const PEER_ERROR_TIME: Duration = Duration::from_millis(300);

impl task::Task for Task {
    const NAME: &'static str = NAME;

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let channel = Channel::over_stdin(self.terms.timeout);
        let peer = Peer::new(channel.map_err(StepError::Socket)?);
        match measure(self, peer.clone(), reporter) {
            Err(error) if !matches!(error, StepError::Io(_)) && !error.is_from_peer() => {
                let theirs = peer.failure(PEER_ERROR_TIME);
                peer.fail(error.advised());
                Err(theirs.unwrap_or(error))
            }
            done => done,
        }
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        // On one machine the client reports failures of the server.
        let about = self.target.about(self.target.cuda(), None);
        let result = about.impossible(NAME, None, true, error.advised());
        (self.side == Side::Client || self.is_across)
            .then(|| ProbeResult { subject: self.subject.clone(), ..result })
    }
}

fn measure(task: &Task, peer: Peer, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let session = Session::new(task, peer, reporter)?;
    match task.side {
        Side::Client => client::run(&session, reporter)?,
        Side::Server => server::run(&session, reporter)?,
    }
    // Both, so that no connection ends before the other process has its last message.
    Ok(session.ranks.barrier()?)
}
