//! Completion queues.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use ibverbs_sys::{self as raw, ibv_wc_opcode as opcode, ibv_wc_status as status};

use crate::event::wait;
use crate::{Context, Error};

/// A completion queue. Clones share it; it is destroyed with the last clone and the last queue pair that uses it. `D` says who takes
/// its completions.
#[derive(Debug, Clone)]
pub struct CompletionQueue<D = Provider>(Arc<Owned>, PhantomData<D>);

/// The provider drives the queue: [`QueuePair::send`](crate::QueuePair::send), [`CompletionQueue::poll`] and similar.
#[derive(Debug, Clone, Copy)]
pub struct Provider;

/// The program drives the queue in the memory that [`QueuePair::layout`](crate::QueuePair::layout) and [`CompletionQueue::layout`]
/// describe. The provider does not see this, so such a queue has no `send`, `receive` or `poll`.
#[derive(Debug, Clone, Copy)]
pub struct Direct;

#[derive(Debug)]
pub(crate) struct Owned {
    raw: NonNull<raw::ibv_cq>,
    channel: Option<NonNull<raw::ibv_comp_channel>>,
    context: Context,
}

// SAFETY: verbs are thread safe, and only this value destroys the queue.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// A work completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// The queue pair's number.
    pub queue_pair: u32,
    /// The operation and its length, or the error.
    pub outcome: Result<WorkCompletion, Failure>,
}

/// A successful request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The operation.
    pub operation: Operation,
    /// Bytes received; undefined for other operations.
    pub bytes: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// The receive buffer starts with 40 bytes for a GRH: a datagram.
    pub has_route: bool,
    /// The sender of a datagram; undefined in other completions.
    pub source: Source,
}

/// The sender of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Source {
    /// Its queue pair number.
    pub queue_pair: u32,
    /// Its LID; 0 on Ethernet.
    pub lid: u16,
    /// The service level.
    pub level: u8,
    /// The lower bits of the destination LID.
    pub path: u8,
}

/// The operation of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Send.
    Send,
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Receive of a message.
    Receive,
    /// Receive of an RDMA write with immediate data.
    ReceiveWrite,
    /// Another value.
    Other(u32),
}

/// A failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failure {
    /// `IBV_WC_*` status.
    pub status: u32,
    /// The vendor's syndrome.
    pub syndrome: u32,
}

