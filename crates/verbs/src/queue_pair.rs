//! Queue pairs, and the states they go through: Reset, Init, ready to receive (Rtr), ready to send (Rts).

use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::Ipv6Addr;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use ibverbs_sys::{
    self as raw, ibv_qp_attr_mask as mask, ibv_qp_state as state, ibv_qp_type as kind,
};

use crate::completion::{self, Provider};
use crate::{Access, CompletionQueue, Error, MemoryRegion, ProtectionDomain, Request, Sge, Work};

/// So many pieces a request has at most.
pub const MOST_PIECES: usize = 16;

/// What a queue pair transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection: in order, or an error.
    Rc,
    /// Unreliable connection: what is lost is lost.
    Uc,
    /// Unreliable datagrams, each to an address of its own.
    Ud,
}

/// How a queue pair is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// What it transports.
    pub transport: Transport,
    /// Requests to send that it holds.
    pub send_depth: u32,
    /// Requests to receive that it holds.
    pub receive_depth: u32,
    /// Pieces of a request to send.
    pub send_pieces: u32,
    /// Pieces of a request to receive.
    pub receive_pieces: u32,
    /// Bytes that a request to send may take with it.
    pub inline_bytes: u32,
}

impl QueuePairOptions {
    /// One of so many requests each way, of one piece each.
    #[must_use]
    pub fn of(transport: Transport, depth: u32) -> Self {
        Self {
            transport,
            send_depth: depth,
            receive_depth: depth,
            send_pieces: 1,
            receive_pieces: 1,
            inline_bytes: 0,
        }
    }

    pub(crate) fn cap(self) -> raw::ibv_qp_cap {
        raw::ibv_qp_cap {
            max_send_wr: self.send_depth,
            max_recv_wr: self.receive_depth,
            max_send_sge: self.send_pieces,
            max_recv_sge: self.receive_pieces,
            max_inline_data: self.inline_bytes,
        }
    }
}

/// An address in a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The GID, which RoCE always needs.
    pub gid: Option<Ipv6Addr>,
}

/// How a port sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The port, from 1.
    pub port: u8,
    /// The index of its own GID.
    pub gid_index: u8,
    /// Routers on the way, at most.
    pub hop_limit: u8,
    /// DSCP in its upper six bits.
    pub traffic_class: u8,
    /// The service level; of RoCE its lower three bits are the priority.
    pub service_level: u8,
}

impl Route {
    /// By this port and GID.
    #[must_use]
    pub fn of(port: u8, gid_index: u8) -> Self {
        Self {
            port,
            gid_index,
            hop_limit: 64,
            traffic_class: 0,
            service_level: 0,
        }
    }

    pub(crate) fn to(self, address: Address) -> raw::ibv_ah_attr {
        let mut attributes = raw::ibv_ah_attr {
            dlid: address.lid,
            sl: self.service_level,
            port_num: self.port,
            ..raw::ibv_ah_attr::default()
        };
        if let Some(gid) = address.gid {
            attributes.is_global = 1;
            attributes.grh = raw::ibv_global_route {
                dgid: raw::ibv_gid { raw: gid.octets() },
                flow_label: 0,
                sgid_index: self.gid_index,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
            };
        }
        attributes
    }
}

/// The remote end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: Address,
    /// The number of its queue pair.
    pub queue_pair: u32,
    /// The number its first packet has, 24 bits.
    pub psn: u32,
}

/// How a connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// The payload of a packet in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// An unanswered packet is sent again after 4.096 µs times two to the power of this.
    pub timeout: u8,
    /// How often it is sent again, at most 7.
    pub retries: u8,
    /// How often a message is sent again that the remote side had no buffer for; 7 is for ever.
    pub receiver_retries: u8,
    /// Reads and atomic operations at once, of both ends the smaller.
    pub reads: u8,
}

impl Behaviour {
    /// What perftest takes: 14 (67 ms), 7 and 7; reads one at a time are always allowed.
    #[must_use]
    pub fn of(mtu: u32) -> Self {
        Self {
            mtu,
            timeout: 14,
            retries: 7,
            receiver_retries: 7,
            reads: 1,
        }
    }
}

