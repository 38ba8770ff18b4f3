//! Queue pairs whose state changes and memory keys are managed by other code, such as a C program.

use std::ffi::c_int;
use std::ptr::null_mut;

use ibverbs_sys::{self as raw, ibv_qp_attr_mask as mask, ibv_qp_state as state};

use crate::queue_pair::QueuePair;
use crate::{Error, Request, Reset, Sge, Transport};

/// Maximum of SGEs in a request: what a WQE of 16 WQEBBs holds besides its control segments.
pub const MAX_SEGMENTS: usize = 62;

/// Marks a queue pair in the state that its owner has set.
#[derive(Debug, Clone, Copy)]
pub struct Borrowed;

/// Memory by address and key; only the device checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Start address.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// The lkey.
    pub key: u32,
}

impl From<Sge<'_>> for Segment {
    fn from(piece: Sge<'_>) -> Self {
        let entry = piece.entry();
        Self { address: entry.addr, length: entry.length, key: entry.lkey }
    }
}

impl<D> QueuePair<Reset, D> {
    /// Hands the states of the queue pair, and the memory that its work requests name, over to the owner of the raw queue pair.
    ///
    /// # Safety
    ///
    /// The owner of the keys keeps the memory behind every posted request valid until the request has completed, and accepts that the
    /// device writes there. The raw queue pair is not destroyed while this value lives.
    #[must_use]
    pub unsafe fn borrow(self) -> QueuePair<Borrowed, D> {
        self.now()
    }
}

impl<D> QueuePair<Borrowed, D> {
    /// Its transport.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.inner.transport
    }

    /// Moves to Error, like [`QueuePair::fail`].
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn give_up(&mut self) -> Result<(), Error> {
        let attributes =
            raw::ibv_qp_attr { qp_state: state::IBV_QPS_ERR, ..raw::ibv_qp_attr::default() };
        self.modify(attributes, mask::IBV_QP_STATE)
    }
}

impl QueuePair<Borrowed> {
    /// Posts a receive buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Segments`], [`Error::Post`]: ENOMEM if the queue is full.
    pub fn receive_by_keys(&mut self, id: u64, segments: &[Segment]) -> Result<(), Error> {
        let (mut list, count) = list(segments)?;
        let mut request = raw::ibv_recv_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: list.as_mut_ptr(),
            num_sge: count,
        };
        let mut bad = null_mut();
        // SAFETY: the pair is alive; the library reads the request and its list during the call. The caller of `lend` guarantees the memory.
        let errno = unsafe { raw::ibv_post_recv(self.as_raw(), &mut request, &mut bad) };
        self.inner.posted("ibv_post_recv", errno)
    }

    /// Posts a send request with these SGEs; the request's own SGEs and its inline flag are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`], [`Error::Segments`], [`Error::Post`]: ENOMEM if the queue is full.
    pub fn send_by_keys(
        &mut self,
        request: &Request<'_>,
        segments: &[Segment],
    ) -> Result<(), Error> {
        let transport = self.inner.transport;
        if transport == Transport::Srd || !request.work.suits(transport) {
            return Err(Error::Transport { transport });
        }
        let (mut list, count) = list(segments)?;
        let plain = Request { inline: false, ..*request };
        let mut raw = plain.raw();
        raw.sg_list = list.as_mut_ptr();
        raw.num_sge = count;
        let mut bad = null_mut();
        // SAFETY: as above; a datagram's address handle is borrowed and of the same library, or its owner keeps it, as `BorrowedHandle::new` requires.
        let errno = unsafe { raw::ibv_post_send(self.as_raw(), &mut raw, &mut bad) };
        self.inner.posted("ibv_post_send", errno)
    }
}

/// The SGEs in the library's layout.
fn list(segments: &[Segment]) -> Result<([raw::ibv_sge; MAX_SEGMENTS], c_int), Error> {
    let mut list = [raw::ibv_sge::default(); MAX_SEGMENTS];
    if segments.len() > list.len() {
        return Err(Error::Segments(segments.len()));
    }
    for (entry, segment) in list.iter_mut().zip(segments) {
        *entry = raw::ibv_sge { addr: segment.address, length: segment.length, lkey: segment.key };
    }
    Ok((list, segments.len() as c_int))
}
