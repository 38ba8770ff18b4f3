//! Waits for requests and words, by the CPU and by streams.

use std::ffi::c_int;

use engine::{Condition, Error};
use gdr_sys::exports;
use gpu::{Compare, bytes};

use crate::abi::{self, CudaStream, Handle};
use crate::call_error::CallError;
use crate::environment::environment;
use crate::library::{Library, library};
use crate::stream::ForeignStream;
use crate::stream_calls::requests;
use crate::{guard, handles};

exports!(
    use guard::call;

    /// Waits for a request and frees it.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned or readable.
    pub unsafe fn mp_wait(req: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("req", req) }?;
        wait(&*library()?, handle)
    }

    /// Waits for requests and frees them, also if one fails. The result is that of the first that failed.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned, or has `count` handles.
    pub unsafe fn mp_wait_all(count: u32, req: *mut Handle) -> c_int {
        let library = library()?;
        // SAFETY: the caller's promise.
        let handles = unsafe { handles::all("req", req, count as usize) }?;
        wait_all(&library, handles)
    }

    /// Makes a stream wait for a request.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned or readable; `stream` is live or a default one.
    pub unsafe fn mp_wait_on_stream(req: *mut Handle, stream: CudaStream) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { wait_on(1, req, stream) }
    }

    /// Makes a stream wait for requests.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned, or has `count` handles; `stream` is live or a default one.
    pub unsafe fn mp_wait_all_on_stream(count: u32, req: *mut Handle, stream: CudaStream) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { wait_on(count, req, stream) }
    }

    /// Waits for a word by the CPU.
    ///
    /// # Safety
    ///
    /// `ptr` is NULL, misaligned, or a word of host memory.
    pub unsafe fn mp_wait32(ptr: *mut u32, value: u32, flags: c_int) -> c_int {
        let condition = condition(flags, value, abi::WAIT_AND)?;
        handles::check("ptr", ptr)?;
        // SAFETY: not NULL and aligned; the caller promises a word of host memory.
        let load = || unsafe { bytes::load32(ptr.cast()) };
        Ok(condition.wait(environment().timeout, load)?)
    }

    /// Makes a stream wait for a word of host memory.
    ///
    /// # Safety
    ///
    /// `ptr` is NULL, misaligned, or a word of host memory that stays mapped until the stream has passed; `stream` is live or a default one.
    pub unsafe fn mp_wait32_on_stream(
        ptr: *mut u32,
        value: u32,
        flags: c_int,
        stream: CudaStream,
    ) -> c_int {
        let condition = condition(flags, value, abi::WAIT_AND)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let word = unsafe { library.words.place(&library.gpu, ptr) }?;
        // SAFETY: as above.
        let stream = unsafe { ForeignStream::new(stream) };
        Ok(library.ranks.wait_word_on(&stream, &word, condition)?)
    }
);

pub(crate) fn wait_all(
    library: &Library,
    handles: impl IntoIterator<Item = Handle>,
) -> Result<(), CallError> {
    let mut first = Ok(());
    for handle in handles {
        let waited = wait(library, handle);
        first = first.and(waited);
    }
    first
}

/// Waits for a request. It stays if it cannot be waited for yet.
pub(crate) fn wait(library: &Library, handle: Handle) -> Result<(), CallError> {
    let open = library.requests.get(handle)?;
    let waited = library.ranks.wait_for(&open.request);
    if !matches!(waited, Err(Error::NotPosted { .. } | Error::NoCompletion { .. })) {
        let _ = library.requests.remove(handle);
    }
    waited?;
    Ok(())
}

exports!(
    use guard::number;

    /// Polls. Returns the number of requests that have ended.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned, or has `count` handles.
    pub unsafe fn mp_progress_all(count: u32, req: *mut Handle) -> c_int {
        let library = library()?;
        // SAFETY: the caller's promise.
        let handles = unsafe { handles::all("req", req, count as usize) }?;
        let ended = handles.into_iter().filter(|handle| has_ended(&library, *handle));
        Ok(c_int::try_from(ended.count()).unwrap_or(c_int::MAX))
    }
);

/// Polls. A freed request has ended.
pub(crate) fn has_ended(library: &Library, handle: Handle) -> bool {
    match library.requests.get(handle) {
        Ok(open) => open.request.has_ended(),
        Err(_) => library.requests.was_issued(handle),
    }
}

/// # Safety
///
/// As [`mp_wait_all_on_stream`].
unsafe fn wait_on(count: u32, req: *mut Handle, stream: CudaStream) -> Result<(), CallError> {
    let library = library()?;
    // SAFETY: the caller's promise.
    let handles = unsafe { handles::all("req", req, count as usize) }?;
    let requests = requests(&library, &handles)?;
    // SAFETY: as above.
    let stream = unsafe { ForeignStream::new(stream) };
    let all = requests.iter().map(|open| &open.request);
    Ok(library.ranks.wait_on(&stream, all)?)
}

/// The condition of a `gds_wait_cond_flag_t` up to `last`.
pub(crate) fn condition(flags: c_int, value: u32, last: c_int) -> Result<Condition, CallError> {
    let compare = match flags {
        abi::WAIT_GEQ => Compare::Geq,
        abi::WAIT_EQ => Compare::Eq,
        abi::WAIT_AND => Compare::And,
        abi::WAIT_NOR if last == abi::WAIT_NOR => Compare::Nor,
        flags => {
            return Err(CallError::Value { what: "condition", value: flags.into() });
        }
    };
    Ok(Condition { compare, value })
}
