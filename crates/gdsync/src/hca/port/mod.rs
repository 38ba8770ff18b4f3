//! The port of a verbs device: creates and connects queue pairs, for a NIC and for the proxy.

mod error;
mod region;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use verbs::{
    Access, Address, Behaviour, CompletionQueue, Context, Datagram, Gid, Init, LinkLayer, MAX_SGES,
    Peer, PortState, ProtectionDomain, QueuePair, QueuePairOptions, Reset, Route, Rts, Transport,
    devx,
};

pub use error::Error;
pub(in crate::hca) use error::failed;
pub(in crate::hca) use region::register;

use super::{Endpoint, Path, Request, RetryPolicy};
use crate::wire;

/// Port of a device and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The port, from 1.
    pub port: u8,
    /// GID index. Without one, RoCE uses [`verbs::Gid::best`] and InfiniBand no GID.
    pub gid_index: Option<u8>,
    /// Local ACK timeout: an unanswered packet is resent after 4.096 µs × 2^timeout, up to seven times.
    pub timeout: u8,
}

impl Default for Options {
    /// The first port, its best GID, and a timeout of 18: about one second.
    fn default() -> Self {
        Self { port: 1, gid_index: None, timeout: 18 }
    }
}

#[derive(Debug)]
pub(in crate::hca) struct Port {
    pub domain: ProtectionDomain,
    options: Options,
    lid: u16,
    /// Always on Ethernet; on InfiniBand if requested.
    gid: Option<Gid>,
    mtu: u32,
    reads: u8,
    /// Limit of outstanding work requests per queue.
    requests: u32,
    /// Limit of SGEs in a request.
    sges: u32,
}

/// A verbs queue pair with its completion queues.
pub(in crate::hca) struct VerbsPair<L> {
    pub link: L,
    pub sent: CompletionQueue,
    pub received: CompletionQueue,
    pub room: Room,
}

/// Depths of a verbs queue pair, in work requests.
#[derive(Debug, Clone, Copy)]
pub(in crate::hca) struct Room {
    pub sends: u32,
    pub receives: u32,
}

impl<L> VerbsPair<L> {
    pub(in crate::hca) fn try_map<T, E>(
        self,
        link: impl FnOnce(L) -> Result<T, E>,
    ) -> Result<VerbsPair<T>, E> {
        Ok(VerbsPair {
            link: link(self.link)?,
            sent: self.sent,
            received: self.received,
            room: self.room,
        })
    }
}

/// Outstanding RDMA reads to request: the limit of most NICs.
const READS: u8 = 16;
/// PSNs have 24 bits.
const PSN: u32 = 0xff_ffff;
const TO_INIT: &str = "move a queue pair to INIT";
const TO_RTR: &str = "connect a queue pair with the remote side";
const TO_RTS: &str = "make a queue pair ready to send";
/// RNR retry count that NICs treat as unlimited.
const UNLIMITED: u8 = 7;

/// The remote end of datagrams: none.
const NO_PEER: Peer = Peer { address: Address { lid: 0, gid: None }, queue_pair: 0, psn: 0 };

/// The transport for verbs.
pub(in crate::hca) fn transport(request: &Request) -> Transport {
    match request.transport {
        wire::Transport::Connected => Transport::Rc,
        wire::Transport::Datagram => Transport::Ud,
    }
}

