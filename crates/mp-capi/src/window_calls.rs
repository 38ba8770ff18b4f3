//! Windows, puts and gets.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use engine::{Request, Transfer, Window};
use gdr_sys::exports;

use crate::abi::{self, CudaStream, Handle};
use crate::call_error::CallError;
use crate::library::{Library, OpenRequest, library};
use crate::message_calls::{Content, Message};
use crate::stream::ForeignStream;
use crate::stream_calls::post_all;
use crate::{buffer, guard, handles};

exports!(
    use guard::call;

    /// Creates a window of every rank's memory.
    ///
    /// # Safety
    ///
    /// `addr` is NULL, or memory of `size` bytes that stays allocated until the window is destroyed; `window` is NULL, misaligned or writable.
    pub unsafe fn mp_window_create(addr: *mut c_void, size: usize, window: *mut Handle) -> c_int {
        handles::check("window", window)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let registered = unsafe { buffer::register(&library, addr, size) }?;
        let created = library.ranks.window(&registered.region)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(window, library.windows.add(created)) };
        Ok(())
    }

    /// Ends this rank's part of a window.
    ///
    /// # Safety
    ///
    /// `window` is NULL, misaligned or readable.
    pub unsafe fn mp_window_destroy(window: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("window", window) }?;
        library()?.windows.remove(handle)?.region().revoke();
        Ok(())
    }

    /// Starts a put by the CPU.
    ///
    /// # Safety
    ///
    /// As [`mp_iput_on_stream`], without a stream.
    pub unsafe fn mp_iput(
        src: *mut c_void,
        size: c_int,
        src_reg: *mut Handle,
        peer: c_int,
        displ: usize,
        dst_window: *mut Handle,
        req: *mut Handle,
        flags: c_int,
    ) -> c_int {
        let put =
            OneSided { buffer: src, size, reg: src_reg, peer, displ, window: dst_window, req };
        // SAFETY: the caller's promise.
        unsafe { put.put(flags, By::Cpu) }
    }

    /// Starts a put when the stream reaches it.
    ///
    /// # Safety
    ///
    /// `src_reg` and `dst_window` are NULL, misaligned or readable, `req` is NULL, misaligned or writable; `stream` is live or a default one.
    /// The memory stays registered until the put has ended.
    pub unsafe fn mp_iput_on_stream(
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
        let put =
            OneSided { buffer: src, size, reg: src_reg, peer, displ, window: dst_window, req };
        // SAFETY: the caller's promise.
        unsafe { put.put(flags, By::Stream(stream)) }
    }

    /// Prepares a put.
    ///
    /// # Safety
    ///
    /// As [`mp_iput`].
    pub unsafe fn mp_put_prepare(
        src: *mut c_void,
        size: c_int,
        src_reg: *mut Handle,
        peer: c_int,
        displ: usize,
        dst_window: *mut Handle,
        req: *mut Handle,
        flags: c_int,
    ) -> c_int {
        let put =
            OneSided { buffer: src, size, reg: src_reg, peer, displ, window: dst_window, req };
        // SAFETY: the caller's promise.
        unsafe { put.put(flags, By::Prepared) }
    }

    /// Posts a prepared put.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned or readable; `stream` is live or a default one.
    pub unsafe fn mp_iput_post_on_stream(req: *mut Handle, stream: CudaStream) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(1, req, stream, false) }
    }

    /// Posts prepared puts.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned, or has `count` handles; `stream` is live or a default one.
    pub unsafe fn mp_iput_post_all_on_stream(
        count: u32,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(count, req, stream, false) }
    }

    /// Starts a get by the CPU.
    ///
    /// # Safety
    ///
    /// As [`mp_iput`].
    pub unsafe fn mp_iget(
        dst: *mut c_void,
        size: c_int,
        dst_reg: *mut Handle,
        peer: c_int,
        displ: usize,
        src_window: *mut Handle,
        req: *mut Handle,
    ) -> c_int {
        let get =
            OneSided { buffer: dst, size, reg: dst_reg, peer, displ, window: src_window, req };
        // SAFETY: the caller's promise.
        unsafe { get.get(By::Cpu) }
    }

    /// Starts a get when the stream reaches it. libmp exports it without a declaration.
    ///
    /// # Safety
    ///
    /// As [`mp_iput_on_stream`].
    pub unsafe fn mp_iget_on_stream(
        dst: *mut c_void,
        size: c_int,
        dst_reg: *mut Handle,
        peer: c_int,
        displ: usize,
        src_window: *mut Handle,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        let get =
            OneSided { buffer: dst, size, reg: dst_reg, peer, displ, window: src_window, req };
        // SAFETY: the caller's promise.
        unsafe { get.get(By::Stream(stream)) }
    }
);

