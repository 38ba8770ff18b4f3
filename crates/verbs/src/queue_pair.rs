//! Queue pairs and their states: Reset, Init, ready to receive (Rtr), ready to send (Rts).

use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use ibverbs_sys::{
    self as raw, ibv_qp_attr_mask as mask, ibv_qp_state as state, ibv_qp_type as kind,
};

use crate::completion::{self, Provider};
use crate::{
    Access, Behaviour, CompletionQueue, Error, MemoryRegion, Peer, ProtectionDomain, Request,
    Route, Sge,
};

/// The most SGEs in a work request.
pub const MAX_SGES: usize = 32;

/// The transport of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection (RC): in-order delivery, or an error.
    Rc,
    /// Unreliable connection (UC): lost packets are not resent.
    Uc,
    /// Unreliable datagram (UD): each request names its destination.
    Ud,
    /// Scalable reliable datagram (SRD) of EFA: each request names its destination, and arrives or fails, in no order.
    Srd,
}

impl Transport {
    /// True if each request names its destination.
    #[must_use]
    pub fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Srd)
    }
}

/// The attributes of a new queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// The transport.
    pub transport: Transport,
    /// Capacity of the send queue, in work requests.
    pub send_depth: u32,
    /// Capacity of the receive queue, in work requests.
    pub receive_depth: u32,
    /// SGEs per send request.
    pub send_sges: u32,
    /// SGEs per receive request.
    pub receive_sges: u32,
    /// Inline bytes per send request.
    pub inline_bytes: u32,
}

impl QueuePairOptions {
    /// This many requests in each queue, one SGE each.
    #[must_use]
    pub fn of(transport: Transport, depth: u32) -> Self {
        Self {
            transport,
            send_depth: depth,
            receive_depth: depth,
            send_sges: 1,
            receive_sges: 1,
            inline_bytes: 0,
        }
    }

    pub(crate) fn cap(self) -> raw::ibv_qp_cap {
        raw::ibv_qp_cap {
            max_send_wr: self.send_depth,
            max_recv_wr: self.receive_depth,
            max_send_sge: self.send_sges,
            max_recv_sge: self.receive_sges,
            max_inline_data: self.inline_bytes,
        }
    }
}

/// The initial state.
#[derive(Debug, Clone, Copy)]
pub struct Reset;
/// Bound to a port; accepts receive requests.
#[derive(Debug, Clone, Copy)]
pub struct Init;
/// Connected to the remote end; receives.
#[derive(Debug, Clone, Copy)]
pub struct Rtr;
/// Sends and receives.
#[derive(Debug, Clone, Copy)]
pub struct Rts;

/// A state that accepts receive requests.
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

/// A queue pair in state `S`. It keeps the memory of its work requests until it is dropped.
/// `D` says who posts: the provider, in [`Self::send`](QueuePair::send) and
/// [`Self::receive`](QueuePair::receive), or the user of its [layout](QueuePair::layout).
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
    /// A message can wait for a receive request, on an SRD queue pair.
    waits_for_receive: bool,
    /// Regions of posted work requests.
    kept: Vec<MemoryRegion>,
    /// The SGEs of the request being posted.
    entries: Entries,
}

/// Destroyed with the queue pair, or with the last owner of its memory.
#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::ibv_qp>,
    domain: ProtectionDomain,
    _completions: [Arc<completion::Owned>; 2],
    /// Regions of posted work requests, once no more are posted.
    kept: Mutex<Vec<MemoryRegion>>,
}

/// An SGE array, reused by every request.
struct Entries([raw::ibv_sge; MAX_SGES]);

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entries")
    }
}

// SAFETY: verbs are thread safe, and only this value destroys the queue pair.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}
// SAFETY: the SGE array's pointers are read only during a call.
unsafe impl Send for Inner {}

