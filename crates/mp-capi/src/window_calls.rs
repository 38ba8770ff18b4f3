//! Windows, puts and gets.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use engine::{Transfer, Window};

use crate::abi::{self, CudaStream, Handle};
use crate::call_error::CallError;
use crate::library::{OpenRequest, library};
use crate::message_calls::{Message, start};
use crate::stream::ForeignStream;
use crate::stream_calls::post_all;
use crate::{buffer, guard, handles};

/// Creates a window of every rank's memory.
///
/// # Safety
///
/// `addr` is NULL, or memory of `size` bytes that stays allocated until the window is destroyed; `window` is NULL, misaligned or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_window_create(
    addr: *mut c_void,
    size: usize,
    window: *mut Handle,
) -> c_int {
    guard::call("mp_window_create", || {
        handles::check("window", window)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let registered = unsafe { buffer::register(&library, addr, size) }?;
        let created = library.ranks.window(&registered.region)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(window, library.windows.add(created)) };
        Ok(())
    })
}

/// Ends this rank's part of a window.
///
/// # Safety
///
/// `window` is NULL, misaligned or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_window_destroy(window: *mut Handle) -> c_int {
    guard::call("mp_window_destroy", || {
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("window", window) }?;
        library()?.windows.remove(handle)?.region().revoke();
        Ok(())
    })
}

/// The arguments of a put or get.
struct OneSided {
    message: Message,
    window: Arc<Window>,
    offset: u64,
}

/// How a transfer is started.
#[derive(Clone, Copy)]
enum By {
    Cpu,
    Stream(CudaStream),
    Prepared,
}

impl OneSided {
    /// # Safety
    ///
    /// `window` is NULL, misaligned or readable.
    unsafe fn of(
        message: Message,
        offset: usize,
        window: *const Handle,
    ) -> Result<Self, CallError> {
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("window", window) }?;
        Ok(Self { window: message.library.windows.get(handle)?, message, offset: offset as u64 })
    }

    fn put(&self, flags: c_int) -> Result<Transfer<'_>, CallError> {
        if flags & !(abi::PUT_INLINE | abi::PUT_NOWAIT) != 0 {
            let (what, value) = ("enum mp_put_flags", flags.into());
            return Err(CallError::Value { what, value });
        }
        let Message { peer, registered, blocks, .. } = &self.message;
        let mut put = Transfer::put(*peer, &self.window, self.offset, &registered.region, blocks);
        if flags & abi::PUT_INLINE != 0 {
            put = put.inline();
        }
        if flags & abi::PUT_NOWAIT != 0 {
            put = put.without_completion();
        }
        Ok(put)
    }

    fn get(&self) -> Transfer<'_> {
        let Message { peer, registered, blocks, .. } = &self.message;
        Transfer::get(*peer, &self.window, self.offset, &registered.region, blocks)
    }

    /// # Safety
    ///
    /// A stream is live or a default one.
    unsafe fn start(
        &self,
        transfer: &Transfer<'_>,
        has_completion: bool,
        by: By,
    ) -> Result<OpenRequest, CallError> {
        let ranks = &self.message.library.ranks;
        let request = match by {
            By::Cpu => ranks.start(transfer)?,
            By::Prepared => ranks.prepare(transfer)?,
            By::Stream(stream) => {
                // SAFETY: the caller's promise.
                let stream = unsafe { ForeignStream::new(stream) };
                ranks.start_on(&stream, transfer)?
            }
        };
        Ok(OpenRequest { request, has_completion })
    }
}

/// # Safety
///
/// As [`mp_iput_on_stream`].
#[expect(clippy::too_many_arguments, reason = "those of the C functions")]
unsafe fn put(
    function: &'static str,
    src: *mut c_void,
    size: c_int,
    reg: *mut Handle,
    peer: c_int,
    displ: usize,
    window: *mut Handle,
    req: *mut Handle,
    flags: c_int,
    by: By,
) -> c_int {
    guard::call(function, || {
        handles::check("req", req)?;
        // SAFETY: the caller's promise.
        let message = unsafe { Message::of(src, size, peer, reg) }?;
        // SAFETY: as above.
        let one_sided = unsafe { OneSided::of(message, displ, window) }?;
        let has_completion = flags & abi::PUT_NOWAIT == 0;
        let put = one_sided.put(flags)?;
        // SAFETY: as above.
        let request = unsafe { one_sided.start(&put, has_completion, by) }?;
        let requests = &one_sided.message.library.requests;
        let handle = requests.add(request);
        if !has_completion && !matches!(by, By::Prepared) {
            let _ = requests.remove(handle);
        }
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(req, handle) };
        Ok(())
    })
}

