//! Queue pairs that a program makes, connects and registers memory for itself, by verbs: the proxy rings and polls for it alone.

use std::sync::Arc;

use verbs::CompletionQueue;

use super::create::{bounce, keep};
use super::engine::{Engine, step};
use super::pair::{Borrowed, Link};
use super::{Shared, State};
use crate::hca::port::{Made, Room};
use crate::hca::rings::Rings;
use crate::hca::{Endpoint, QueuePair, Request};
use crate::{Allocator, Error};

/// A thread that serves lent queue pairs, of any device. Dropped, it ends: what was rung and posted is flushed.
///
/// It asks no device for events, which are the program's to take. Before the program has brought a queue pair to a state in which verbs
/// take requests (RTS for sends, INIT for receives), what is rung and posted waits.
#[derive(Debug)]
pub struct Agent(Engine);

/// What a program lends: a queue pair, and the two completion queues that nobody else polls.
#[derive(Debug)]
pub struct BorrowedQueues {
    /// The queue pair.
    pub pair: verbs::QueuePair<verbs::Borrowed>,
    /// Where its sends complete.
    pub sent: CompletionQueue,
    /// Where its receives complete.
    pub received: CompletionQueue,
    /// Requests to send that it holds.
    pub sends: u32,
    /// Requests to receive that it holds.
    pub receives: u32,
}

/// The agent's side of a lent queue pair.
#[derive(Debug, Clone)]
pub struct Adopted {
    shared: Arc<Shared>,
    number: u64,
}

impl Agent {
    /// Starts its thread.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn start() -> Result<Self, Error> {
        Ok(Self(Engine::start("proxy of lent queue pairs", None)?))
    }

    /// Serves a lent queue pair behind software's queues in `allocator`'s places, until the result is dropped; then it is destroyed. Keys of
    /// entries go to verbs as they are, and its device alone judges them. Its endpoint has a number, and no path.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for depths that are none; what allocating its places meets; [`Error::Device`] where verbs register no memory for
    /// inline data.
    pub fn adopt(
        &self,
        allocator: &Allocator,
        borrowed_queues: BorrowedQueues,
        request: &Request,
    ) -> Result<(QueuePair, Adopted), Error> {
        let rings = Rings::take(allocator, request)?;
        let bounce = bounce(borrowed_queues.pair.domain(), request.send_blocks)?;
        let endpoint = Endpoint::new(0, borrowed_queues.pair.number());
        let made = Made {
            link: Link::Borrowed(Borrowed::new(borrowed_queues.pair)),
            sent: borrowed_queues.sent,
            received: borrowed_queues.received,
            room: Room {
                sends: borrowed_queues.sends,
                receives: borrowed_queues.receives,
            },
        };
        let (pair, number) = keep(&self.0.shared, rings, bounce, made, endpoint)?;
        let shared = Arc::clone(&self.0.shared);
        Ok((pair, Adopted { shared, number }))
    }
}

impl Adopted {
    /// Does what there is to do for it, in the caller's thread: what was rung and posted is with verbs when this returns, if they take it.
    /// Its state is asked for anew where that matters.
    pub fn serve(&self) {
        let mut state = self.shared.lock();
        let State { pairs, regions, .. } = &mut *state;
        if let Some(pair) = pairs.get_mut(&self.number) {
            if let Link::Borrowed(borrowed) = &mut pair.link {
                borrowed.look_again();
            }
            step(pair, regions);
        }
    }

    /// Has the thread look soon: a stream was given work.
    pub fn wake(&self) {
        self.shared.bell.wake();
    }
}
