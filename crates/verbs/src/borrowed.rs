//! Queue pairs whose states and keys are somebody else's: a C program's, which changes them by their raw form.

use std::ffi::c_int;
use std::ptr::null_mut;

use ibverbs_sys::{self as raw, ibv_qp_attr_mask as mask, ibv_qp_state as state};

use crate::queue_pair::QueuePair;
use crate::{Error, Request, Reset, Sge, Transport};

/// So many segments a request has at most: what an mlx5 entry of 16 blocks holds besides its heading.
pub const MOST_SEGMENTS: usize = 62;

/// In whatever state its owner has brought it to.
#[derive(Debug, Clone, Copy)]
pub struct Borrowed;

/// What a queue pair takes at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing: it is as made.
    Reset,
    /// Requests to receive: it belongs to a port, or knows its remote end.
    Receives,
    /// All requests; some of them to flush them.
    Sends,
}

/// A stretch of memory by address and key, which the device alone checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Where it starts.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The lkey.
    pub key: u32,
}

impl From<Sge<'_>> for Segment {
    fn from(piece: Sge<'_>) -> Self {
        let entry = piece.entry();
        Self {
            address: entry.addr,
            length: entry.length,
            key: entry.lkey,
        }
    }
}

impl<D> QueuePair<Reset, D> {
    /// Leaves its states, and the memory that its work names, to who has its raw form.
    ///
    /// # Safety
    ///
    /// Whoever has its keys, and gives it work that names them, sees to the memory behind them: it stays until that work has ended, and nobody
    /// minds what the device writes there. Nobody destroys the raw queue pair while this lives.
    #[must_use]
    pub unsafe fn borrow(self) -> QueuePair<Borrowed, D> {
        self.now()
    }
}

impl<D> QueuePair<Borrowed, D> {
    /// What it takes, as the device says.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn state(&self) -> Result<State, Error> {
        let (mut attributes, mut made) = (
            raw::ibv_qp_attr::default(),
            raw::ibv_qp_init_attr::default(),
        );
        let what = mask::IBV_QP_STATE.0.cast_signed();
        // SAFETY: the pair is alive, and there is room for both answers.
        let errno = unsafe { raw::ibv_query_qp(self.as_raw(), &mut attributes, what, &mut made) };
        self.domain().context().answered("ibv_query_qp", errno)?;
        Ok(match attributes.qp_state {
            state::IBV_QPS_RESET => State::Reset,
            state::IBV_QPS_INIT | state::IBV_QPS_RTR => State::Receives,
            _ => State::Sends,
        })
    }

    /// To Error, as [`QueuePair::fail`] of the other states.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn give_up(&mut self) -> Result<(), Error> {
        let attributes = raw::ibv_qp_attr {
            qp_state: state::IBV_QPS_ERR,
            ..raw::ibv_qp_attr::default()
        };
        self.modify(attributes, mask::IBV_QP_STATE)
    }
}

impl QueuePair<Borrowed> {
    /// Posts a buffer to receive into.
    ///
    /// # Errors
    ///
    /// [`Error::Segments`], [`Error::Post`]: ENOMEM where the queue is full.
    pub fn receive_by_keys(&mut self, id: u64, segments: &[Segment]) -> Result<(), Error> {
        let (mut list, count) = list(segments)?;
        let mut request = raw::ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: list.as_mut_ptr(),
            num_sge: count,
        };
        let mut bad = null_mut();
        // SAFETY: the pair is alive; the request and its list are read during the call. The memory is its owner's business (`lend`).
        let errno = unsafe { raw::ibv_post_recv(self.as_raw(), &mut request, &mut bad) };
        self.inner.posted("ibv_post_recv", errno)
    }

    /// Posts a request to send of these segments; the request's own pieces, and whether it is inline, do not count.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`], [`Error::Segments`], [`Error::Post`]: ENOMEM where the queue is full.
    pub fn send_by_keys(
        &mut self,
        request: &Request<'_>,
        segments: &[Segment],
    ) -> Result<(), Error> {
        let transport = self.inner.transport;
        if (transport == Transport::Ud) != matches!(request.work, crate::Work::SendTo(..)) {
            return Err(Error::Transport { transport });
        }
        let (mut list, count) = list(segments)?;
        let plain = Request {
            inline: false,
            ..*request
        };
        let mut raw = plain.raw();
        raw.sg_list = list.as_mut_ptr();
        raw.num_sge = count;
        let mut bad = null_mut();
        // SAFETY: as above; a datagram names an address handle, which is borrowed and of the same library.
        let errno = unsafe { raw::ibv_post_send(self.as_raw(), &mut raw, &mut bad) };
        self.inner.posted("ibv_post_send", errno)
    }
}

/// The segments as the library has them.
fn list(segments: &[Segment]) -> Result<([raw::ibv_sge; MOST_SEGMENTS], c_int), Error> {
    let mut list = [raw::ibv_sge::default(); MOST_SEGMENTS];
    if segments.len() > list.len() {
        return Err(Error::Segments(segments.len()));
    }
    for (entry, segment) in list.iter_mut().zip(segments) {
        *entry = raw::ibv_sge {
            addr: segment.address,
            length: segment.length,
            lkey: segment.key,
        };
    }
    Ok((list, segments.len() as c_int))
}