impl ProtectionDomain {
    /// Creates a queue pair. Its work completes in these two queues, which may be the same.
    ///
    /// # Errors
    ///
    /// [`Error::Call`]; of [`Transport::Srd`] also [`Error::NotEfa`], [`Error::Library`], [`Error::Missing`].
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
                Transport::Srd => return self.srd_queue_pair(options, sent, received),
            },
            ..raw::ibv_qp_init_attr::default()
        };
        // SAFETY: the domain and both queues are alive; the library writes the actual
        // capacities back into the attributes.
        let raw = unsafe { raw::ibv_create_qp(self.as_raw(), &mut attributes) };
        let raw = self.context().check_pointer("ibv_create_qp", raw)?;
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
    /// Wraps a queue pair that the library has just created.
    pub(crate) fn of(
        raw: NonNull<raw::ibv_qp>,
        inline_bytes: u32,
        transport: Transport,
        domain: &ProtectionDomain,
        completions: [&CompletionQueue<D>; 2],
    ) -> Self {
        // SAFETY: the library has just created it, and keeps it until it is destroyed.
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
                waits_for_receive: false,
                kept: Vec::new(),
                entries: Entries([raw::ibv_sge::default(); MAX_SGES]),
            },
            state: PhantomData,
        }
    }

    /// With this ability of an SRD queue pair.
    pub(crate) fn waiting_for_receive(mut self, waits: bool) -> Self {
        self.inner.waits_for_receive = waits;
        self
    }
}

impl<S, D> QueuePair<S, D> {
    /// The QPN, which the remote end needs.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// Inline bytes per request: at least the requested number.
    #[must_use]
    pub fn inline_bytes(&self) -> u32 {
        self.inner.inline_bytes
    }

    /// Its protection domain.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.inner.owned.domain
    }

    /// The C object, valid as long as this value: for queries, and for state changes by the owner
    /// of a borrowed queue pair.
    #[must_use]
    pub fn as_raw(&self) -> *mut raw::ibv_qp {
        self.inner.owned.raw.as_ptr()
    }

    /// Shared ownership of the C object.
    pub(crate) fn owned(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.inner.owned) as _
    }

    pub(crate) fn modify(&self, mut attributes: raw::ibv_qp_attr, what: mask) -> Result<(), Error> {
        // SAFETY: the pair is alive; the library reads the attributes that the mask names.
        let errno =
            unsafe { raw::ibv_modify_qp(self.as_raw(), &mut attributes, what.0.cast_signed()) };
        self.domain().context().check_errno("ibv_modify_qp", errno)
    }

    pub(crate) fn now<T>(self) -> QueuePair<T, D> {
        QueuePair { inner: self.inner, state: PhantomData }
    }
}

impl<D> QueuePair<Reset, D> {
    /// Moves to Init: sets the port, its first P_Key and the remote access rights.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn init(self, port: u8, access: Access, qkey: u32) -> Result<QueuePair<Init, D>, Error> {
        self.init_with_pkey(port, 0, access, qkey)
    }

    /// Moves to Init with the P_Key at this index of the port's table.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn init_with_pkey(
        self,
        port: u8,
        pkey_index: u16,
        access: Access,
        qkey: u32,
    ) -> Result<QueuePair<Init, D>, Error> {
        let attributes = raw::ibv_qp_attr {
            qp_state: state::IBV_QPS_INIT,
            port_num: port,
            pkey_index,
            qp_access_flags: access.rights(),
            qkey,
            ..raw::ibv_qp_attr::default()
        };
        let both = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        self.modify(
            attributes,
            both | match self.inner.transport {
                Transport::Rc | Transport::Uc => mask::IBV_QP_ACCESS_FLAGS,
                Transport::Ud | Transport::Srd => mask::IBV_QP_QKEY,
            },
        )?;
        Ok(self.now())
    }
}

impl<D> QueuePair<Init, D> {
    /// Moves to Rtr: sets the remote end and the path. Datagrams use neither.
    ///
    /// # Errors
    ///
    /// [`Error::Mtu`], [`Error::Call`]: EINVAL for an unknown GID index, ETIMEDOUT if the address
    /// cannot be resolved.
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
            min_rnr_timer: behaviour.receiver_timer,
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
                Transport::Ud | Transport::Srd => mask::IBV_QP_STATE,
            },
        )?;
        Ok(self.now())
    }
}

