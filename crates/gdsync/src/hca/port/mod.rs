//! The port of a verbs device that queue pairs are made on, and how they are joined with others: of a NIC, and of a proxy's device.

mod error;
mod region;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use verbs::{
    Access, Address, Behaviour, CompletionQueue, Context, Gid, Init, LinkLayer, MOST_PIECES, Peer,
    PortState, ProtectionDomain, QueuePair, QueuePairOptions, Reset, Route, Rts, Transport, devx,
};

pub use error::Error;
pub(in crate::hca) use error::failed;
pub(in crate::hca) use region::register;

use super::{Endpoint, Path, Request, RetryPolicy};

/// Which port of a device, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The port, from 1.
    pub port: u8,
    /// The index of its GID; without it RoCE takes the best there is ([`verbs::Gid::best`]), and InfiniBand none.
    pub gid_index: Option<u8>,
    /// An unanswered packet is sent again after 4.096 µs times two to the power of this; seven times, before the remote side is taken
    /// for gone.
    pub timeout: u8,
}

impl Default for Options {
    /// The first port, its best GID, 18: a packet is sent again after one second.
    fn default() -> Self {
        Self {
            port: 1,
            gid_index: None,
            timeout: 18,
        }
    }
}

#[derive(Debug)]
pub(in crate::hca) struct Port {
    pub domain: ProtectionDomain,
    options: Options,
    lid: u16,
    /// On Ethernet always, on InfiniBand where it was asked for.
    gid: Option<Gid>,
    mtu: u32,
    reads: u8,
    /// The most requests of a queue.
    requests: u32,
}

/// A verbs queue pair, and how much it holds.
pub(in crate::hca) struct Made<L> {
    pub link: L,
    pub sent: CompletionQueue,
    pub received: CompletionQueue,
    pub room: Room,
}

/// How many requests a verbs queue pair takes.
#[derive(Debug, Clone, Copy)]
pub(in crate::hca) struct Room {
    pub sends: u32,
    pub receives: u32,
}

impl<L> Made<L> {
    pub(in crate::hca) fn map<T>(self, link: impl FnOnce(L) -> T) -> Made<T> {
        Made {
            link: link(self.link),
            sent: self.sent,
            received: self.received,
            room: self.room,
        }
    }
}

/// Reads at once that are asked for at most: what most NICs have.
const READS: u8 = 16;
/// Numbers of packets have so many bits.
const PACKET: u32 = 0xff_ffff;
/// What joining queue pairs is called where it fails.
const MEET: &str = "connect a queue pair with the remote side";
const BEGIN: &str = "make a queue pair ready to send";
/// As NICs write "for ever", and the most besides.
const FOR_EVER: u8 = 7;

impl Port {
    pub(in crate::hca) fn open(context: &Context, options: Options) -> Result<Self, Error> {
        let (number, device) = (options.port, || context.name().to_owned());
        let found = context.port(number).map_err(failed("ask the port"))?;
        if found.state != PortState::Active {
            let (device, port, state) = (device(), number, found.state);
            return Err(Error::PortDown {
                device,
                port,
                state,
            });
        }
        let limits = context
            .limits()
            .map_err(failed("ask what the device holds"))?;
        let ethernet = found.link_layer == LinkLayer::Ethernet;
        let gid = if ethernet || options.gid_index.is_some() {
            let table = context
                .gids(found.gids)
                .map_err(failed("read the port's GIDs"))?;
            let gid = match options.gid_index {
                Some(index) => table
                    .into_iter()
                    .find(|gid| (gid.port, gid.index) == (number.into(), index.into())),
                None => Gid::best(&table, number),
            };
            let index = options.gid_index;
            Some(gid.ok_or_else(|| Error::NoGid {
                device: device(),
                port: number,
                index,
            })?)
        } else {
            None
        };
        Ok(Self {
            domain: context
                .domain()
                .map_err(failed("take a protection domain"))?,
            options,
            lid: found.lid,
            gid,
            mtu: found.active_mtu.unwrap_or(1024),
            reads: limits.reads.clamp(1, READS),
            requests: u32::try_from(limits.requests).unwrap_or(u32::MAX).max(1),
        })
    }