/// As made.
#[derive(Debug, Clone, Copy)]
pub struct Reset;
/// Belongs to a port; takes requests to receive.
#[derive(Debug, Clone, Copy)]
pub struct Init;
/// Knows its remote end, and receives.
#[derive(Debug, Clone, Copy)]
pub struct Rtr;
/// Sends.
#[derive(Debug, Clone, Copy)]
pub struct Rts;

/// A state in which requests to receive are taken.
pub trait Receives: sealed::Sealed {}
impl Receives for Init {}
impl Receives for Rtr {}
impl Receives for Rts {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Init {}
    impl Sealed for super::Rtr {}
    impl Sealed for super::Rts {}
}

/// A queue pair in a state. It keeps what it was given work with until it is dropped. `D` says who gives it work: the provider does in
/// [`Self::send`](QueuePair::send) and [`Self::receive`](QueuePair::receive), or whoever knows its [layout](QueuePair::layout).
#[derive(Debug)]
pub struct QueuePair<S, D = Provider> {
    pub(crate) inner: Inner,
    state: PhantomData<(S, D)>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    owned: Arc<Owned>,
    number: u32,
    inline_bytes: u32,
    pub(crate) transport: Transport,
    /// Regions that it was given work with.
    kept: Vec<MemoryRegion>,
    /// The pieces of the request that is being posted.
    entries: Entries,
}

/// What is destroyed with the queue pair, or with the last piece of its memory that somebody holds.
#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::ibv_qp>,
    domain: ProtectionDomain,
    _completions: [Arc<completion::Owned>; 2],
    /// Regions that it was given work with, once nobody gives it more.
    kept: Mutex<Vec<MemoryRegion>>,
}

/// Room for the pieces of a request, kept so that none is prepared for each.
struct Entries([raw::ibv_sge; MOST_PIECES]);

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entries")
    }
}

// SAFETY: verbs are thread safe, and the queue pair is given back by this value alone.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}
// SAFETY: the room for pieces leads to memory that is read during a call alone.
unsafe impl Send for Inner {}

impl ProtectionDomain {
    /// A queue pair, whose work completes in these two queues, or in one that is both.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn queue_pair(
        &self,
        options: QueuePairOptions,
        sent: &CompletionQueue,
        received: &CompletionQueue,
    ) -> Result<QueuePair<Reset>, Error> {
        let mut attributes = raw::ibv_qp_init_attr {
            send_cq: sent.as_raw(),
            recv_cq: received.as_raw(),
            cap: options.cap(),
            qp_type: match options.transport {
                Transport::Rc => kind::IBV_QPT_RC,
                Transport::Uc => kind::IBV_QPT_UC,
                Transport::Ud => kind::IBV_QPT_UD,
            },
            ..raw::ibv_qp_init_attr::default()
        };
        // SAFETY: the domain and both queues are alive; what the pair holds is written back into the attributes.
        let raw = unsafe { raw::ibv_create_qp(self.as_raw(), &mut attributes) };
        let raw = self.context().made("ibv_create_qp", raw)?;
        Ok(QueuePair::of(
            raw,
            attributes.cap.max_inline_data,
            options.transport,
            self,
            [sent, received],
        ))
    }
}

impl<D> QueuePair<Reset, D> {
    /// One that the library has just made.
    pub(crate) fn of(
        raw: NonNull<raw::ibv_qp>,
        inline_bytes: u32,
        transport: Transport,
        domain: &ProtectionDomain,
        completions: [&CompletionQueue<D>; 2],
    ) -> Self {
        // SAFETY: the library has just made it, and keeps it until it is destroyed.
        let number = unsafe { raw.as_ref().qp_num };
        Self {
            inner: Inner {
                owned: Arc::new(Owned {
                    raw,
                    domain: domain.clone(),
                    _completions: completions.map(CompletionQueue::owned),
                    kept: Mutex::default(),
                }),
                number,
                inline_bytes,
                transport,
                kept: Vec::new(),
                entries: Entries([raw::ibv_sge::default(); MOST_PIECES]),
            },
            state: PhantomData,
        }
    }
}

