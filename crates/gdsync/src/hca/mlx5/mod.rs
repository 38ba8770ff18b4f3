//! A NIC: queue pairs of an mlx5 device whose rings, records and doorbell registers the GPU accesses directly.
//!
//! Verbs create the queue pair in a thread domain, so its doorbell register (UAR) is not shared with other code. The provider
//! reports the memory ([`verbs::QueuePair::layout`]), and from then on [`queue`](crate::queue) drives the queues instead of
//! verbs. CQEs have 64 bytes, without scatter to CQE or compression, which are the defaults of verbs.
//!
//! Rings and records are host memory registered with the GPU. The register is a page of the device, which the GPU's driver maps
//! only with `PeerMappingOverride` or for a process with `CAP_SYS_ADMIN` ([`Error::Register`]).
//! If queues, records or completions are in GPU memory, DEVX creates the queue pair instead (`own`). There is no fallback: if NIC or
//! kernel do not support that, creation fails.

mod address;
mod create;
pub mod own;
mod queues;

pub use address::datagram;
pub use queues::{Queues, wrap};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use verbs::devx::{Devx, QueuePair as DevxPair};
use verbs::{Context, Direct, Init, ProtectionDomain, QueuePair as Verbs, Rts};

use super::port::{Error, Options, Port, failed, register};
use super::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use crate::wire::Datagram;
use crate::{Allocator, MappedMemory};

/// A port of an mlx5 device.
#[derive(Debug)]
pub struct Mlx5Hca {
    shared: Arc<Shared>,
    allocator: Allocator,
}

/// State shared by the queue pairs.
#[derive(Debug)]
struct Shared {
    port: Port,
    /// The port's protection domain, in a thread domain.
    domain: ProtectionDomain,
    /// Opened for the first queues in GPU memory.
    devx: OnceLock<Devx>,
    /// Number of queue pairs created by DEVX.
    created: AtomicU32,
    /// By QPN. A queue pair is destroyed with the last place of it.
    links: Mutex<BTreeMap<u32, Link>>,
}

/// The driver's part of a queue pair.
#[derive(Debug)]
enum Link {
    Init(Verbs<Init, Direct>),
    Devx(DevxPair<Init>),
    /// A thread connects it.
    Connecting,
    Ready {
        link: Verbs<Rts, Direct>,
    },
    DevxReady {
        link: DevxPair<Rts>,
    },
    /// Connecting it failed.
    Gone,
}

impl Shared {
    fn devx(&self) -> Result<Devx, crate::Error> {
        if let Some(devx) = self.devx.get() {
            return Ok(devx.clone());
        }
        let devx = Devx::of(self.port.domain.context());
        let devx =
            devx.map_err(verbs_failed("use DEVX commands, which queues in GPU memory need"))?;
        Ok(self.devx.get_or_init(|| devx).clone())
    }

    /// The user index of the next queue pair: 24 bits.
    fn next_index(&self) -> u32 {
        self.created.fetch_add(1, Ordering::Relaxed) & 0xff_ffff
    }

    /// Ignores poisoning: every change of the map is one step.
    fn links(&self) -> MutexGuard<'_, BTreeMap<u32, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mlx5Hca {
    /// Opens a port of a device, for the streams of `allocator`'s GPU.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`], [`Error::PortDown`], [`Error::NoGid`], [`Error::Verbs`].
    pub fn open(
        allocator: Allocator,
        context: &Context,
        options: Options,
    ) -> Result<Self, crate::Error> {
        if !context.is_mlx5() {
            let device = context.name().to_owned();
            return Err(Error::NotMlx5 { device }.into());
        }
        let port = Port::open(context, options)?;
        // Without a thread domain, queue pairs share registers with others, which is only slower.
        let domain = port.domain.of_one_thread().unwrap_or_else(|_| port.domain.clone());
        let shared = Shared {
            port,
            domain,
            devx: OnceLock::new(),
            created: AtomicU32::new(1),
            links: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), allocator })
    }
}

impl Hca for Mlx5Hca {
    fn create(&self, request: &Request) -> Result<QueuePair, crate::Error> {
        create::create(&self.shared, &self.allocator, request)
    }

    fn connect(
        &self,
        given: Endpoint,
        peer: Endpoint,
        timeout: RetryPolicy,
    ) -> Result<(), crate::Error> {
        let qpn = given.qpn;
        let path = self.shared.port.check(peer)?;
        let taken = match self.shared.links().get_mut(&qpn) {
            None => return Err(crate::Error::NoQueuePair { qpn }),
            Some(link @ (Link::Init(_) | Link::Devx(_))) => {
                std::mem::replace(link, Link::Connecting)
            }
            Some(_) => return Err(Error::Spent { qpn }.into()),
        };
        // Without the lock: path resolution may take long.
        let psn = given.path.map_or(0, |path| path.psn);
        let port = &self.shared.port;
        let connected = match taken {
            Link::Init(link) => {
                port.connect(link, psn, (peer, path), timeout).map(|link| Link::Ready { link })
            }
            Link::Devx(link) => port
                .connect_devx(link, psn, (peer, path), timeout)
                .map(|link| Link::DevxReady { link }),
            _ => Err(Error::Spent { qpn }),
        };
        let (link, outcome) = match connected {
            Ok(link) => (link, Ok(())),
            Err(error) => (Link::Gone, Err(error.into())),
        };
        // It may have been destroyed meanwhile.
        if let Some(place) = self.shared.links().get_mut(&qpn) {
            *place = link;
        }
        outcome
    }

    fn stop(&self, local: Endpoint) -> Result<(), crate::Error> {
        let qpn = local.qpn;
        let failed = match self.shared.links().get_mut(&qpn) {
            None => return Err(crate::Error::NoQueuePair { qpn }),
            Some(Link::Init(link)) => link.fail(),
            Some(Link::Devx(link)) => link.fail(),
            Some(Link::Ready { link }) => link.fail(),
            Some(Link::DevxReady { link }) => link.fail(),
            // No WQE of it was sent.
            Some(Link::Connecting | Link::Gone) => Ok(()),
        };
        failed.map_err(verbs_failed("move a queue pair to the error state"))
    }

    fn datagram(&self, _: Endpoint, remote: Endpoint, key: u32) -> Result<Datagram, crate::Error> {
        // The address does not depend on the handle.
        datagram(&self.shared.port.datagram(remote, key)?)
    }

    fn register(&self, place: &MappedMemory, access: Access) -> Result<MemoryRegion, crate::Error> {
        let (region, _) = register(&self.shared.port.domain, place, access)?;
        let (local, remote) = (region.lkey(), region.remote().rkey);
        Ok(MemoryRegion::new(place, local, remote, Box::new(region)))
    }
}

fn no_recordless_queues(context: &Context, why: String) -> crate::Error {
    let device = context.name().to_owned();
    Error::NoRecordlessQueues { device, why }.into()
}

fn gpu_failed(operation: &'static str) -> impl FnOnce(gpu::Error) -> crate::Error {
    move |source| crate::Error::Gpu { operation, source }
}

fn verbs_failed(operation: &'static str) -> impl FnOnce(verbs::Error) -> crate::Error {
    move |source| failed(operation)(source).into()
}
