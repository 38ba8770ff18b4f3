//! Work requests.

use ibverbs_sys::{self as raw, ibv_send_flags as flag, ibv_wr_opcode as opcode};

use crate::{Datagram, Handle, Remote, Sge, Transport};

/// An operation.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Work<'a> {
    /// Sends a message, optionally with immediate data.
    Send(Option<u32>),
    /// Sends a datagram.
    SendTo(&'a Datagram, Option<u32>),
    /// Sends a datagram by an address handle.
    SendBy {
        /// The address handle.
        handle: Handle<'a>,
        /// The destination's queue pair number.
        queue_pair: u32,
        /// The destination's Q_Key.
        qkey: u32,
        /// Immediate data.
        immediate: Option<u32>,
    },
    /// Writes memory of a datagram's destination, on an SRD queue pair; immediate data as below.
    WriteTo(&'a Datagram, Remote, Option<u32>),
    /// Reads memory of a datagram's destination, on an SRD queue pair.
    ReadFrom(&'a Datagram, Remote),
    /// Writes remote memory; immediate data consumes a receive request at the remote end and completes there.
    Write(Remote, Option<u32>),
    /// Reads remote memory.
    Read(Remote),
    /// Adds to a remote 64-bit word and returns its old value to the 8 local bytes, in native byte order.
    FetchAdd(Remote, u64),
    /// As above, but sets the word to `swap` if it equals `compare`.
    CompareSwap {
        /// The word.
        remote: Remote,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
}

/// A send request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// An id that the completion returns.
    pub id: u64,
    /// The operation.
    pub work: Work<'a>,
    /// Local memory, in order.
    pub sges: &'a [Sge<'a>],
    /// Signalled: creates a completion. Slots of unsignalled requests are freed only by a later signalled one.
    pub signalled: bool,
    /// Inline: the data is copied when it is posted, so the memory is free at once.
    pub inline: bool,
    /// Solicited: wakes a remote end that waits for solicited completions.
    pub solicited: bool,
    /// Fence: starts after earlier reads have completed.
    pub fenced: bool,
}

impl Work<'_> {
    /// True if queue pairs of the transport have it.
    pub(crate) fn suits(&self, transport: Transport) -> bool {
        match self {
            Self::SendTo(..) | Self::SendBy { .. } => transport.is_datagram(),
            Self::WriteTo(..) | Self::ReadFrom(..) => transport == Transport::Srd,
            _ => !transport.is_datagram(),
        }
    }
}

impl<'a> Request<'a> {
    /// A signalled request.
    #[must_use]
    pub fn new(id: u64, work: Work<'a>, sges: &'a [Sge<'a>]) -> Self {
        Self { id, work, sges, signalled: true, inline: false, solicited: false, fenced: false }
    }

    /// Its bits of `enum ibv_send_flags`.
    pub(crate) fn flags(&self) -> u32 {
        let mut flags = flag(0);
        for (is_set, bit) in [
            (self.signalled, flag::IBV_SEND_SIGNALED),
            (self.inline, flag::IBV_SEND_INLINE),
            (self.solicited, flag::IBV_SEND_SOLICITED),
            (self.fenced, flag::IBV_SEND_FENCE),
        ] {
            if is_set {
                flags |= bit;
            }
        }
        flags.0
    }

    /// In the library's layout, without SGEs.
    pub(crate) fn raw(&self) -> raw::ibv_send_wr {
        let mut request = raw::ibv_send_wr {
            wr_id: self.id,
            send_flags: self.flags(),
            ..raw::ibv_send_wr::default()
        };
        let (plain, with_immediate, immediate) = match self.work {
            Work::Send(immediate) => (opcode::IBV_WR_SEND, opcode::IBV_WR_SEND_WITH_IMM, immediate),
            Work::SendTo(datagram, immediate) => {
                request.wr.ud = datagram.raw();
                (opcode::IBV_WR_SEND, opcode::IBV_WR_SEND_WITH_IMM, immediate)
            }
            Work::SendBy { handle, queue_pair, qkey, immediate } => {
                request.wr.ud = handle.to(queue_pair, qkey);
                (opcode::IBV_WR_SEND, opcode::IBV_WR_SEND_WITH_IMM, immediate)
            }
            // Of a WriteTo and a ReadFrom only the target is raw; SRD posts the destination by itself.
            Work::Write(remote, immediate) | Work::WriteTo(_, remote, immediate) => {
                request.wr.rdma = rdma(remote);
                (opcode::IBV_WR_RDMA_WRITE, opcode::IBV_WR_RDMA_WRITE_WITH_IMM, immediate)
            }
            Work::Read(remote) | Work::ReadFrom(_, remote) => {
                request.wr.rdma = rdma(remote);
                (opcode::IBV_WR_RDMA_READ, opcode::IBV_WR_RDMA_READ, None)
            }
            Work::FetchAdd(remote, add) => {
                request.wr.atomic = atomic(remote, add, 0);
                let add = opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                (add, add, None)
            }
            Work::CompareSwap { remote, compare, swap } => {
                request.wr.atomic = atomic(remote, compare, swap);
                let swap = opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                (swap, swap, None)
            }
        };
        request.opcode = if immediate.is_some() { with_immediate } else { plain };
        // In network byte order.
        request.__bindgen_anon_1.imm_data = immediate.unwrap_or(0).to_be();
        request
    }
}

fn rdma(remote: Remote) -> raw::ibv_send_wr_rdma {
    raw::ibv_send_wr_rdma { remote_addr: remote.address, rkey: remote.rkey }
}

fn atomic(remote: Remote, compare_add: u64, swap: u64) -> raw::ibv_send_wr_atomic {
    raw::ibv_send_wr_atomic { remote_addr: remote.address, compare_add, swap, rkey: remote.rkey }
}
