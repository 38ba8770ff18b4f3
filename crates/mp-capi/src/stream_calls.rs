//! Sends by streams, in one step or in two.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use gdr_sys::exports;
use libc::iovec;

use crate::abi::{CudaStream, Handle};
use crate::call_error::CallError;
use crate::library::{Library, OpenRequest, library};
use crate::message_calls::{Content, Message, start};
use crate::stream::ForeignStream;
use crate::{guard, handles};

/// Sends on a stream; `waits` makes the stream wait for the completion.
///
/// # Safety
///
/// `stream` is live or a default one.
unsafe fn send_on(
    message: &Message,
    stream: CudaStream,
    waits: bool,
) -> Result<OpenRequest, CallError> {
    let ranks = &message.library.ranks;
    // SAFETY: the caller's promise.
    let stream = unsafe { ForeignStream::new(stream) };
    let request = ranks.start_on(&stream, &message.send())?;
    if waits {
        ranks.wait_on(&stream, [&request])?;
    }
    Ok(OpenRequest { request, has_completion: true })
}

exports!(
    use guard::call;

    /// Sends when the stream reaches it, and makes the stream wait for the completion.
    ///
    /// # Safety
    ///
    /// As [`mp_irecv`](crate::mp_irecv); `stream` is live or a default one.
    pub unsafe fn mp_send_on_stream(
        buf: *mut c_void,
        size: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let send = |message: &Message| unsafe { send_on(message, stream, true) };
        let content = Content::Buffer(buf, size);
        // SAFETY: as above.
        unsafe { start(content, peer, mp_reg, req, send) }
    }

    /// Sends when the stream reaches it.
    ///
    /// # Safety
    ///
    /// As [`mp_send_on_stream`].
    pub unsafe fn mp_isend_on_stream(
        buf: *mut c_void,
        size: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let send = |message: &Message| unsafe { send_on(message, stream, false) };
        let content = Content::Buffer(buf, size);
        // SAFETY: as above.
        unsafe { start(content, peer, mp_reg, req, send) }
    }

    /// Sends several blocks when the stream reaches it.
    ///
    /// # Safety
    ///
    /// As [`mp_irecvv`](crate::mp_irecvv); `stream` is live or a default one.
    pub unsafe fn mp_isendv_on_stream(
        v: *mut iovec,
        nblocks: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let send = |message: &Message| unsafe { send_on(message, stream, false) };
        let content = Content::Blocks(v, nblocks);
        // SAFETY: as above.
        unsafe { start(content, peer, mp_reg, req, send) }
    }

    /// Prepares a send.
    ///
    /// # Safety
    ///
    /// As [`mp_irecv`](crate::mp_irecv).
    pub unsafe fn mp_send_prepare(
        buf: *mut c_void,
        size: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let content = Content::Buffer(buf, size);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, prepare) }
    }

    /// Prepares a send of several blocks.
    ///
    /// # Safety
    ///
    /// As [`mp_irecvv`](crate::mp_irecvv).
    pub unsafe fn mp_sendv_prepare(
        v: *mut iovec,
        nblocks: c_int,
        peer: c_int,
        mp_reg: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let content = Content::Blocks(v, nblocks);
        // SAFETY: the caller's promise.
        unsafe { start(content, peer, mp_reg, req, prepare) }
    }

    /// Posts a prepared request, and makes the stream wait for it.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned or readable; `stream` is live or a default one.
    pub unsafe fn mp_send_post_on_stream(req: *mut Handle, stream: CudaStream) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(1, req, stream, true) }
    }

    /// Posts a prepared request.
    ///
    /// # Safety
    ///
    /// As [`mp_send_post_on_stream`].
    pub unsafe fn mp_isend_post_on_stream(req: *mut Handle, stream: CudaStream) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(1, req, stream, false) }
    }

    /// Posts prepared requests, and makes the stream wait for them.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned, or has `count` handles; `stream` is live or a default one.
    pub unsafe fn mp_send_post_all_on_stream(
        count: u32,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(count, req, stream, true) }
    }

    /// Posts prepared requests.
    ///
    /// # Safety
    ///
    /// As [`mp_send_post_all_on_stream`].
    pub unsafe fn mp_isend_post_all_on_stream(
        count: u32,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(count, req, stream, false) }
    }
);

fn prepare(message: &Message) -> Result<OpenRequest, CallError> {
    Ok(OpenRequest {
        request: message.library.ranks.prepare(&message.send())?,
        has_completion: true,
    })
}

/// Posts prepared requests on a stream; `waits` makes the stream wait for them.
///
/// # Safety
///
/// `req` is NULL, misaligned, or has `count` handles; `stream` is live or a default one.
pub(crate) unsafe fn post_all(
    count: u32,
    req: *mut Handle,
    stream: CudaStream,
    waits: bool,
) -> Result<(), CallError> {
    let library = library()?;
    // SAFETY: the caller's promise.
    let handles = unsafe { handles::all("req", req, count as usize) }?;
    let requests = requests(&library, &handles)?;
    // SAFETY: as above.
    let stream = unsafe { ForeignStream::new(stream) };
    let all = || requests.iter().map(|open| &open.request);
    library.ranks.post_on(&stream, all())?;
    if waits {
        library.ranks.wait_on(&stream, all())?;
    }
    for (open, handle) in requests.iter().zip(handles) {
        if !open.has_completion {
            let _ = library.requests.remove(handle);
        }
    }
    Ok(())
}

/// The requests of handles.
pub(crate) fn requests(
    library: &Library,
    handles: &[Handle],
) -> Result<Vec<Arc<OpenRequest>>, CallError> {
    let get = |handle: &Handle| library.requests.get(*handle);
    handles.iter().map(get).collect()
}
