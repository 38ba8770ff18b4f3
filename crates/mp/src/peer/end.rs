//! Closes a connection.

use super::Peer;
use super::wait::is_open;
use crate::Error;
use crate::error::Cause;

impl Peer {
    /// Ends all requests and destroys the queue pair. Queues that a stream or kernel may still access stay allocated.
    pub fn close(&self) {
        let mut lane = self.lane();
        self.progress(&mut lane);
        self.fail_with(&mut lane, None, Cause::Closed.to_string());
        let Some(pair) = lane.pair.take() else {
            return;
        };
        let is_rung = |given: &gdsync::queue::Prepared| given.is_rung().unwrap_or(false);
        let may_be_rung = lane.on_stream.as_ref().is_some_and(|given| !is_rung(given));
        if may_be_rung || lane.released.iter().any(is_open) {
            // A GPU that accesses freed memory loses its context.
            std::mem::forget((
                pair.send.parts().clone(),
                pair.send_completions.parts().clone(),
                pair.receive_completions.parts().clone(),
            ));
        }
    }

    pub(super) fn closed(&self) -> Error {
        Error::PeerFailed { peer: self.rank, cause: Cause::Closed.to_string() }
    }
}
