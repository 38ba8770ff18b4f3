//! A NIC: queue pairs of an mlx5 device whose rings, records and doorbell registers the GPU reaches itself.
//!
//! A queue pair is verbs' own, in a domain of one thread, whose register is that of this HCA's queue pairs alone; where its memory lies
//! the provider tells ([`verbs::QueuePair::layout`]), and from then on [`queue`](crate::queue) drives it, and verbs do not. The completion
//! queues are marked as never written before anything can complete. Completion entries have 64 bytes and all payloads go to where
//! entries say (no scatter to CQE); nothing is compressed, which is verbs' default.
//!
//! Rings and records are host memory and registered with the GPU; the register is a page of the device's, which the GPU's driver maps
//! with `PeerMappingOverride` or for a process with `CAP_SYS_ADMIN` alone ([`Error::Register`]).
//! With queues, records or completions in GPU memory a queue pair is made by the NIC's firmware instead (`own`), where the NIC and the
//! kernel allow it; and where they do not, that is an error, and the same request for host memory goes by verbs.

mod address;
mod create;
mod lay;
mod own;

pub use address::datagram;
pub use lay::{Laid, lay_out};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use verbs::devx::{Devx, QueuePair as Own};
use verbs::{Context, Direct, Init, ProtectionDomain, QueuePair as Verbs, Rts};

use super::port::{Error, Options, Port, failed, register};
use super::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use crate::{Allocator, Place};

/// A port of an mlx5 device.
#[derive(Debug)]
pub struct Mlx5Hca {
    shared: Arc<Shared>,
    allocator: Allocator,
}

/// What queue pairs share.
#[derive(Debug)]
struct Shared {
    port: Port,
    /// The port's domain, for one thread's queue pairs.
    domain: ProtectionDomain,
    /// The NIC's firmware, once queues in GPU memory were asked for.
    firmware: OnceLock<Devx>,
    /// How many of them were.
    made: AtomicU32,
    /// By number. Dropped, a queue pair is destroyed with the last place of it.
    links: Mutex<BTreeMap<u32, Link>>,
}

/// What verbs have of a queue pair.
#[derive(Debug)]
enum Link {
    Init(Verbs<Init, Direct>),
    /// The same of one that the firmware made.
    Own(Own<Init>),
    /// Somebody connects it.
    Connecting,
    Ready {
        _link: Verbs<Rts, Direct>,
    },
    OwnReady {
        _link: Own<Rts>,
    },
    /// Connecting it failed.
    Gone,
}

impl Shared {
    fn devx(&self) -> Result<Devx, crate::Error> {
        if let Some(devx) = self.firmware.get() {
            return Ok(devx.clone());
        }
        let devx = Devx::of(self.port.domain.context());
        let devx = devx.map_err(verbs_failed(
            "command the NIC's firmware (DEVX), which makes queues in GPU memory",
        ))?;
        Ok(self.firmware.get_or_init(|| devx).clone())
    }

    /// By which number completions name the next queue pair: 24 bits.
    fn next_index(&self) -> u32 {
        self.made.fetch_add(1, Ordering::Relaxed) & 0xff_ffff
    }

    /// Whole at every moment.
    fn links(&self) -> MutexGuard<'_, BTreeMap<u32, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mlx5Hca {
    /// A port of an open device, for the streams of `allocator`'s GPU.
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
        // Without one its queue pairs share registers with others, which costs time and nothing else.
        let domain = port
            .domain
            .of_one_thread()
            .unwrap_or_else(|_| port.domain.clone());
        let shared = Shared {
            port,
            domain,
            firmware: OnceLock::new(),
            made: AtomicU32::new(1),
            links: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            allocator,
        })
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
            Some(link @ (Link::Init(_) | Link::Own(_))) => {
                std::mem::replace(link, Link::Connecting)
            }
            Some(_) => return Err(Error::Spent { qpn }.into()),
        };
        // Without the lock: the way to the remote side may have to be found first.
        let psn = given.path.map_or(0, |path| path.psn);
        let port = &self.shared.port;
        let connected = match taken {
            Link::Init(link) => port
                .join(link, psn, (peer, path), timeout)
                .map(|link| Link::Ready { _link: link }),
            Link::Own(link) => port
                .join_own(link, psn, (peer, path), timeout)
                .map(|link| Link::OwnReady { _link: link }),
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

    fn register(&self, place: &Place, access: Access) -> Result<MemoryRegion, crate::Error> {
        let (region, _) = register(&self.shared.port.domain, place, access)?;
        let (local, remote) = (region.lkey(), region.remote().rkey);
        Ok(MemoryRegion::new(place, local, remote, Box::new(region)))
    }
}

/// What a place of a queue pair could not be had for.
fn gpu_failed(operation: &'static str) -> impl FnOnce(gpu::Error) -> crate::Error {
    move |source| crate::Error::Gpu { operation, source }
}

fn verbs_failed(operation: &'static str) -> impl FnOnce(verbs::Error) -> crate::Error {
    move |source| failed(operation)(source).into()
}
