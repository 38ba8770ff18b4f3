//! Asynchronous events: port and queue failures.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use ibverbs_sys::{self as raw, ibv_event_type as kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Context, Error};

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A port is up.
    PortActive(u8),
    /// A port is down.
    PortDown(u8),
    /// A port's LID, P_Keys, GIDs or subnet manager changed; the number says which.
    PortChanged(u8, u32),
    /// A queue pair failed: its number, and the event's.
    QueuePair(u32, u32),
    /// A completion queue overran and must be replaced.
    CompletionQueue,
    /// The device failed.
    Device,
    /// Another event, by its number.
    Other(u32),
}

impl Context {
    /// The next event, or none within the timeout.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn event(&self, timeout: Duration) -> Result<Option<Event>, Error> {
        // SAFETY: the context and its file are open as long as this value.
        let file = unsafe { BorrowedFd::borrow_raw((*self.as_raw()).async_fd) };
        if !wait(file, timeout).map_err(|source| self.call("poll of its events", source))? {
            return Ok(None);
        }
        let mut event = raw::ibv_async_event::default();
        // SAFETY: the context is open, and the output is valid. An event is pending, so the call does not block.
        if unsafe { raw::ibv_get_async_event(self.as_raw(), &mut event) } != 0 {
            return Err(self.call("ibv_get_async_event", io::Error::last_os_error()));
        }
        let read = read(&event);
        // SAFETY: the event was just read, and is acknowledged once.
        unsafe { raw::ibv_ack_async_event(&mut event) };
        Ok(Some(read))
    }
}

fn read(event: &raw::ibv_async_event) -> Event {
    let number = event.event_type;
    // SAFETY: the union's member for port events (ibv_get_async_event.3).
    let port = || unsafe { event.element.port_num } as u8;
    match number {
        kind::IBV_EVENT_PORT_ACTIVE => Event::PortActive(port()),
        kind::IBV_EVENT_PORT_ERR => Event::PortDown(port()),
        kind::IBV_EVENT_LID_CHANGE
        | kind::IBV_EVENT_PKEY_CHANGE
        | kind::IBV_EVENT_SM_CHANGE
        | kind::IBV_EVENT_CLIENT_REREGISTER
        | kind::IBV_EVENT_GID_CHANGE => Event::PortChanged(port(), number),
        kind::IBV_EVENT_QP_FATAL
        | kind::IBV_EVENT_QP_REQ_ERR
        | kind::IBV_EVENT_QP_ACCESS_ERR
        | kind::IBV_EVENT_COMM_EST
        | kind::IBV_EVENT_SQ_DRAINED
        | kind::IBV_EVENT_PATH_MIG
        | kind::IBV_EVENT_PATH_MIG_ERR
        | kind::IBV_EVENT_QP_LAST_WQE_REACHED => {
            // SAFETY: the union's member for queue pair events; the pair cannot be destroyed before the acknowledgement.
            let pair = unsafe { event.element.qp.as_ref() };
            Event::QueuePair(pair.map_or(0, |pair| pair.qp_num), number)
        }
        kind::IBV_EVENT_CQ_ERR => Event::CompletionQueue,
        kind::IBV_EVENT_DEVICE_FATAL => Event::Device,
        other => Event::Other(other),
    }
}

/// True if a file becomes readable within the timeout.
pub(crate) fn wait(file: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let limit =
        Timespec::try_from(timeout).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    loop {
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => return Ok(ready > 0),
            // EINTR: poll does not report the remaining time, so the wait starts again.
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