impl<D> QueuePair<Rtr, D> {
    /// Moves to Rts. `psn` is the local first PSN, as the remote end knows it.
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
                Transport::Srd if self.inner.waits_for_receive => all | mask::IBV_QP_RNR_RETRY,
                Transport::Uc | Transport::Ud | Transport::Srd => all,
            },
        )?;
        Ok(self.now())
    }
}

impl<S: Receives> QueuePair<S> {
    /// Posts a receive buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Sges`], [`Error::Post`]: ENOMEM if the queue is full.
    pub fn receive(&mut self, id: u64, sges: &[Sge<'_>]) -> Result<(), Error> {
        let (entries, count) = self.inner.entries(sges)?;
        let mut request =
            raw::ibv_recv_wr { wr_id: id, next: null_mut(), sg_list: entries, num_sge: count };
        let mut bad = null_mut();
        // SAFETY: the pair is alive; the library reads the request and its SGEs during the call,
        // and the memory they name is kept until the pair is destroyed.
        let errno = unsafe { raw::ibv_post_recv(self.as_raw(), &mut request, &mut bad) };
        self.inner.posted("ibv_post_recv", errno)
    }
}

impl<S: Receives, D> QueuePair<S, D> {
    /// Moves to Error: the pair stops answering the remote end, and posted requests complete as
    /// flushed. It still accepts requests, and flushes them too, except that Soft-RoCE keeps
    /// receives that are posted in this state.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn fail(&mut self) -> Result<(), Error> {
        let attributes =
            raw::ibv_qp_attr { qp_state: state::IBV_QPS_ERR, ..raw::ibv_qp_attr::default() };
        self.modify(attributes, mask::IBV_QP_STATE)
    }
}

impl QueuePair<Rts> {
    /// Posts a send request.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`], [`Error::Inline`], [`Error::Sges`], [`Error::Post`]: ENOMEM if the
    /// queue is full, EINVAL for an unsupported request.
    pub fn send(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let transport = self.inner.transport;
        if !request.work.suits(transport) {
            return Err(Error::Transport { transport });
        }
        if request.inline && request.sges.iter().any(|sge| sge.region().is_device()) {
            return Err(Error::Inline);
        }
        if transport == Transport::Srd {
            let qp = self.inner.owned.raw;
            return self.inner.send_srd(qp, request);
        }
        let (entries, count) = self.inner.entries(request.sges)?;
        let mut raw = request.raw();
        raw.sg_list = entries;
        raw.num_sge = count;
        let mut bad = null_mut();
        // SAFETY: the pair is alive; the library reads the request and its SGEs during the call,
        // and the memory they name is kept until the pair is destroyed. Inline data is host memory of
        // the given length. Only datagrams carry an address handle; it is borrowed and of this library.
        let errno = unsafe { raw::ibv_post_send(self.as_raw(), &mut raw, &mut bad) };
        self.inner.posted("ibv_post_send", errno)
    }
}

impl Inner {
    /// The SGEs in the library's layout, valid until the next call.
    pub(crate) fn entries(
        &mut self,
        sges: &[Sge<'_>],
    ) -> Result<(*mut raw::ibv_sge, c_int), Error> {
        if sges.len() > MAX_SGES {
            return Err(Error::Sges(sges.len()));
        }
        for (entry, sge) in self.entries.0.iter_mut().zip(sges) {
            *entry = sge.entry();
            if self.kept.iter().all(|kept| !kept.is_same(sge.region())) {
                self.kept.push(sge.region().clone());
            }
        }
        Ok((self.entries.0.as_mut_ptr(), sges.len() as c_int))
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
        // The other owner, and with it the NIC, may still use it.
        let mut kept = self.owned.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.append(&mut self.kept);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is alive and destroyed only here, before the objects it uses.
        unsafe { raw::ibv_destroy_qp(self.raw.as_ptr()) };
    }
}
