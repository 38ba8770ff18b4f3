//! A simulated HCA: a thread polls doorbell registers in memory, reads doorbell records and WQEs,
//! copies bytes between registered memory and writes CQEs.
//!
//! Like a NIC it checks keys, bounds and access rights, retries messages without a posted receive,
//! and flushes a queue pair after an error. Each queue pair runs one request at a time, so every
//! fence holds. Datagrams without a receiver are lost, as on a NIC.
//!
//! Connect two HCAs of one process with [`SimHca::join`], of two with [`socket::join`], or
//! implement [`Link`] and deliver messages to the other [inbox](SimHca::inbox).
//!
//! Tests can [inject](SimHca::inject) NIC errors and read [violations](SimHca::violations).
//!
//! ```
//! use gdsync::hca::sim::SimHca;
//! use gdsync::hca::{Access, Hca, RetryPolicy, Request};
//! use gdsync::wire::Wqe;
//! use gdsync::{MemoryLocation, Allocator};
//! use gpu::Gpu;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let allocator = Allocator::new(Gpu::sim(), None);
//! let hca = SimHca::new(allocator.clone())?;
//! let mut pair = hca.create(&Request::default())?;
//! hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())?;
//! let memory = allocator.place(MemoryLocation::Host, 4096)?;
//! let region = hca.register(&memory, Access::ALL)?;
//!
//! let entry = Wqe::write(region.remote(100), &[]).inline(b"written").signalled();
//! let prepared = pair.send.prepare(&entry)?;
//! let wait = pair.send_completions.take_wait()?;
//! // A stream rings the doorbell, and waits for the completion.
//! let stream = allocator.gpu().stream()?;
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
pub use link::{Answer, Body, Gone, LONGEST_DATAGRAM, Link, Message, RemoteError, RemoteOperation};

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::inbox::Inbox;
use super::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy, completer};
use crate::wire::{AddressVector, Datagram, Transport};
use crate::{Allocator, Error, MappedMemory};
use fault::Injection;
use state::State;

/// A simulated HCA. Dropping it ends its thread, flushes posted work, ignores later doorbells and
/// notifies the remote HCAs.
#[derive(Debug)]
pub struct SimHca {
    shared: Arc<Shared>,
    allocator: Allocator,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the thread, the queue pairs and the regions.
#[derive(Debug)]
struct Shared {
    lid: u16,
    inbox: Arc<Inbox<Message>>,
    state: Mutex<State>,
}

impl Shared {
    /// Ignores poisoning: a panic elsewhere can at worst lose one CQE.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimHca {
    /// Creates an HCA with one port, with queues in `allocator`'s memory. It can connect to itself.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn new(allocator: Allocator) -> Result<Self, Error> {
        static LIDS: AtomicU16 = AtomicU16::new(1);
        Self::with_lid(allocator, LIDS.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates an HCA with this LID, which must differ from those of linked HCAs. [`SimHca::new`]
    /// counts from 1 in each process.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn with_lid(allocator: Allocator, lid: u16) -> Result<Self, Error> {
        let inbox = Arc::new(Inbox::default());
        let mut state = State::new(lid);
        state.links.insert(lid, Arc::clone(&inbox) as Arc<dyn Link>);
        let shared = Arc::new(Shared { lid, inbox, state: Mutex::new(state) });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("sim HCA {lid}"))
            .spawn(move || engine::serve(&served))
            .map_err(Error::Thread)?;
        Ok(Self { shared, allocator, thread: Some(thread) })
    }

    /// The LID of the port.
    #[must_use]
    pub fn lid(&self) -> u16 {
        self.shared.lid
    }

    /// Connects two HCAs of this process.
    pub fn join(&self, other: &Self) {
        self.link(other.lid(), other.inbox());
        other.link(self.lid(), self.inbox());
    }

    /// Routes messages for port `lid` over `link`, replacing an earlier route.
    pub fn link(&self, lid: u16, link: Arc<dyn Link>) {
        self.shared.lock().links.insert(lid, link);
    }

    /// Receives messages for this HCA.
    #[must_use]
    pub fn inbox(&self) -> Arc<dyn Link> {
        Arc::clone(&self.shared.inbox) as Arc<dyn Link>
    }

    /// Applies `effect` once to queue pair `qpn`, after skipping `after` WQEs that match it.
    pub fn inject(&self, qpn: u32, after: u32, effect: Effect) {
        let mut state = self.shared.lock();
        let count = match effect {
            Effect::Behind { qpn } => state.pairs.get(&qpn).map_or(0, |other| other.completed + 1),
            _ => 0,
        };
        state.faults.inject(Injection { qpn, after, effect, count });
    }

    /// Software errors detected so far.
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
        let pair = state.pairs.get_mut(&qpn).ok_or(Error::NoQueuePair { qpn })?;
        if pair.transport == Transport::Datagram {
            return Err(super::port::Error::Spent { qpn }.into());
        }
        pair.connect(peer, timeout);
        drop(state);
        self.shared.inbox.wake();
        Ok(())
    }

    fn stop(&self, local: Endpoint) -> Result<(), Error> {
        let mut state = self.shared.lock();
        let qpn = local.qpn;
        let pair = state.pairs.get_mut(&qpn).ok_or(Error::NoQueuePair { qpn })?;
        failure::fail(pair);
        drop(state);
        self.shared.inbox.wake();
        Ok(())
    }

    fn datagram(&self, local: Endpoint, remote: Endpoint, key: u32) -> Result<Datagram, Error> {
        let state = self.shared.lock();
        let (qpn, lid) = (local.qpn, remote.lid);
        if !state.pairs.contains_key(&qpn) {
            return Err(Error::NoQueuePair { qpn });
        }
        if !state.links.contains_key(&lid) {
            return Err(Error::Unreachable { lid });
        }
        let path = AddressVector::infiniband(lid, 0, 0, 0, None);
        let qpn = remote.qpn;
        Ok(Datagram { qpn, key, path })
    }

    fn register(&self, place: &MappedMemory, access: Access) -> Result<MemoryRegion, Error> {
        if !place.is_mapped() {
            return Err(Error::NoMapping);
        }
        let key = self.shared.lock().regions.add(place.clone(), access);
        let guard = region::DeregisterGuard::new(Arc::clone(&self.shared), key);
        Ok(MemoryRegion::new(place, key, key, Box::new(guard)))
    }
}

impl Drop for SimHca {
    fn drop(&mut self) {
        self.shared.inbox.close();
        if let Some(thread) = self.thread.take() {
            // Ignored: a panicked thread needs no further handling.
            let _ = thread.join();
        }
    }
}