/// The arguments of a put or get.
struct OneSided {
    buffer: *const c_void,
    size: c_int,
    reg: *const Handle,
    peer: c_int,
    displ: usize,
    window: *const Handle,
    req: *mut Handle,
}

impl OneSided {
    /// Starts a put, and writes its request.
    ///
    /// # Safety
    ///
    /// As [`mp_iput_on_stream`].
    unsafe fn put(self, flags: c_int, by: By) -> Result<(), CallError> {
        // SAFETY: the caller's promise.
        let (message, window) = unsafe { self.find() }?;
        if flags & !(abi::PUT_INLINE | abi::PUT_NOWAIT) != 0 {
            let (what, value) = ("enum mp_put_flags", flags.into());
            return Err(CallError::Value { what, value });
        }
        let has_completion = flags & abi::PUT_NOWAIT == 0;
        let Message { library, peer, registered, blocks } = &message;
        let mut put = Transfer::put(*peer, &window, self.displ as u64, &registered.region, blocks);
        if flags & abi::PUT_INLINE != 0 {
            put = put.inline();
        }
        if !has_completion {
            put = put.without_completion();
        }
        // SAFETY: as above.
        let request = unsafe { by.start(library, &put) }?;
        let handle = library.requests.add(OpenRequest { request, has_completion });
        if !has_completion && !matches!(by, By::Prepared) {
            let _ = library.requests.remove(handle);
        }
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(self.req, handle) };
        Ok(())
    }

    /// Starts a get, and writes its request.
    ///
    /// # Safety
    ///
    /// As [`mp_iget_on_stream`].
    unsafe fn get(self, by: By) -> Result<(), CallError> {
        // SAFETY: the caller's promise.
        let (message, window) = unsafe { self.find() }?;
        let Message { library, peer, registered, blocks } = &message;
        let get = Transfer::get(*peer, &window, self.displ as u64, &registered.region, blocks);
        // SAFETY: as above.
        let request = unsafe { by.start(library, &get) }?;
        let handle = library.requests.add(OpenRequest { request, has_completion: true });
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(self.req, handle) };
        Ok(())
    }

    /// Checks the arguments.
    ///
    /// # Safety
    ///
    /// `reg` and `window` are NULL, misaligned or readable.
    unsafe fn find(&self) -> Result<(Message, Arc<Window>), CallError> {
        handles::check("req", self.req)?;
        let content = Content::Buffer(self.buffer, self.size);
        // SAFETY: the caller's promise.
        let message = unsafe { Message::of(content, self.peer, self.reg) }?;
        // SAFETY: as above.
        let handle = unsafe { handles::at("window", self.window) }?;
        let window = message.library.windows.get(handle)?;
        Ok((message, window))
    }
}

/// How a transfer is started.
#[derive(Clone, Copy)]
enum By {
    Cpu,
    Stream(CudaStream),
    Prepared,
}

impl By {
    /// # Safety
    ///
    /// A stream is live or a default one.
    unsafe fn start(
        self,
        library: &Library,
        transfer: &Transfer<'_>,
    ) -> Result<Request, CallError> {
        Ok(match self {
            Self::Cpu => library.ranks.start(transfer)?,
            Self::Prepared => library.ranks.prepare(transfer)?,
            Self::Stream(stream) => {
                // SAFETY: the caller's promise.
                let stream = unsafe { ForeignStream::new(stream) };
                library.ranks.start_on(&stream, transfer)?
            }
        })
    }
}
