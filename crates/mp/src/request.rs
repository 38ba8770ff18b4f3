//! A request in progress.

use std::sync::Arc;

use crate::peer::{Direction, Peer};

/// A transfer or receive in progress. Waiting for it frees it, and so does dropping it: it then still completes, unless it is prepared
/// but not posted.
#[derive(Debug)]
#[must_use = "dropping it gives up its outcome"]
pub struct Request {
    pub(crate) peer: Arc<Peer>,
    pub(crate) direction: Direction,
    pub(crate) number: u64,
    /// Its outcome was returned.
    pub(crate) is_over: bool,
}

impl Request {
    pub(crate) fn send(peer: &Arc<Peer>, number: u64) -> Self {
        Self { peer: Arc::clone(peer), direction: Direction::Sends, number, is_over: false }
    }

    pub(crate) fn receive(peer: &Arc<Peer>, number: u64) -> Self {
        Self { peer: Arc::clone(peer), direction: Direction::Receives, number, is_over: false }
    }

    /// Its number among the requests of its peer, which error messages name.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The other rank.
    #[must_use]
    pub fn peer(&self) -> u32 {
        self.peer.rank
    }

    /// True for receives.
    #[must_use]
    pub fn is_receive(&self) -> bool {
        self.direction == Direction::Receives
    }

    /// Polls. True if it has ended, well or not: waiting for it then returns at once.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.peer.has_ended(self.direction, self.number)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_over {
            self.peer.forget(self.direction, self.number);
        }
    }
}