impl Port {
    pub(in crate::hca) fn open(context: &Context, options: Options) -> Result<Self, Error> {
        let (number, device) = (options.port, || context.name().to_owned());
        let found = context.port(number).map_err(failed("query the port"))?;
        if found.state != PortState::Active {
            let (device, port, state) = (device(), number, found.state);
            return Err(Error::PortDown { device, port, state });
        }
        let limits = context.limits().map_err(failed("query the device's limits"))?;
        let ethernet = found.link_layer == LinkLayer::Ethernet;
        let gid = if ethernet || options.gid_index.is_some() {
            let table = context.gids(found.gids).map_err(failed("read the port's GIDs"))?;
            let gid = match options.gid_index {
                Some(index) => table
                    .into_iter()
                    .find(|gid| (gid.port, gid.index) == (number.into(), index.into())),
                None => Gid::best(&table, number),
            };
            let index = options.gid_index;
            Some(gid.ok_or_else(|| Error::NoGid { device: device(), port: number, index })?)
        } else {
            None
        };
        Ok(Self {
            domain: context.domain().map_err(failed("allocate a protection domain"))?,
            options,
            lid: found.lid,
            gid,
            mtu: found.active_mtu.unwrap_or(1024),
            reads: limits.reads.clamp(1, READS),
            requests: u32::try_from(limits.requests).unwrap_or(u32::MAX).max(1),
            sges: limits.sges.clamp(1, MAX_SGES as u32),
        })
    }

    /// Creates a verbs queue pair with as many SGEs per request as the device has, or fewer where it rejects those.
    pub(in crate::hca) fn queue_pair(
        &self,
        request: &Request,
    ) -> Result<VerbsPair<QueuePair<Reset>>, Error> {
        let context = self.domain.context();
        let (sends, receives) =
            (request.send_blocks.min(self.requests), request.receives.min(self.requests));
        let sent = context.completions(sends).map_err(failed("create a completion queue"))?;
        let received =
            context.completions(receives).map_err(failed("create a completion queue"))?;
        let mut sges = self.sges;
        loop {
            let options = QueuePairOptions {
                transport: transport(request),
                send_depth: sends,
                receive_depth: receives,
                send_sges: sges,
                receive_sges: sges.min(request.receive_segments),
                inline_bytes: 0,
            };
            match self.domain.queue_pair(options, &sent, &received) {
                Ok(pair) => {
                    return Ok(VerbsPair {
                        link: pair,
                        sent,
                        received,
                        room: Room { sends, receives },
                    });
                }
                Err(_) if sges > 1 => sges /= 2,
                Err(source) => return Err(failed("create a queue pair")(source)),
            }
        }
    }

    /// Moves a queue pair to INIT on this port.
    pub(in crate::hca) fn init<D>(
        &self,
        pair: QueuePair<Reset, D>,
    ) -> Result<QueuePair<Init, D>, Error> {
        let pair = pair.init(self.options.port, Access::ALL, 0);
        pair.map_err(failed(TO_INIT))
    }

    /// [`Self::init`] for a queue pair created by DEVX.
    pub(in crate::hca) fn init_devx(
        &self,
        pair: devx::QueuePair<Reset>,
    ) -> Result<devx::QueuePair<Init>, Error> {
        let pair = pair.init(self.options.port, Access::ALL, 0);
        pair.map_err(failed(TO_INIT))
    }

    /// Makes a queue pair of datagrams ready to send.
    pub(in crate::hca) fn ready<D>(
        &self,
        pair: QueuePair<Reset, D>,
        key: u32,
    ) -> Result<QueuePair<Rts, D>, Error> {
        let pair = pair.init(self.options.port, Access::default(), key).map_err(failed(TO_INIT))?;
        let pair = pair
            .ready_to_receive(self.route(), NO_PEER, Behaviour::of(self.mtu))
            .map_err(failed(TO_RTR))?;
        pair.ready_to_send(0, Behaviour::of(self.mtu)).map_err(failed(TO_RTS))
    }

    /// [`Self::ready`] for a queue pair created by DEVX.
    pub(in crate::hca) fn ready_devx(
        &self,
        pair: devx::QueuePair<Reset>,
        key: u32,
    ) -> Result<devx::QueuePair<Rts>, Error> {
        let pair = pair.init(self.options.port, Access::default(), key).map_err(failed(TO_INIT))?;
        let pair = pair
            .ready_to_receive(self.route(), NO_PEER, Behaviour::of(self.mtu))
            .map_err(failed(TO_RTR))?;
        pair.ready_to_send(0, Behaviour::of(self.mtu)).map_err(failed(TO_RTS))
    }

