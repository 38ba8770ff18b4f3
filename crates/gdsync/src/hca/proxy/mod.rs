//! The HCA of machines where the GPU cannot ring a NIC's doorbell: a CPU thread watches the doorbell words of software's queues, posts
//! what their entries ask for to an ordinary verbs queue pair, and writes what verbs complete as real completion entries. So a stream
//! sends and waits by the same writes and waits as with a NIC, of any make, Soft-RoCE included.
//!
//! [`ProxyHca`] makes queue pairs, connects them and registers memory; an [`Agent`] serves queue pairs that a C program connects and
//! registers memory for itself.
//!
//! A reliable connection behind each queue pair; no datagrams. Keys of entries are the keys of verbs. What entries ask for that
//! verbs cannot be asked (memory that is not registered here, more pieces than the device takes) completes with the syndrome that
//! a NIC would write, in its turn. After an error all that is in progress is flushed, and what is rung later too: no stream waits for
//! what does not come. A request that the device itself never completes is the [`Watchdog`](crate::Watchdog)'s business.
//!
//! It differs from a NIC in this: a receive of memory that is not registered fails when it would be the next, not when a
//! message arrives; a completion of a receive does not tell whether the sender asked for an event; of GPU memory the remote side reaches
//! the whole allocation; memory that a queue pair was given work with stays registered, for the remote side too, until that queue pair is
//! dropped; [`RetryPolicy::pause`] is the device's own.

mod agent;
mod completions;
mod create;
mod engine;
mod pair;
mod receives;
mod region;
mod sends;
mod syndrome;

pub use super::port::{Error, Options};
pub use agent::{Adopted, Agent, BorrowedQueues};

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inbox::Inbox;
use super::port::Port;
use super::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use crate::{Allocator, Place};
use engine::Engine;
use pair::{Link, Pair};
use region::{Known, MemoryRegions};

/// An HCA by proxy. Dropped, its thread ends: what was rung and posted is flushed, and what is rung after that is heard no more.
#[derive(Debug)]
pub struct ProxyHca {
    engine: Engine,
    port: Port,
    allocator: Allocator,
}

/// What the thread, the queue pairs and the regions share.
#[derive(Debug)]
struct Shared {
    /// Whom the thread asks whether it has failed. None where its events are somebody else's to take.
    device: Option<verbs::Context>,
    /// Wakes the thread; nothing is sent by it.
    bell: Inbox<Infallible>,
    state: Mutex<State>,
}

/// What the thread works on, and what those who make and destroy queue pairs change.
#[derive(Debug, Default)]
struct State {
    /// By a number of their own: verbs give a queue pair's number again once it is destroyed.
    pairs: BTreeMap<u64, Pair>,
    next: u64,
    regions: MemoryRegions,
}

impl Shared {
    /// A panic elsewhere leaves at worst an entry without its completion.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All queue pairs fail.
    fn give_up(&mut self) {
        for pair in self.pairs.values_mut().filter(|pair| !pair.failed) {
            completions::fail(pair);
        }
    }
}

impl ProxyHca {
    /// An HCA on a port of an open device, whose queues are made of `allocator`. The device's events are taken by its thread.
    ///
    /// # Errors
    ///
    /// [`Error::PortDown`], [`Error::NoGid`], [`Error::Verbs`]; [`crate::Error::Thread`].
    pub fn open(
        allocator: Allocator,
        context: &verbs::Context,
        options: Options,
    ) -> Result<Self, crate::Error> {
        let port = Port::open(context, options)?;
        let engine = Engine::start(&format!("proxy {}", context.name()), Some(context.clone()))?;
        Ok(Self {
            engine,
            port,
            allocator,
        })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.engine.shared
    }

    /// The queue pair of this number that is connected to nobody, for who connects it.
    fn take(
        &self,
        qpn: u32,
    ) -> Result<(u64, Endpoint, verbs::QueuePair<verbs::Init>), crate::Error> {
        let mut state = self.shared().lock();
        let mut known = false;
        for (&number, pair) in state
            .pairs
            .iter_mut()
            .filter(|(_, pair)| pair.endpoint.qpn == qpn)
        {
            known = true;
            match std::mem::replace(&mut pair.link, Link::Connecting) {
                Link::Init(link) => return Ok((number, pair.endpoint, link)),
                other => pair.link = other,
            }
        }
        Err(match known {
            true => Error::Spent { qpn }.into(),
            false => crate::Error::NoQueuePair { qpn },
        })
    }
}

impl Hca for ProxyHca {
    fn create(&self, request: &Request) -> Result<QueuePair, crate::Error> {
        create::create(self.shared(), &self.port, &self.allocator, request)
    }

    fn connect(
        &self,
        own: Endpoint,
        peer: Endpoint,
        timeout: RetryPolicy,
    ) -> Result<(), crate::Error> {
        let path = self.port.check(peer)?;
        let (number, own, link) = self.take(own.qpn)?;
        // Without the lock: the way to the remote side may have to be found first.
        let psn = own.path.map_or(0, |path| path.psn);
        let connected = self.port.join(link, psn, (peer, path), timeout);
        let mut state = self.shared().lock();
        let Some(pair) = state.pairs.get_mut(&number) else {
            return Err(crate::Error::NoQueuePair { qpn: own.qpn });
        };
        let outcome = match connected {
            Ok(link) if !pair.failed => {
                pair.link = Link::Ready(link);
                pair.peer = peer.qpn;
                Ok(())
            }
            Ok(_) => Err(Error::Spent { qpn: own.qpn }.into()),
            // What verbs have of it is gone.
            Err(error) => {
                completions::fail(pair);
                Err(error.into())
            }
        };
        drop(state);
        self.shared().bell.wake();
        outcome
    }

    fn register(&self, place: &Place, access: Access) -> Result<MemoryRegion, crate::Error> {
        let known = Known::register(&self.port.domain, place, access)?;
        let (local, remote) = (known.region.lkey(), known.region.remote().rkey);
        self.shared().lock().regions.add(known);
        let registered = region::Registered::new(Arc::clone(self.shared()), local);
        Ok(MemoryRegion::new(
            place,
            local,
            remote,
            Box::new(registered),
        ))
    }
}
