//! Receives and sends by the CPU.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use engine::Transfer;
use libc::iovec;

use crate::abi::{CudaStream, Handle};
use crate::call_error::CallError;
use crate::environment::environment;
use crate::library::{Library, OpenRequest, Registered, library};
use crate::{buffer, guard, handles};

/// The arguments that all messages have.
pub(crate) struct Message {
    pub library: Arc<Library>,
    pub peer: u32,
    pub registered: Arc<Registered>,
    pub blocks: Vec<Range<usize>>,
}

impl Message {
    /// # Safety
    ///
    /// `reg` is NULL, misaligned or readable.
    pub unsafe fn of(
        buffer: *const c_void,
        size: c_int,
        peer: c_int,
        reg: *const Handle,
    ) -> Result<Self, CallError> {
        // SAFETY: the caller's promise.
        let mut message = unsafe { Self::start(peer, reg) }?;
        let block = message.registered.range(buffer, buffer::size(size)?)?;
        message.blocks.push(block);
        Ok(message)
    }

    /// # Safety
    ///
    /// `reg` is NULL, misaligned or readable; `v` is NULL, misaligned, or has `count` blocks.
    pub unsafe fn of_blocks(
        v: *const iovec,
        count: c_int,
        peer: c_int,
        reg: *const Handle,
    ) -> Result<Self, CallError> {
        // SAFETY: the caller's promise.
        let mut message = unsafe { Self::start(peer, reg) }?;
        let most = environment().most_blocks;
        let known = usize::try_from(count).ok().filter(|count| *count <= most);
        let known =
            known.ok_or(CallError::Value { what: "number of blocks", value: count.into() })?;
        if known > 0 {
            handles::check("v", v.cast_mut())?;
            // SAFETY: not NULL and aligned; the caller promises `count` blocks.
            for block in unsafe { std::slice::from_raw_parts(v, known) } {
                let range = message.registered.range(block.iov_base, block.iov_len)?;
                message.blocks.push(range);
            }
        }
        Ok(message)
    }

    /// # Safety
    ///
    /// `reg` is NULL, misaligned or readable.
    unsafe fn start(peer: c_int, reg: *const Handle) -> Result<Self, CallError> {
        let library = library()?;
        // SAFETY: the caller's promise.
        let registered = library.regions.get(unsafe { handles::at("reg", reg) }?)?;
        Ok(Self { library, peer: buffer::rank(peer)?, registered, blocks: Vec::new() })
    }

    /// The send.
    pub fn send(&self) -> Transfer<'_> {
        Transfer::send(self.peer, &self.registered.region, &self.blocks)
    }

    pub fn receive(&self) -> Result<OpenRequest, CallError> {
        let ranks = &self.library.ranks;
        let request = ranks.receive(self.peer, &self.registered.region, &self.blocks)?;
        Ok(OpenRequest { request, has_completion: true })
    }
}

/// Starts a message, and writes its request.
///
/// # Safety
///
/// `req` is NULL, misaligned or writable.
pub(crate) unsafe fn start(
    function: &'static str,
    req: *mut Handle,
    message: impl FnOnce() -> Result<Message, CallError>,
    start: impl FnOnce(&Message) -> Result<OpenRequest, CallError>,
) -> c_int {
    guard::call(function, || {
        handles::check("req", req)?;
        let message = message()?;
        let request = start(&message)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(req, message.library.requests.add(request)) };
        Ok(())
    })
}

/// Sends by the CPU.
pub(crate) fn send(message: &Message) -> Result<OpenRequest, CallError> {
    Ok(OpenRequest { request: message.library.ranks.start(&message.send())?, has_completion: true })
}

/// Posts a receive.
///
/// # Safety
///
/// `mp_reg` is NULL, misaligned or readable, `req` is NULL, misaligned or writable. The memory stays registered until the request has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_irecv(
    buf: *mut c_void,
    size: c_int,
    peer: c_int,
    mp_reg: *mut Handle,
    req: *mut Handle,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = || unsafe { Message::of(buf, size, peer, mp_reg) };
    // SAFETY: as above.
    unsafe { start("mp_irecv", req, message, Message::receive) }
}

/// Posts a receive, at once: receives need no stream. libmp exports it without a declaration.
///
/// # Safety
///
/// As [`mp_irecv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_irecv_on_stream(
    buf: *mut c_void,
    size: c_int,
    peer: c_int,
    mp_reg: *mut Handle,
    req: *mut Handle,
    _stream: CudaStream,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = || unsafe { Message::of(buf, size, peer, mp_reg) };
    // SAFETY: as above.
    unsafe { start("mp_irecv_on_stream", req, message, Message::receive) }
}

/// Posts a receive into several blocks.
///
/// # Safety
///
/// As [`mp_irecv`]; `v` is NULL, misaligned, or has `nblocks` blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_irecvv(
    v: *mut iovec,
    nblocks: c_int,
    peer: c_int,
    mp_reg: *mut Handle,
    req: *mut Handle,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = || unsafe { Message::of_blocks(v, nblocks, peer, mp_reg) };
    // SAFETY: as above.
    unsafe { start("mp_irecvv", req, message, Message::receive) }
}

/// Starts a send.
///
/// # Safety
///
/// As [`mp_irecv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_isend(
    buf: *mut c_void,
    size: c_int,
    peer: c_int,
    mp_reg: *mut Handle,
    req: *mut Handle,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = || unsafe { Message::of(buf, size, peer, mp_reg) };
    // SAFETY: as above.
    unsafe { start("mp_isend", req, message, send) }
}

/// Starts a send of several blocks.
///
/// # Safety
///
/// As [`mp_irecvv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_isendv(
    v: *mut iovec,
    nblocks: c_int,
    peer: c_int,
    mp_reg: *mut Handle,
    req: *mut Handle,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = || unsafe { Message::of_blocks(v, nblocks, peer, mp_reg) };
    // SAFETY: as above.
    unsafe { start("mp_isendv", req, message, send) }
}