    /// The destination of datagrams to a remote queue pair.
    pub(in crate::hca) fn datagram(&self, remote: Endpoint, key: u32) -> Result<Datagram, Error> {
        let path = self.check(remote)?;
        let address = self.address(remote, path);
        let datagram = self.domain.datagram(self.route(), address, remote.qpn, key);
        datagram.map_err(failed("create an address handle"))
    }

    fn route(&self) -> Route {
        Route::of(self.options.port, self.gid.map_or(0, |gid| gid.index as u8))
    }

    fn address(&self, remote: Endpoint, path: Path) -> Address {
        Address { lid: remote.lid, gid: self.gid.and(path.gid) }
    }

    /// The endpoint of a queue pair of this port. Its PSN is random, so packets of an earlier queue pair with the same QPN are
    /// rejected.
    pub(in crate::hca) fn endpoint(&self, qpn: u32) -> Endpoint {
        let path = Path {
            gid: self.gid.map(|gid| gid.address),
            psn: RandomState::new().build_hasher().finish() as u32 & PSN,
            mtu: self.mtu,
            reads: self.reads,
        };
        let lid = self.lid;
        Endpoint { lid, qpn, path: Some(path) }
    }

    /// Checks that the remote endpoint has what this port needs.
    pub(in crate::hca) fn check(&self, remote: Endpoint) -> Result<Path, Error> {
        let path = remote.path.ok_or(Error::Address { remote, lacks: "path" })?;
        match (self.gid, path.gid) {
            (Some(_), None) => Err(Error::Address { remote, lacks: "GID" }),
            (None, _) if remote.lid == 0 => Err(Error::Address { remote, lacks: "LID" }),
            _ => Ok(path),
        }
    }

    /// Connects a queue pair to the remote one.
    pub(in crate::hca) fn connect<D>(
        &self,
        pair: QueuePair<Init, D>,
        psn: u32,
        remote: (Endpoint, Path),
        retry: RetryPolicy,
    ) -> Result<QueuePair<Rts, D>, Error> {
        let (route, peer, behaviour) = self.parameters(remote, retry);
        let pair = pair.ready_to_receive(route, peer, behaviour).map_err(failed(TO_RTR))?;
        pair.ready_to_send(psn, behaviour).map_err(failed(TO_RTS))
    }

    /// [`Self::connect`] for a queue pair created by DEVX.
    pub(in crate::hca) fn connect_devx(
        &self,
        pair: devx::QueuePair<Init>,
        psn: u32,
        remote: (Endpoint, Path),
        retry: RetryPolicy,
    ) -> Result<devx::QueuePair<Rts>, Error> {
        let (route, peer, behaviour) = self.parameters(remote, retry);
        let pair = pair.ready_to_receive(route, peer, behaviour).map_err(failed(TO_RTR))?;
        pair.ready_to_send(psn, behaviour).map_err(failed(TO_RTS))
    }

    /// Parameters of the RTR and RTS transitions.
    fn parameters(
        &self,
        (remote, path): (Endpoint, Path),
        retry: RetryPolicy,
    ) -> (Route, Peer, Behaviour) {
        let route = self.route();
        let peer =
            Peer { address: self.address(remote, path), queue_pair: remote.qpn, psn: path.psn };
        let retries = retry.retries.and_then(|retries| u8::try_from(retries).ok());
        let behaviour = Behaviour {
            timeout: self.options.timeout,
            reads: self.reads.min(path.reads).max(1),
            receiver_retries: match retry.retries {
                None => UNLIMITED,
                Some(_) => retries.unwrap_or(UNLIMITED).min(UNLIMITED - 1),
            },
            ..Behaviour::of(self.mtu.min(path.mtu))
        };
        (route, peer, behaviour)
    }
}
