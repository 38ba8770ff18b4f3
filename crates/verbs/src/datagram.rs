//! Destinations of datagrams.

use std::ptr::NonNull;

use ibverbs_sys as raw;

use crate::{Address, Error, ProtectionDomain, Route};

/// The destination of a datagram: address handle, queue pair number and Q_Key.
#[derive(Debug)]
pub struct Datagram {
    handle: NonNull<raw::ibv_ah>,
    queue_pair: u32,
    qkey: u32,
    domain: ProtectionDomain,
}

// SAFETY: verbs are thread safe, and only this value destroys the handle.
unsafe impl Send for Datagram {}

impl ProtectionDomain {
    /// Creates an address handle to a queue pair.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn datagram(
        &self,
        route: Route,
        address: Address,
        queue_pair: u32,
        qkey: u32,
    ) -> Result<Datagram, Error> {
        let mut attributes = route.to(address);
        // SAFETY: the domain is alive.
        let handle = unsafe { raw::ibv_create_ah(self.as_raw(), &mut attributes) };
        Ok(Datagram {
            handle: self.context().check_pointer("ibv_create_ah", handle)?,
            queue_pair,
            qkey,
            domain: self.clone(),
        })
    }
}

impl Datagram {
    /// The destination's queue pair number.
    #[must_use]
    pub fn queue_pair(&self) -> u32 {
        self.queue_pair
    }

    /// The destination's Q_Key.
    #[must_use]
    pub fn qkey(&self) -> u32 {
        self.qkey
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    pub(crate) fn handle(&self) -> NonNull<raw::ibv_ah> {
        self.handle
    }

    pub(crate) fn raw(&self) -> raw::ibv_send_wr_datagram {
        Handle::Own(self).to(self.queue_pair, self.qkey)
    }
}

/// A program's address handle, which the program destroys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BorrowedHandle(NonNull<raw::ibv_ah>);

// SAFETY: verbs are thread safe, and only read the handle.
unsafe impl Send for BorrowedHandle {}
// SAFETY: as above.
unsafe impl Sync for BorrowedHandle {}

/// An address handle.
#[derive(Debug, Clone, Copy)]
pub enum Handle<'a> {
    /// That of a destination, whose QPN and Q_Key are not used.
    Own(&'a Datagram),
    /// A program's.
    Borrowed(BorrowedHandle),
}

impl Handle<'_> {
    pub(crate) fn to(self, queue_pair: u32, qkey: u32) -> raw::ibv_send_wr_datagram {
        let handle = match self {
            Self::Own(datagram) => datagram.handle,
            Self::Borrowed(BorrowedHandle(handle)) => handle,
        };
        raw::ibv_send_wr_datagram { ah: handle.as_ptr(), remote_qpn: queue_pair, remote_qkey: qkey }
    }
}

impl BorrowedHandle {
    /// Borrows an address handle.
    ///
    /// # Safety
    ///
    /// It is live while requests are posted with it, and belongs to the device and protection domain of their queue pair.
    #[must_use]
    pub unsafe fn new(handle: NonNull<raw::ibv_ah>) -> Self {
        Self(handle)
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        // SAFETY: alive, and destroyed only here.
        unsafe { raw::ibv_destroy_ah(self.handle.as_ptr()) };
    }
}