    /// A queue pair for these queues. Of the pieces of a request it has as many as the device gives, which does not say how many that
    /// is.
    pub(in crate::hca) fn queue_pair(
        &self,
        request: &Request,
    ) -> Result<Made<QueuePair<Init>>, Error> {
        let context = self.domain.context();
        let (sends, receives) = (
            request.send_blocks.min(self.requests),
            request.receives.min(self.requests),
        );
        let sent = context
            .completions(sends)
            .map_err(failed("make a completion queue"))?;
        let received = context
            .completions(receives)
            .map_err(failed("make a completion queue"))?;
        let mut pieces = MOST_PIECES as u32;
        loop {
            let options = QueuePairOptions {
                transport: Transport::Rc,
                send_depth: sends,
                receive_depth: receives,
                send_pieces: pieces,
                receive_pieces: pieces.min(request.receive_segments),
                inline_bytes: 0,
            };
            match self.domain.queue_pair(options, &sent, &received) {
                Ok(pair) => {
                    return Ok(Made {
                        link: self.init(pair)?,
                        sent,
                        received,
                        room: Room { sends, receives },
                    });
                }
                Err(_) if pieces > 1 => pieces /= 2,
                Err(source) => return Err(failed("make a queue pair")(source)),
            }
        }
    }

    pub(in crate::hca) fn number(&self) -> u8 {
        self.options.port
    }

    /// Gives a queue pair this port.
    pub(in crate::hca) fn init<D>(
        &self,
        pair: QueuePair<Reset, D>,
    ) -> Result<QueuePair<Init, D>, Error> {
        let pair = pair.init(self.options.port, Access::ALL, 0);
        pair.map_err(failed("give a queue pair its port"))
    }

    /// How a queue pair of this port is reached. The number of its first packet is one that packets of an earlier queue pair of the
    /// same number are not taken for.
    pub(in crate::hca) fn endpoint(&self, qpn: u32) -> Endpoint {
        let path = Path {
            gid: self.gid.map(|gid| gid.address),
            psn: RandomState::new().build_hasher().finish() as u32 & PACKET,
            mtu: self.mtu,
            reads: self.reads,
        };
        let lid = self.lid;
        Endpoint {
            lid,
            qpn,
            path: Some(path),
        }
    }

    /// Whether the remote side's address has what this port needs.
    pub(in crate::hca) fn check(&self, remote: Endpoint) -> Result<Path, Error> {
        let path = remote.path.ok_or(Error::Address {
            remote,
            lacks: "path",
        })?;
        match (self.gid, path.gid) {
            (Some(_), None) => Err(Error::Address {
                remote,
                lacks: "GID",
            }),
            (None, _) if remote.lid == 0 => Err(Error::Address {
                remote,
                lacks: "LID",
            }),
            _ => Ok(path),
        }
    }

    /// Joins a queue pair with the far one.
    pub(in crate::hca) fn join<D>(
        &self,
        pair: QueuePair<Init, D>,
        psn: u32,
        remote: (Endpoint, Path),
        retry: RetryPolicy,
    ) -> Result<QueuePair<Rts, D>, Error> {
        let (route, peer, behaviour) = self.terms(remote, retry);
        let pair = pair
            .ready_to_receive(route, peer, behaviour)
            .map_err(failed(MEET))?;
        pair.ready_to_send(psn, behaviour).map_err(failed(BEGIN))
    }

    /// The same of one that the NIC's firmware made.
    pub(in crate::hca) fn join_own(
        &self,
        pair: devx::QueuePair<Init>,
        psn: u32,
        remote: (Endpoint, Path),
        retry: RetryPolicy,
    ) -> Result<devx::QueuePair<Rts>, Error> {
        let (route, peer, behaviour) = self.terms(remote, retry);
        let pair = pair
            .ready_to_receive(route, peer, behaviour)
            .map_err(failed(MEET))?;
        pair.ready_to_send(psn, behaviour).map_err(failed(BEGIN))
    }

    /// On which terms a queue pair is joined with the far one.
    fn terms(
        &self,
        (remote, path): (Endpoint, Path),
        retry: RetryPolicy,
    ) -> (Route, Peer, Behaviour) {
        let route = Route::of(self.options.port, self.gid.map_or(0, |gid| gid.index as u8));
        let peer = Peer {
            address: Address {
                lid: remote.lid,
                gid: self.gid.and(path.gid),
            },
            queue_pair: remote.qpn,
            psn: path.psn,
        };
        let retries = retry.retries.and_then(|retries| u8::try_from(retries).ok());
        let behaviour = Behaviour {
            timeout: self.options.timeout,
            reads: self.reads.min(path.reads).max(1),
            receiver_retries: match retry.retries {
                None => FOR_EVER,
                Some(_) => retries.unwrap_or(FOR_EVER).min(FOR_EVER - 1),
            },
            ..Behaviour::of(self.mtu.min(path.mtu))
        };
        (route, peer, behaviour)
    }
}
