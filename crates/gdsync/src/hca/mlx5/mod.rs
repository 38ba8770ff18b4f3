//! A card: queue pairs of an mlx5 device whose rings, records and doorbell registers the GPU reaches itself.
//!
//! A queue pair is verbs' own, in a domain of one thread, so that nobody else rings its register; where its memory lies the provider
//! tells ([`verbs::QueuePair::direct`]), and from then on [`queue`](crate::queue) drives it, and verbs do not. The completion
//! queues are marked as never written before anything can complete. Completion entries have 64 bytes and all payloads go to where
//! entries say (no scatter to CQE); nothing is compressed, which is verbs' default.
//!
//! Rings and records are host memory and registered with the GPU; the register is a page of the device's, which the GPU's driver maps
//! with `PeerMappingOverride` or for a process with `CAP_SYS_ADMIN` alone ([`Error::Register`](crate::hca::port::Error::Register)).
//! Queues in GPU memory are not made here.

mod create;
mod lay;

pub use lay::{Laid, lay_out};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verbs::{Context, Domain, Init, QueuePair as Verbs, Rts};

use super::port::{Error, Options, Port, failed, register};
use super::{Access, Endpoint, Hca, Patience, QueuePair, Region, Request};
use crate::{Place, Supply};

/// A port of an mlx5 device.
#[derive(Debug)]
pub struct Mlx5Hca {
    shared: Arc<Shared>,
    supply: Supply,
}

/// What queue pairs share.
#[derive(Debug)]
struct Shared {
    port: Port,
    /// The port's domain, for one thread's queue pairs.
    domain: Domain,
    /// By number. Dropped, a queue pair is destroyed with the last place of it.
    links: Mutex<BTreeMap<u32, Link>>,
}

/// What verbs have of a queue pair.
#[derive(Debug)]
enum Link {
    Init(Verbs<Init>),
    /// Somebody connects it.
    Connecting,
    Ready {
        _link: Verbs<Rts>,
    },
    /// Connecting it failed.
    Gone,
}

impl Shared {
    /// Whole at every moment.
    fn links(&self) -> MutexGuard<'_, BTreeMap<u32, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mlx5Hca {
    /// A port of an open device, for the streams of `supply`'s GPU.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`], [`Error::PortDown`], [`Error::NoGid`], [`Error::Verbs`].
    pub fn open(supply: Supply, context: &Context, options: Options) -> Result<Self, crate::Error> {
        if !context.is_mlx5() {
            let device = context.name().to_owned();
            return Err(Error::NotMlx5 { device }.into());
        }
        let port = Port::open(context, options)?;
        // Without one its queue pairs share registers with others, which costs time and nothing else.
        let domain = port.domain.of_one_thread().unwrap_or_else(|_| port.domain.clone());
        let shared = Shared {
            port,
            domain,
            links: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            supply,
        })
    }
}

impl Hca for Mlx5Hca {
    fn create(&self, request: &Request) -> Result<QueuePair, crate::Error> {
        create::create(&self.shared, &self.supply, request)
    }

    fn connect(&self, near: Endpoint, far: Endpoint, patience: Patience) -> Result<(), crate::Error> {
        let qpn = near.qpn;
        let path = self.shared.port.check(far)?;
        let taken = match self.shared.links().get_mut(&qpn) {
            None => return Err(crate::Error::NoQueuePair { qpn }),
            Some(link @ Link::Init(_)) => std::mem::replace(link, Link::Connecting),
            Some(_) => return Err(Error::Spent { qpn }.into()),
        };
        let Link::Init(link) = taken else {
            return Err(Error::Spent { qpn }.into());
        };
        // Without the lock: the way to the far side may have to be found first.
        let first_packet = near.path.map_or(0, |path| path.first_packet);
        let joined = self.shared.port.join(link, first_packet, (far, path), patience);
        let (link, outcome) = match joined {
            Ok(link) => (Link::Ready { _link: link }, Ok(())),
            Err(error) => (Link::Gone, Err(error.into())),
        };
        // It may have been destroyed meanwhile.
        if let Some(place) = self.shared.links().get_mut(&qpn) {
            *place = link;
        }
        outcome
    }

    fn register(&self, place: &Place, access: Access) -> Result<Region, crate::Error> {
        let (region, _) = register(&self.shared.port.domain, place, access)?;
        let (local, remote) = (region.local_key(), region.remote().rkey);
        Ok(Region::new(place, local, remote, Box::new(region)))
    }
}

/// What a place of a queue pair could not be had for.
fn gpu_failed(operation: &'static str) -> impl FnOnce(gpu::Error) -> crate::Error {
    move |source| crate::Error::Gpu { operation, source }
}

/// Verbs failed.
fn verbs_failed(operation: &'static str) -> impl FnOnce(verbs::Error) -> crate::Error {
    move |source| failed(operation)(source).into()
}