impl<S, D> QueuePair<S, D> {
    /// Its number, which the remote end needs.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// How many bytes a request may take with it: at least what was asked for.
    #[must_use]
    pub fn inline_bytes(&self) -> u32 {
        self.inner.inline_bytes
    }

    /// The domain it is in.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.inner.owned.domain
    }

    /// As the C interface has it, alive as long as this value: for questions, and for changes of its state by who was lent it.
    #[must_use]
    pub fn as_raw(&self) -> *mut raw::ibv_qp {
        self.inner.owned.raw.as_ptr()
    }

    /// What it is, for who is to keep it.
    pub(crate) fn owned(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.inner.owned) as _
    }

    pub(crate) fn modify(&self, mut attributes: raw::ibv_qp_attr, what: mask) -> Result<(), Error> {
        // SAFETY: the pair is alive; the library reads the attributes that the mask names.
        let errno =
            unsafe { raw::ibv_modify_qp(self.as_raw(), &mut attributes, what.0.cast_signed()) };
        self.domain().context().answered("ibv_modify_qp", errno)
    }

    pub(crate) fn now<T>(self) -> QueuePair<T, D> {
        QueuePair {
            inner: self.inner,
            state: PhantomData,
        }
    }
}

impl<D> QueuePair<Reset, D> {
    /// To Init: a port, and what the remote end may do.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn init(self, port: u8, access: Access, qkey: u32) -> Result<QueuePair<Init, D>, Error> {
        let attributes = raw::ibv_qp_attr {
            qp_state: state::IBV_QPS_INIT,
            port_num: port,
            qp_access_flags: access.bits(),
            qkey,
            ..raw::ibv_qp_attr::default()
        };
        let both = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        self.modify(
            attributes,
            both | match self.inner.transport {
                Transport::Rc | Transport::Uc => mask::IBV_QP_ACCESS_FLAGS,
                Transport::Ud => mask::IBV_QP_QKEY,
            },
        )?;
        Ok(self.now())
    }
}

impl<D> QueuePair<Init, D> {
    /// To Rtr: the remote end, and the way there. Of datagrams neither matters.
    ///
    /// # Errors
    ///
    /// [`Error::Mtu`], [`Error::Call`]: EINVAL where there is no such GID index, ETIMEDOUT where the address is not found.
    pub fn ready_to_receive(
        self,
        route: Route,
        peer: Peer,
        behaviour: Behaviour,
    ) -> Result<QueuePair<Rtr, D>, Error> {
        let mtu = (1..=5).find(|mtu| 128 << mtu == behaviour.mtu);
        let attributes = raw::ibv_qp_attr {
            qp_state: state::IBV_QPS_RTR,
            path_mtu: mtu.ok_or(Error::Mtu(behaviour.mtu))?,
            dest_qp_num: peer.queue_pair,
            rq_psn: peer.psn,
            ah_attr: route.to(peer.address),
            max_dest_rd_atomic: behaviour.reads,
            // 0.64 ms.
            min_rnr_timer: 12,
            ..raw::ibv_qp_attr::default()
        };
        let connected = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN;
        self.modify(
            attributes,
            match self.inner.transport {
                Transport::Rc => {
                    connected | mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER
                }
                Transport::Uc => connected,
                Transport::Ud => mask::IBV_QP_STATE,
            },
        )?;
        Ok(self.now())
    }
}

impl<D> QueuePair<Rtr, D> {
    /// To Rts: `psn` is the number that this end's first packet has, as the remote end was told.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn ready_to_send(self, psn: u32, behaviour: Behaviour) -> Result<QueuePair<Rts, D>, Error> {
        let attributes = raw::ibv_qp_attr {
            qp_state: state::IBV_QPS_RTS,
            sq_psn: psn,
            timeout: behaviour.timeout,
            retry_cnt: behaviour.retries,
            rnr_retry: behaviour.receiver_retries,
            max_rd_atomic: behaviour.reads,
            ..raw::ibv_qp_attr::default()
        };
        let all = mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN;
        self.modify(
            attributes,
            match self.inner.transport {
                Transport::Rc => {
                    all | mask::IBV_QP_TIMEOUT
                        | mask::IBV_QP_RETRY_CNT
                        | mask::IBV_QP_RNR_RETRY
                        | mask::IBV_QP_MAX_QP_RD_ATOMIC
                }
                Transport::Uc | Transport::Ud => all,
            },
        )?;
        Ok(self.now())
    }
}

