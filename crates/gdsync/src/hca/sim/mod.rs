//! An HCA in software: a thread that watches doorbell registers in memory, reads the records and the entries of real rings, moves
//! bytes between registered memory, and writes real completions.
//!
//! It keeps to what a NIC does: keys, bounds and rights are checked, a message without a posted receive is tried again, an error
//! completes the entry and gives up all others of its queue pair. It is simpler in one thing: of each queue pair one request is
//! in progress at a time, so that every fence holds by itself. It speaks connections and no datagrams.
//!
//! Two of one process are [joined](SimHca::join) directly; two of two processes over a [`socket`], with [`socket::join`]. Another border
//! is a [`Link`] of one's own: it delivers what each says to the other's [inbox](SimHca::inbox).
//!
//! What can go wrong with a NIC can be [injected](SimHca::inject), and what software must not do is [noted](SimHca::violations).
//!
//! ```
//! use gdsync::hca::sim::SimHca;
//! use gdsync::hca::{Access, Hca, RetryPolicy, Request};
//! use gdsync::wire::Entry;
//! use gdsync::{Home, Supply};
//! use gpu::Gpu;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let supply = Supply::new(Gpu::sim(), None);
//! let hca = SimHca::new(supply.clone())?;
//! let mut pair = hca.create(&Request::default())?;
//! hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())?;
//! let memory = supply.place(Home::Host, 4096)?;
//! let region = hca.register(&memory, Access::ALL)?;
//!
//! let entry = Entry::write(region.remote(100), &[]).inline(b"written").signalled();
//! let prepared = pair.send.prepare(&entry)?;
//! let wait = pair.send_completions.take_wait()?;
//! // A stream rings the doorbell, and waits for the completion.
//! let stream = supply.gpu().stream()?;
//! stream.batch(&prepared.operations()?)?;
//! stream.batch(&wait.operations(false)?)?;
//! stream.synchronize_within(Duration::from_secs(60))?;
//! let mut seen = [0; 7];
//! memory.read(100, &mut seen)?;
//! assert_eq!(&seen, b"written");
//! let completion = pair.send_completions.poll()?.ok_or("no completion")?;
//! assert_eq!(pair.send.complete(&completion)?, 0);
//! # Ok(())
//! # }
//! ```

mod create;
mod engine;
mod failure;
mod fault;
mod fetch;
mod link;
mod pair;
mod region;
mod requester;
mod responder;
pub mod socket;
mod state;

pub use fault::{Effect, Violation};
pub use link::{Answer, Body, Gone, Link, Message, RemoteError, RemoteOperation};

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy, completer};
use crate::{Allocator, Error, Place};
use fault::Planned;
use link::Inbox;
use state::State;

/// A software HCA. Dropped, its thread ends: what was rung and posted completes as given up, later doorbells are not heard, and the
/// far sides of its connections are told that it is gone.
#[derive(Debug)]
pub struct SimHca {
    shared: Arc<Shared>,
    allocator: Allocator,
    thread: Option<JoinHandle<()>>,
}

/// What the thread, the queue pairs and the regions share.
#[derive(Debug)]
struct Shared {
    lid: u16,
    inbox: Arc<Inbox>,
    state: Mutex<State>,
}

impl Shared {
    /// A panic elsewhere leaves at worst an entry without its completion.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimHca {
    /// An HCA with one port, whose queues are made of `supply`. It reaches itself.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn new(allocator: Allocator) -> Result<Self, Error> {
        static LIDS: AtomicU16 = AtomicU16::new(1);
        Self::with_lid(allocator, LIDS.fetch_add(1, Ordering::Relaxed))
    }

    /// An HCA whose port has this LID: for one that is linked to others elsewhere, which must have other LIDs. [`SimHca::new`] counts from
    /// 1 in each process.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn with_lid(allocator: Allocator, lid: u16) -> Result<Self, Error> {
        let inbox = Arc::new(Inbox::default());
        let mut state = State::new(lid);
        state.links.insert(lid, Arc::clone(&inbox) as Arc<dyn Link>);
        let shared = Arc::new(Shared {
            lid,
            inbox,
            state: Mutex::new(state),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("sim HCA {lid}"))
            .spawn(move || engine::serve(&served))
            .map_err(Error::Thread)?;
        Ok(Self {
            shared,
            allocator,
            thread: Some(thread),
        })
    }

    /// Its port's LID.
    #[must_use]
    pub fn lid(&self) -> u16 {
        self.shared.lid
    }

    /// Lets two of this process reach one another.
    pub fn join(&self, other: &Self) {
        self.link(other.lid(), other.inbox());
        other.link(self.lid(), self.inbox());
    }

    /// Sends what is for port `lid` that way, and no longer where it was sent before. [`socket::join`] does it for another process.
    pub fn link(&self, lid: u16, link: Arc<dyn Link>) {
        self.shared.lock().links.insert(lid, link);
    }

    /// Where messages for this HCA are delivered.
    #[must_use]
    pub fn inbox(&self) -> Arc<dyn Link> {
        Arc::clone(&self.shared.inbox) as Arc<dyn Link>
    }

    /// Has `effect` happen to an entry of queue pair `qpn`: to the next but `after` that the effect is about. Each injection happens
    /// once.
    pub fn inject(&self, qpn: u32, after: u32, effect: Effect) {
        let mut state = self.shared.lock();
        let count = match effect {
            Effect::Behind { qpn } => state.pairs.get(&qpn).map_or(0, |other| other.completed + 1),
            _ => 0,
        };
        state.faults.inject(Planned {
            qpn,
            after,
            effect,
            count,
        });
    }

    /// What software did so far that it must not do.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.lock().faults.violations().to_vec()
    }
}

impl Hca for SimHca {
    fn create(&self, request: &Request) -> Result<QueuePair, Error> {
        create::create(&self.shared, &self.allocator, request)
    }

    fn connect(&self, local: Endpoint, peer: Endpoint, timeout: RetryPolicy) -> Result<(), Error> {
        let mut state = self.shared.lock();
        if !state.links.contains_key(&peer.lid) {
            return Err(Error::Unreachable { lid: peer.lid });
        }
        let qpn = local.qpn;
        let pair = state
            .pairs
            .get_mut(&qpn)
            .ok_or(Error::NoQueuePair { qpn })?;
        pair.connect(peer, timeout);
        drop(state);
        self.shared.inbox.wake();
        Ok(())
    }

    fn register(&self, place: &Place, access: Access) -> Result<MemoryRegion, Error> {
        let key = self.shared.lock().regions.add(place.clone(), access);
        let registered = region::Registered::new(Arc::clone(&self.shared), key);
        Ok(MemoryRegion::new(place, key, key, Box::new(registered)))
    }
}

impl Drop for SimHca {
    fn drop(&mut self) {
        self.shared.inbox.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}
