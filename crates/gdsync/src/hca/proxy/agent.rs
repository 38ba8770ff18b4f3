//! Serves queue pairs that a program creates and connects itself by verbs: the proxy only posts and polls.

use std::sync::Arc;

use verbs::{BorrowedHandle, CompletionQueue};

use super::create::{bounce, keep};
use super::engine::{Engine, step};
use super::pair::{AddressHandle, Borrowed, Link};
use super::{Shared, State};
use crate::hca::port::{Room, VerbsPair};
use crate::hca::rings::Rings;
use crate::hca::{Endpoint, QueuePair, Request};
use crate::wire::{AddressVector, Transport};
use crate::{Allocator, Error};

/// A thread that serves borrowed queue pairs of any device. Dropping it ends the thread and flushes posted work.
///
/// It reads no device events: those belong to the program. Posted work waits until the program has moved the queue pair to a
/// state in which verbs accept it (RTS for sends, INIT for receives).
#[derive(Debug)]
pub struct Agent(Engine);

/// A program's queue pair, and two completion queues that only the agent polls.
#[derive(Debug)]
pub struct BorrowedQueues {
    /// The queue pair.
    pub pair: verbs::QueuePair<verbs::Borrowed>,
    /// Completions of its sends.
    pub sent: CompletionQueue,
    /// Completions of its receives.
    pub received: CompletionQueue,
    /// Depth of its send queue, in work requests.
    pub sends: u32,
    /// Depth of its receive queue, in work requests.
    pub receives: u32,
}

/// The agent's handle of a borrowed queue pair.
#[derive(Debug, Clone)]
pub struct ServedPair {
    shared: Arc<Shared>,
    number: u64,
}

impl Agent {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn start() -> Result<Self, Error> {
        Ok(Self(Engine::start("proxy of borrowed queue pairs", None)?))
    }

    /// Serves a borrowed queue pair from queues in `allocator`'s memory until the [`QueuePair`] is dropped. Keys in WQEs are passed
    /// to verbs unchecked; the device validates them. The endpoint has a QPN but no path.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for invalid depths; errors of the allocation; [`Error::Device`] if verbs cannot register memory for inline
    /// data.
    pub fn adopt(
        &self,
        allocator: &Allocator,
        borrowed_queues: BorrowedQueues,
        request: &Request,
    ) -> Result<(QueuePair, ServedPair), Error> {
        let rings = Rings::take(allocator, request)?;
        let bounce = bounce(borrowed_queues.pair.domain(), request.send_blocks)?;
        let endpoint = Endpoint::new(0, borrowed_queues.pair.number());
        let transport = if borrowed_queues.pair.transport().is_datagram() {
            Transport::Datagram
        } else {
            Transport::Connected
        };
        let made = VerbsPair {
            link: Link::Borrowed(Borrowed::new(borrowed_queues.pair)),
            sent: borrowed_queues.sent,
            received: borrowed_queues.received,
            room: Room { sends: borrowed_queues.sends, receives: borrowed_queues.receives },
        };
        let (pair, number) = keep(&self.0.shared, rings, bounce, made, endpoint, transport)?;
        let shared = Arc::clone(&self.0.shared);
        Ok((pair, ServedPair { shared, number }))
    }
}

impl ServedPair {
    /// Serves it once, in the calling thread: on return all work that verbs accept is posted. Queries its state again if needed.
    pub fn serve(&self) {
        let mut state = self.shared.lock();
        let State { pairs, regions, .. } = &mut *state;
        if let Some(pair) = pairs.get_mut(&self.number) {
            if let Link::Borrowed(borrowed) = &mut pair.link {
                borrowed.refresh();
            }
            step(pair, regions);
        }
    }

    /// The address of a program's handle for WQEs. The handle stays live until these WQEs have completed. `None` if the queue pair is
    /// dropped.
    #[must_use]
    pub fn address(&self, handle: BorrowedHandle) -> Option<AddressVector> {
        let mut state = self.shared.lock();
        let pair = state.pairs.get_mut(&self.number)?;
        Some(pair.address(
            |known| matches!(known, AddressHandle::Borrowed(known) if *known == handle),
            || AddressHandle::Borrowed(handle),
        ))
    }

    /// Wakes the thread, after a stream was given work.
    pub fn wake(&self) {
        self.shared.bell.wake();
    }
}