impl<S: Receives> QueuePair<S> {
    /// Posts a buffer to receive into.
    ///
    /// # Errors
    ///
    /// [`Error::Pieces`], [`Error::Post`]: ENOMEM where the queue is full.
    pub fn receive(&mut self, id: u64, pieces: &[Sge<'_>]) -> Result<(), Error> {
        let (entries, count) = self.inner.entries(pieces)?;
        let mut request = raw::ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: entries,
            num_sge: count,
        };
        let mut bad = null_mut();
        // SAFETY: the pair is alive; the request and its pieces are read during the call, and the memory they name is kept until
        // the pair is destroyed.
        let errno = unsafe { raw::ibv_post_recv(self.as_raw(), &mut request, &mut bad) };
        self.inner.posted("ibv_post_recv", errno)
    }
}

impl<S: Receives, D> QueuePair<S, D> {
    /// To Error: the remote side is answered no more, and what is posted completes as flushed. It takes requests as before, and
    /// flushes them too.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn fail(&mut self) -> Result<(), Error> {
        let attributes = raw::ibv_qp_attr {
            qp_state: state::IBV_QPS_ERR,
            ..raw::ibv_qp_attr::default()
        };
        self.modify(attributes, mask::IBV_QP_STATE)
    }
}

impl QueuePair<Rts> {
    /// Posts a request to send.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`], [`Error::Inline`], [`Error::Pieces`], [`Error::Post`]: ENOMEM where the queue is full, EINVAL for what
    /// the pair cannot do.
    pub fn send(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let transport = self.inner.transport;
        if (transport == Transport::Ud) != matches!(request.work, Work::SendTo(..)) {
            return Err(Error::Transport { transport });
        }
        if request.inline
            && request
                .pieces
                .iter()
                .any(|piece| piece.region().is_device())
        {
            return Err(Error::Inline);
        }
        let (entries, count) = self.inner.entries(request.pieces)?;
        let mut raw = request.raw();
        raw.sg_list = entries;
        raw.num_sge = count;
        let mut bad = null_mut();
        // SAFETY: the pair is alive; the request and its pieces are read during the call, and the memory they name is kept until
        // the pair is destroyed. What goes with the request is host memory of so many bytes. A datagram names an address handle,
        // which is borrowed and of the same library; nothing else is taken for one.
        let errno = unsafe { raw::ibv_post_send(self.as_raw(), &mut raw, &mut bad) };
        self.inner.posted("ibv_post_send", errno)
    }
}

impl Inner {
    /// The pieces as the library has them, until they are asked for again.
    fn entries(&mut self, pieces: &[Sge<'_>]) -> Result<(*mut raw::ibv_sge, c_int), Error> {
        if pieces.len() > MOST_PIECES {
            return Err(Error::Pieces(pieces.len()));
        }
        for (entry, piece) in self.entries.0.iter_mut().zip(pieces) {
            *entry = piece.entry();
            if self.kept.iter().all(|kept| !kept.is_same(piece.region())) {
                self.kept.push(piece.region().clone());
            }
        }
        Ok((self.entries.0.as_mut_ptr(), pieces.len() as c_int))
    }

    pub(crate) fn posted(&self, function: &'static str, errno: c_int) -> Result<(), Error> {
        match errno {
            0 => Ok(()),
            errno => Err(Error::Post {
                name: self.owned.domain.context().name().to_owned(),
                function,
                source: match errno {
                    -1 => io::Error::last_os_error(),
                    errno => io::Error::from_raw_os_error(errno.abs()),
                },
            }),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Somebody may hold it still, and with it the NIC.
        let mut kept = self
            .owned
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.append(&mut self.kept);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is alive and destroyed here alone, before what it was given.
        unsafe { raw::ibv_destroy_qp(self.raw.as_ptr()) };
    }
}