/// Name and likely cause of each status.
const STATUS: [(u32, &str, &str); 23] = [
    (
        status::IBV_WC_LOC_LEN_ERR,
        "LOC_LEN_ERR",
        "the message is longer than the posted buffer or than the port allows",
    ),
    (
        status::IBV_WC_LOC_QP_OP_ERR,
        "LOC_QP_OP_ERR",
        "the NIC cannot execute the request: the queue pair is inconsistent",
    ),
    (status::IBV_WC_LOC_EEC_OP_ERR, "LOC_EEC_OP_ERR", "an end-to-end context is inconsistent"),
    (
        status::IBV_WC_LOC_PROT_ERR,
        "LOC_PROT_ERR",
        "local memory is not registered, or not with the required access",
    ),
    (
        status::IBV_WC_WR_FLUSH_ERR,
        "WR_FLUSH_ERR",
        "flushed after an earlier request of the queue pair failed",
    ),
    (status::IBV_WC_MW_BIND_ERR, "MW_BIND_ERR", "binding a memory window failed"),
    (status::IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR", "the response of the remote end was unexpected"),
    (
        status::IBV_WC_LOC_ACCESS_ERR,
        "LOC_ACCESS_ERR",
        "received data cannot be written to local memory",
    ),
    (
        status::IBV_WC_REM_INV_REQ_ERR,
        "REM_INV_REQ_ERR",
        "the remote end rejected the request: too long, or not allowed by its queue pair",
    ),
    (
        status::IBV_WC_REM_ACCESS_ERR,
        "REM_ACCESS_ERR",
        "the remote memory is not registered with this access, or its key or address is wrong",
    ),
    (status::IBV_WC_REM_OP_ERR, "REM_OP_ERR", "the remote end could not execute the request"),
    (
        status::IBV_WC_RETRY_EXC_ERR,
        "RETRY_EXC_ERR",
        "no answer from the remote end: check the path (GID index, VLAN, MTU, PFC, firewall for UDP 4791) and the remote process",
    ),
    (status::IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR", "the remote end had no receive posted"),
    (
        status::IBV_WC_LOC_RDD_VIOL_ERR,
        "LOC_RDD_VIOL_ERR",
        "a reliable datagram domain does not match",
    ),
    (
        status::IBV_WC_REM_INV_RD_REQ_ERR,
        "REM_INV_RD_REQ_ERR",
        "the remote end rejected a reliable datagram",
    ),
    (status::IBV_WC_REM_ABORT_ERR, "REM_ABORT_ERR", "the remote end aborted the operation"),
    (status::IBV_WC_INV_EECN_ERR, "INV_EECN_ERR", "an end-to-end context has an invalid number"),
    (
        status::IBV_WC_INV_EEC_STATE_ERR,
        "INV_EEC_STATE_ERR",
        "an end-to-end context is in the wrong state",
    ),
    (status::IBV_WC_FATAL_ERR, "FATAL_ERR", "the NIC has failed: see the kernel's log"),
    (
        status::IBV_WC_RESP_TIMEOUT_ERR,
        "RESP_TIMEOUT_ERR",
        "the response of the remote end came too late",
    ),
    (status::IBV_WC_GENERAL_ERR, "GENERAL_ERR", "the NIC reports no reason"),
    (status::IBV_WC_TM_ERR, "TM_ERR", "tag matching failed"),
    (
        status::IBV_WC_TM_RNDV_INCOMPLETE,
        "TM_RNDV_INCOMPLETE",
        "a tag-matching rendezvous was left to software",
    ),
];

impl Failure {
    /// The status name, such as `IBV_WC_RETRY_EXC_ERR`; none for a number that verbs.h does not define.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        STATUS.iter().find(|known| known.0 == self.status).map(|known| known.1)
    }

    /// True if the status is a consequence of an earlier failure of the same queue pair.
    #[must_use]
    pub fn is_flush(self) -> bool {
        self.status == status::IBV_WC_WR_FLUSH_ERR
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match STATUS.iter().find(|known| known.0 == self.status) {
            Some((number, name, words)) => write!(f, "{words} (IBV_WC_{name}, {number}")?,
            None => write!(f, "unknown status ({}", self.status)?,
        }
        match self.syndrome {
            0 => f.write_str(")"),
            syndrome => write!(f, ", vendor syndrome {syndrome:#x})"),
        }
    }
}

impl std::error::Error for Failure {}

impl Context {
    /// Creates a completion queue of at least `entries` entries.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn completions(&self, entries: u32) -> Result<CompletionQueue, Error> {
        CompletionQueue::new(self, entries, None)
    }

    /// A queue for [`ProtectionDomain::direct_queue_pair`](crate::ProtectionDomain::direct_queue_pair), whose CQEs the program reads in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn direct_completions(&self, entries: u32) -> Result<CompletionQueue<Direct>, Error> {
        CompletionQueue::new(self, entries, None)
    }

    /// As [`Self::completions`], with a channel for waiting without polling.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn completions_with_events(&self, entries: u32) -> Result<CompletionQueue, Error> {
        // SAFETY: the context is open.
        let channel = unsafe { raw::ibv_create_comp_channel(self.as_raw()) };
        let channel = self.check_pointer("ibv_create_comp_channel", channel)?;
        CompletionQueue::new(self, entries, Some(channel)).inspect_err(|_| {
            // SAFETY: just created; no queue uses it.
            unsafe { raw::ibv_destroy_comp_channel(channel.as_ptr()) };
        })
    }
}

impl<D> CompletionQueue<D> {
    fn new(
        context: &Context,
        entries: u32,
        channel: Option<NonNull<raw::ibv_comp_channel>>,
    ) -> Result<Self, Error> {
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let of = channel.map_or(null_mut(), NonNull::as_ptr);
        // SAFETY: the context is open, the channel null or alive; vector 0 always exists.
        let raw = unsafe { raw::ibv_create_cq(context.as_raw(), entries, null_mut(), of, 0) };
        let owned = Owned {
            raw: context.check_pointer("ibv_create_cq", raw)?,
            channel,
            context: context.clone(),
        };
        Ok(Self(Arc::new(owned), PhantomData))
    }

    /// The C object, valid as long as this value.
    #[must_use]
    pub fn as_raw(&self) -> *mut raw::ibv_cq {
        self.0.raw.as_ptr()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
    }

    /// Shared ownership of the C object.
    pub(crate) fn owned(&self) -> Arc<Owned> {
        Arc::clone(&self.0)
    }
}