/// Starts a put by the CPU.
///
/// # Safety
///
/// As [`mp_iput_on_stream`], without a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_iput(
    src: *mut c_void,
    size: c_int,
    src_reg: *mut Handle,
    peer: c_int,
    displ: usize,
    dst_window: *mut Handle,
    req: *mut Handle,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put("mp_iput", src, size, src_reg, peer, displ, dst_window, req, flags, By::Cpu) }
}

/// Starts a put when the stream reaches it.
///
/// # Safety
///
/// `src_reg` and `dst_window` are NULL, misaligned or readable, `req` is NULL, misaligned or writable; `stream` is live or a default one.
/// The memory stays registered until the put has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_iput_on_stream(
    src: *mut c_void,
    size: c_int,
    src_reg: *mut Handle,
    peer: c_int,
    displ: usize,
    dst_window: *mut Handle,
    req: *mut Handle,
    flags: c_int,
    stream: CudaStream,
) -> c_int {
    let by = By::Stream(stream);
    // SAFETY: the caller's promise.
    unsafe { put("mp_iput_on_stream", src, size, src_reg, peer, displ, dst_window, req, flags, by) }
}

/// Prepares a put.
///
/// # Safety
///
/// As [`mp_iput`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_put_prepare(
    src: *mut c_void,
    size: c_int,
    src_reg: *mut Handle,
    peer: c_int,
    displ: usize,
    dst_window: *mut Handle,
    req: *mut Handle,
    flags: c_int,
) -> c_int {
    let by = By::Prepared;
    // SAFETY: the caller's promise.
    unsafe { put("mp_put_prepare", src, size, src_reg, peer, displ, dst_window, req, flags, by) }
}

/// Posts a prepared put.
///
/// # Safety
///
/// `req` is NULL, misaligned or readable; `stream` is live or a default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_iput_post_on_stream(req: *mut Handle, stream: CudaStream) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { post_all("mp_iput_post_on_stream", 1, req, stream, false) }
}

/// Posts prepared puts.
///
/// # Safety
///
/// `req` is NULL, misaligned, or has `count` handles; `stream` is live or a default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_iput_post_all_on_stream(
    count: u32,
    req: *mut Handle,
    stream: CudaStream,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { post_all("mp_iput_post_all_on_stream", count, req, stream, false) }
}

/// # Safety
///
/// As [`mp_iget_on_stream`].
#[expect(clippy::too_many_arguments, reason = "those of the C functions")]
unsafe fn get(
    function: &'static str,
    dst: *mut c_void,
    size: c_int,
    reg: *mut Handle,
    peer: c_int,
    displ: usize,
    window: *mut Handle,
    req: *mut Handle,
    by: By,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = || unsafe { Message::of(dst, size, peer, reg) };
    let started = |message: &Message| {
        let message = Message {
            library: Arc::clone(&message.library),
            peer: message.peer,
            registered: Arc::clone(&message.registered),
            blocks: message.blocks.clone(),
        };
        // SAFETY: as above.
        let one_sided = unsafe { OneSided::of(message, displ, window) }?;
        // SAFETY: as above.
        unsafe { one_sided.start(&one_sided.get(), true, by) }
    };
    // SAFETY: as above.
    unsafe { start(function, req, message, started) }
}

/// Starts a get by the CPU.
///
/// # Safety
///
/// As [`mp_iput`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_iget(
    dst: *mut c_void,
    size: c_int,
    dst_reg: *mut Handle,
    peer: c_int,
    displ: usize,
    src_window: *mut Handle,
    req: *mut Handle,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { get("mp_iget", dst, size, dst_reg, peer, displ, src_window, req, By::Cpu) }
}

/// Starts a get when the stream reaches it. libmp exports it without a declaration.
///
/// # Safety
///
/// As [`mp_iput_on_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_iget_on_stream(
    dst: *mut c_void,
    size: c_int,
    dst_reg: *mut Handle,
    peer: c_int,
    displ: usize,
    src_window: *mut Handle,
    req: *mut Handle,
    stream: CudaStream,
) -> c_int {
    let by = By::Stream(stream);
    // SAFETY: the caller's promise.
    unsafe { get("mp_iget_on_stream", dst, size, dst_reg, peer, displ, src_window, req, by) }
}
