//! The HCA for machines where the GPU cannot ring a NIC's doorbell. A CPU thread polls the doorbells of software's queues, posts
//! the WQEs to an ordinary verbs queue pair, and writes verbs completions as CQEs. Streams send and wait as with a NIC, on any
//! verbs device, including Soft-RoCE.
//!
//! [`ProxyHca`] creates and connects queue pairs and registers memory; an [`Agent`] serves queue pairs that a C program connects
//! and registers memory for itself.
//!
//! Queue pairs are reliable connections, or send datagrams: an [`Agent`] to the program's address handles. Keys in WQEs are verbs keys. A WQE that verbs cannot post
//! (unregistered memory, too many SGEs) completes in order with the syndrome that a NIC would write. After an error all current
//! and later work is flushed, so no stream waits forever. For a work request that the device never completes, use the
//! [`Watchdog`](crate::Watchdog).
//!
//! Differences from a NIC: a receive into unregistered memory fails when it is the next one, not when a message arrives; receive
//! CQEs do not report solicited events; the remote side can access the whole allocation of GPU memory; memory used by a queue pair
//! stays registered, also for the remote side, until that queue pair is dropped; [`RetryPolicy::pause`] is chosen by the device.

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
pub use agent::{Agent, BorrowedQueues, ServedPair};

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inbox::Inbox;
use super::port::Port;
use super::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use crate::wire::Datagram;
use crate::{Allocator, MappedMemory};
use engine::Engine;
use pair::{AddressHandle, Link, ProxyQueuePair};
use region::{MemoryRegions, Region};

/// A proxy HCA. Dropping it ends its thread, flushes posted work and ignores later doorbells.
#[derive(Debug)]
pub struct ProxyHca {
    engine: Engine,
    port: Port,
    allocator: Allocator,
}

/// State shared by the thread, the queue pairs and the regions.
#[derive(Debug)]
struct Shared {
    /// The device whose events the thread reads; `None` if the program reads them.
    device: Option<verbs::Context>,
    /// Wakes the thread; carries no messages.
    bell: Inbox<Infallible>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Not by QPN: verbs reuse the QPN of a destroyed queue pair.
    pairs: BTreeMap<u64, ProxyQueuePair>,
    next: u64,
    regions: MemoryRegions,
}

impl Shared {
    /// Ignores poisoning: a panic elsewhere can at worst lose one CQE.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Fails all queue pairs.
    fn fail_all(&mut self) {
        for pair in self.pairs.values_mut().filter(|pair| !pair.failed) {
            completions::fail(pair);
        }
    }
}

impl ProxyHca {
    /// Opens an HCA on a port of a device, with queues in `allocator`'s memory. Its thread reads the device's events.
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
        Ok(Self { engine, port, allocator })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.engine.shared
    }

    /// Takes the unconnected queue pair with this QPN, to connect it.
    fn take(
        &self,
        qpn: u32,
    ) -> Result<(u64, Endpoint, verbs::QueuePair<verbs::Init>), crate::Error> {
        let mut state = self.shared().lock();
        let mut found = false;
        for (&number, pair) in state.pairs.iter_mut().filter(|(_, pair)| pair.endpoint.qpn == qpn) {
            found = true;
            match std::mem::replace(&mut pair.link, Link::Connecting) {
                Link::Init(link) => return Ok((number, pair.endpoint, link)),
                other => pair.link = other,
            }
        }
        Err(if found { Error::Spent { qpn }.into() } else { crate::Error::NoQueuePair { qpn } })
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
        // Without the lock: path resolution may take long.
        let psn = own.path.map_or(0, |path| path.psn);
        let connected = self.port.connect(link, psn, (peer, path), timeout);
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
            // The verbs queue pair is gone.
            Err(error) => {
                completions::fail(pair);
                Err(error.into())
            }
        };
        drop(state);
        self.shared().bell.wake();
        outcome
    }

    fn stop(&self, local: Endpoint) -> Result<(), crate::Error> {
        let mut state = self.shared().lock();
        let mut pairs = state.pairs.values_mut();
        let qpn = local.qpn;
        // The newest: the endpoint of a failed one may have the same QPN.
        let pair = pairs.rfind(|pair| pair.endpoint == local);
        completions::fail(pair.ok_or(crate::Error::NoQueuePair { qpn })?);
        drop(state);
        self.shared().bell.wake();
        Ok(())
    }

    fn datagram(
        &self,
        local: Endpoint,
        remote: Endpoint,
        key: u32,
    ) -> Result<Datagram, crate::Error> {
        // Without the lock: path resolution may take long.
        let handle = self.port.datagram(remote, key)?;
        let mut state = self.shared().lock();
        let qpn = local.qpn;
        let mut pairs = state.pairs.values_mut();
        let pair = pairs.find(|pair| pair.endpoint.qpn == qpn);
        let pair = pair.ok_or(crate::Error::NoQueuePair { qpn })?;
        Ok(Datagram {
            qpn: remote.qpn,
            key,
            path: pair.address(|_| false, || AddressHandle::Own(handle)),
        })
    }

    fn register(&self, place: &MappedMemory, access: Access) -> Result<MemoryRegion, crate::Error> {
        let region = Region::register(&self.port.domain, place, access)?;
        let (lkey, rkey) = (region.region.lkey(), region.region.remote().rkey);
        self.shared().lock().regions.add(region);
        let guard = region::DeregisterGuard::new(Arc::clone(self.shared()), lkey);
        Ok(MemoryRegion::new(place, lkey, rkey, Box::new(guard)))
    }
}