impl CompletionQueue {
    /// Polls completions into `into`, up to its length; returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Call`]: an overrun, or a removed device.
    pub fn poll(&self, into: &mut [Option<Completion>]) -> Result<usize, Error> {
        // In small batches, because they are converted, and most polls find none.
        let mut taken = [const { MaybeUninit::<raw::ibv_wc>::uninit() }; 16];
        let wanted = into.len().min(taken.len());
        // SAFETY: the queue is alive, and `taken` has room for `wanted` entries.
        let count =
            unsafe { raw::ibv_poll_cq(self.as_raw(), wanted as c_int, taken.as_mut_ptr().cast()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(self.0.context.call("ibv_poll_cq", io::Error::last_os_error()));
        };
        for (place, completion) in into.iter_mut().zip(&taken[..count.min(wanted)]) {
            // SAFETY: the library has written the first `count` entries; every bit pattern is valid for their members.
            *place = Some(Completion::of(unsafe { completion.assume_init_ref() }));
        }
        Ok(count.min(wanted))
    }

    /// Requests an event for the next completion, or only for the next solicited one. Completions already in the queue raise none: poll
    /// once more afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn arm(&self, solicited_only: bool) -> Result<(), Error> {
        // SAFETY: the queue is alive.
        let errno = unsafe { raw::ibv_req_notify_cq(self.as_raw(), c_int::from(solicited_only)) };
        self.0.context.check_errno("ibv_req_notify_cq", errno)
    }

    /// Waits for the requested event; false on timeout, or if the queue has no channel.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        let Some(channel) = self.0.channel else {
            return Ok(false);
        };
        // SAFETY: the channel and its file are alive as long as this value.
        let file = unsafe { BorrowedFd::borrow_raw(channel.as_ref().fd) };
        if !wait(file, timeout)
            .map_err(|source| self.0.context.call("poll of a completion channel", source))?
        {
            return Ok(false);
        }
        let (mut cq, mut of) = (null_mut(), null_mut());
        // SAFETY: the channel is alive, and both outputs are valid. An event is pending, so the call does not block.
        let failed = unsafe { raw::ibv_get_cq_event(channel.as_ptr(), &mut cq, &mut of) };
        if failed != 0 {
            return Err(self.0.context.call("ibv_get_cq_event", io::Error::last_os_error()));
        }
        // SAFETY: the event belongs to this queue, the only one of its channel.
        unsafe { raw::ibv_ack_cq_events(cq, 1) };
        Ok(true)
    }
}

impl Completion {
    fn of(raw: &raw::ibv_wc) -> Self {
        let outcome = match raw.error() {
            Some((status, syndrome)) => Err(Failure { status, syndrome }),
            None => Ok(WorkCompletion {
                operation: match raw.opcode() {
                    opcode::IBV_WC_SEND => Operation::Send,
                    opcode::IBV_WC_RDMA_WRITE => Operation::Write,
                    opcode::IBV_WC_RDMA_READ => Operation::Read,
                    opcode::IBV_WC_COMP_SWAP => Operation::CompareSwap,
                    opcode::IBV_WC_FETCH_ADD => Operation::FetchAdd,
                    opcode::IBV_WC_RECV => Operation::Receive,
                    opcode::IBV_WC_RECV_RDMA_WITH_IMM => Operation::ReceiveWrite,
                    other => Operation::Other(other),
                },
                bytes: raw.len() as u32,
                immediate: raw.imm_data().map(u32::from_be),
                has_route: raw.wc_flags & raw::ibv_wc_flags::IBV_WC_GRH != raw::ibv_wc_flags(0),
                source: Source {
                    queue_pair: raw.src_qp,
                    lid: raw.slid,
                    level: raw.sl,
                    path: raw.dlid_path_bits,
                },
            }),
        };
        Self { id: raw.wr_id(), queue_pair: raw.qp_num, outcome }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: queue pairs that use it hold it, so none is left; all its events are acknowledged.
        unsafe { raw::ibv_destroy_cq(self.raw.as_ptr()) };
        if let Some(channel) = self.channel {
            // SAFETY: its only queue is destroyed.
            unsafe { raw::ibv_destroy_comp_channel(channel.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_text() {
        let failure = |status, syndrome| Failure { status, syndrome };
        assert_eq!(
            failure(13, 0x88).to_string(),
            "the remote end had no receive posted (IBV_WC_RNR_RETRY_EXC_ERR, 13, vendor syndrome 0x88)"
        );
        assert_eq!(failure(99, 0).to_string(), "unknown status (99)");
        assert!(failure(5, 0).is_flush() && failure(12, 0).name() == Some("RETRY_EXC_ERR"));
        // Every status of verbs.h has an entry.
        for constant in ibverbs_sys::constants() {
            if let Some(name) =
                constant.name.strip_prefix("IBV_WC_").filter(|name| name.ends_with("_ERR"))
            {
                assert_eq!(failure(constant.value, 0).name(), Some(name));
            }
        }
    }
}
