//! Requests to send and to receive.

use ibverbs_sys::{self as raw, ibv_send_flags as flag, ibv_wr_opcode as opcode};

use crate::{Datagram, Remote, Sge};

/// What a request does.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Work<'a> {
    /// Sends a message, with immediate data or without.
    Send(Option<u32>),
    /// Sends a datagram.
    SendTo(&'a Datagram, Option<u32>),
    /// Writes into the remote side's memory; with immediate data the remote side is told, by a message that it must have a buffer
    /// posted for.
    Write(Remote, Option<u32>),
    /// Reads the remote side's memory.
    Read(Remote),
    /// Adds to a 64-bit word of the remote side, which is first read into this side's 8 bytes, as a number of this machine.
    FetchAdd(Remote, u64),
    /// The same with `swap` where the word is `compare`.
    CompareSwap {
        /// The word.
        remote: Remote,
        /// What it must be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
}

/// A request to send.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// A number of the caller's choice; the completion has it.
    pub id: u64,
    /// What it does.
    pub work: Work<'a>,
    /// This side's memory, in order.
    pub pieces: &'a [Sge<'a>],
    /// Its completion is told. A queue is full until a later request whose completion is told has completed.
    pub signalled: bool,
    /// The NIC takes the bytes with the request, so the memory is free at once.
    pub inline: bool,
    /// It wakes a remote side that waits for events.
    pub solicited: bool,
    /// It begins after what was read before it has arrived.
    pub fenced: bool,
}

impl<'a> Request<'a> {
    /// A request whose completion is told.
    #[must_use]
    pub fn new(id: u64, work: Work<'a>, pieces: &'a [Sge<'a>]) -> Self {
        Self {
            id,
            work,
            pieces,
            signalled: true,
            inline: false,
            solicited: false,
            fenced: false,
        }
    }

    /// As the library has it, but for the pieces.
    pub(crate) fn raw(&self) -> raw::ibv_send_wr {
        let mut request = raw::ibv_send_wr {
            wr_id: self.id,
            ..raw::ibv_send_wr::default()
        };
        for (is_set, bit) in [
            (self.signalled, flag::IBV_SEND_SIGNALED),
            (self.inline, flag::IBV_SEND_INLINE),
            (self.solicited, flag::IBV_SEND_SOLICITED),
            (self.fenced, flag::IBV_SEND_FENCE),
        ] {
            if is_set {
                request.send_flags |= bit.0;
            }
        }
        let (plain, with_immediate, immediate) = match self.work {
            Work::Send(immediate) => (opcode::IBV_WR_SEND, opcode::IBV_WR_SEND_WITH_IMM, immediate),
            Work::SendTo(datagram, immediate) => {
                request.wr.ud = datagram.raw();
                (opcode::IBV_WR_SEND, opcode::IBV_WR_SEND_WITH_IMM, immediate)
            }
            Work::Write(remote, immediate) => {
                request.wr.rdma = rdma(remote);
                (
                    opcode::IBV_WR_RDMA_WRITE,
                    opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
                    immediate,
                )
            }
            Work::Read(remote) => {
                request.wr.rdma = rdma(remote);
                (opcode::IBV_WR_RDMA_READ, opcode::IBV_WR_RDMA_READ, None)
            }
            Work::FetchAdd(remote, add) => {
                request.wr.atomic = atomic(remote, add, 0);
                let add = opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                (add, add, None)
            }
            Work::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                request.wr.atomic = atomic(remote, compare, swap);
                let swap = opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                (swap, swap, None)
            }
        };
        request.opcode = if immediate.is_some() {
            with_immediate
        } else {
            plain
        };
        // In network byte order.
        request.__bindgen_anon_1.imm_data = immediate.unwrap_or(0).to_be();
        request
    }
}

fn rdma(remote: Remote) -> raw::ibv_send_wr_rdma {
    raw::ibv_send_wr_rdma {
        remote_addr: remote.address,
        rkey: remote.rkey,
    }
}

fn atomic(remote: Remote, compare_add: u64, swap: u64) -> raw::ibv_send_wr_atomic {
    raw::ibv_send_wr_atomic {
        remote_addr: remote.address,
        compare_add,
        swap,
        rkey: remote.rkey,
    }
}
