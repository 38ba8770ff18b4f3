//! Receives and sends by the CPU.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use engine::Transfer;
use gdr_sys::exports;
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

/// What a message sends or receives.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// A buffer and its size.
    Buffer(*const c_void, c_int),
    /// NULL, misaligned, or an array of blocks, and their number.
    Blocks(*const iovec, c_int),
}

impl Message {
    /// # Safety
    ///
    /// `reg` is NULL, misaligned or readable; blocks are NULL, misaligned, or as many as their number.
    pub unsafe fn of(content: Content, peer: c_int, reg: *const Handle) -> Result<Self, CallError> {
        let library = library()?;
        // SAFETY: the caller's promise.
        let registered = library.regions.get(unsafe { handles::at("reg", reg) }?)?;
        let peer = buffer::rank(peer)?;
        let blocks = match content {
            Content::Buffer(start, size) => vec![registered.range(start, buffer::size(size)?)?],
            // SAFETY: the caller's promise.
            Content::Blocks(v, count) => unsafe { blocks(v, count) }?
                .iter()
                .map(|block| registered.range(block.iov_base, block.iov_len))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self { library, peer, registered, blocks })
    }

    pub fn send(&self) -> Transfer<'_> {
        Transfer::send(self.peer, &self.registered.region, &self.blocks)
    }

    pub fn receive(&self) -> Result<OpenRequest, CallError> {
        let ranks = &self.library.ranks;
        let request = ranks.receive(self.peer, &self.registered.region, &self.blocks)?;
        Ok(OpenRequest { request, has_completion: true })
    }
}

/// # Safety
///
/// `v` is NULL, misaligned, or has `count` blocks.
unsafe fn blocks<'a>(v: *const iovec, count: c_int) -> Result<&'a [iovec], CallError> {
    let max = environment().most_blocks;
    let known = usize::try_from(count).ok().filter(|count| *count <= max);
    let known = known.ok_or(CallError::Value { what: "number of blocks", value: count.into() })?;
    if known == 0 {
        return Ok(&[]);
    }
    handles::check("v", v.cast_mut())?;
    // SAFETY: not NULL and aligned; the caller promises `count` blocks.
    Ok(unsafe { std::slice::from_raw_parts(v, known) })
}

/// Starts a message, and writes its request.
///
/// # Safety
///
/// As [`Message::of`]; `req` is NULL, misaligned or writable.
pub(crate) unsafe fn start(
    content: Content,
    peer: c_int,
    reg: *const Handle,
    req: *mut Handle,
    start: impl FnOnce(&Message) -> Result<OpenRequest, CallError>,
) -> Result<(), CallError> {
    handles::check("req", req)?;
    // SAFETY: the caller's promise.
    let message = unsafe { Message::of(content, peer, reg) }?;
    let request = start(&message)?;
    // SAFETY: checked; the caller promises that it is writable.
    unsafe { handles::put(req, message.library.requests.add(request)) };
    Ok(())
}

/// Sends by the CPU.
pub(crate) fn send(message: &Message) -> Result<OpenRequest, CallError> {
    Ok(OpenRequest { request: message.library.ranks.start(&message.send())?, has_completion: true })
}

exports!(
    use guard::call;

    /// Posts a receive.
    ///
    /// # Safety
    ///
    /// `mp_reg` is NULL, misaligned or readable, `req` is NULL, misaligned or writable. The memory stays registered until the request has ended.
    pub unsafe fn mp_irecv(
        buf: *mut c_void,
        size: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let content = Content::Buffer(buf, size);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, Message::receive) }
    }

    /// Posts a receive, at once: receives need no stream. libmp exports it without a declaration.
    ///
    /// # Safety
    ///
    /// As [`mp_irecv`].
    pub unsafe fn mp_irecv_on_stream(
        buf: *mut c_void,
        size: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
        _stream: CudaStream,
    ) -> c_int {
        let content = Content::Buffer(buf, size);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, Message::receive) }
    }

    /// Posts a receive into several blocks.
    ///
    /// # Safety
    ///
    /// As [`mp_irecv`]; `v` is NULL, misaligned, or has `nblocks` blocks.
    pub unsafe fn mp_irecvv(
        v: *mut iovec,
        nblocks: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let content = Content::Blocks(v, nblocks);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, Message::receive) }
    }

    /// Starts a send.
    ///
    /// # Safety
    ///
    /// As [`mp_irecv`].
    pub unsafe fn mp_isend(
        buf: *mut c_void,
        size: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let content = Content::Buffer(buf, size);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, send) }
    }

    /// Starts a send of several blocks.
    ///
    /// # Safety
    ///
    /// As [`mp_irecvv`].
    pub unsafe fn mp_isendv(
        v: *mut iovec,
        nblocks: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let content = Content::Blocks(v, nblocks);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, send) }
    }
);
