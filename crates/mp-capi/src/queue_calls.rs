//! Descriptor queues.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdr_sys::exports;

use crate::abi::{self, CudaStream, Handle};
use crate::call_error::CallError;
use crate::library::{Library, OpenRequest, Queue, library};
use crate::stream::ForeignStream;
use crate::wait_calls::condition;
use crate::{guard, handles};

exports!(
    use guard::call;

    /// Creates an empty queue.
    ///
    /// # Safety
    ///
    /// `dq` is NULL, misaligned or writable.
    pub unsafe fn mp_desc_queue_alloc(dq: *mut Handle) -> c_int {
        handles::check("dq", dq)?;
        let library = library()?;
        let queue = Queue { queue: library.ranks.descriptor_queue(), unwaited: Vec::new() };
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(dq, library.queues.add(Mutex::new(queue))) };
        Ok(())
    }

    /// Frees a queue and sets `*dq` to NULL. `EBUSY` if it has descriptors.
    ///
    /// # Safety
    ///
    /// `dq` is NULL, misaligned, or readable and writable.
    pub unsafe fn mp_desc_queue_free(dq: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("dq", dq) }?;
        let library = library()?;
        let queue = library.queues.get(handle)?;
        let length = locked(&queue).queue.len();
        if length > 0 {
            return Err(CallError::QueueNotEmpty(length));
        }
        library.queues.remove(handle)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(dq, std::ptr::null_mut()) };
        Ok(())
    }

    /// Adds a prepared send or put.
    ///
    /// # Safety
    ///
    /// `dq` and `req` are NULL, misaligned or readable.
    pub unsafe fn mp_desc_queue_add_send(dq: *mut Handle, req: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        let (library, queue) = unsafe { open(dq) }?;
        let mut queue = locked(&queue);
        // SAFETY: the caller's promise.
        let (handle, open) = unsafe { request(&library, req) }?;
        queue.queue.send(&open.request)?;
        if !open.has_completion {
            queue.unwaited.push(handle.addr());
        }
        Ok(())
    }

    /// Adds a wait for a send, put or get.
    ///
    /// # Safety
    ///
    /// As [`mp_desc_queue_add_send`].
    pub unsafe fn mp_desc_queue_add_wait_send(dq: *mut Handle, req: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { add_wait(dq, req, false) }
    }

    /// Adds a wait for a receive.
    ///
    /// # Safety
    ///
    /// As [`mp_desc_queue_add_send`].
    pub unsafe fn mp_desc_queue_add_wait_recv(dq: *mut Handle, req: *mut Handle) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { add_wait(dq, req, true) }
    }

    /// Adds a wait for a word of host memory. `flags` is a `gds_wait_cond_flag_t`.
    ///
    /// # Safety
    ///
    /// `dq` is NULL, misaligned or readable; `ptr` is NULL, misaligned, or a word that stays mapped until the stream has passed.
    pub unsafe fn mp_desc_queue_add_wait_value32(
        dq: *mut Handle,
        ptr: *mut u32,
        value: u32,
        flags: c_int,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let (library, queue) = unsafe { open(dq) }?;
        let mut queue = locked(&queue);
        let condition = condition(flags, value, abi::WAIT_NOR)?;
        // SAFETY: the caller's promise.
        let word = unsafe { library.words.place(&library.gpu, ptr) }?;
        Ok(queue.queue.wait_word(&word, condition)?)
    }

    /// Adds a write of a word of host memory.
    ///
    /// # Safety
    ///
    /// As [`mp_desc_queue_add_wait_value32`].
    pub unsafe fn mp_desc_queue_add_write_value32(
        dq: *mut Handle,
        ptr: *mut u32,
        value: u32,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let (library, queue) = unsafe { open(dq) }?;
        let mut queue = locked(&queue);
        // SAFETY: the caller's promise.
        let word = unsafe { library.words.place(&library.gpu, ptr) }?;
        queue.queue.write_word(&word, value);
        Ok(())
    }

    /// Posts all descriptors, and empties the queue.
    ///
    /// # Safety
    ///
    /// `dq` is NULL, misaligned or readable; `stream` is live or a default one.
    pub unsafe fn mp_desc_queue_post_on_stream(
        stream: CudaStream,
        dq: *mut Handle,
        flags: c_int,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let (library, queue) = unsafe { open(dq) }?;
        let mut queue = locked(&queue);
        if flags != 0 {
            let (what, value) = ("flags", flags.into());
            return Err(CallError::Value { what, value });
        }
        // SAFETY: the caller's promise.
        let stream = unsafe { ForeignStream::new(stream) };
        let posted = queue.queue.post(&library.ranks, &stream);
        for handle in queue.unwaited.drain(..) {
            let _ = library.requests.remove(std::ptr::without_provenance_mut(handle));
        }
        Ok(posted?)
    }
);

/// The open library and a queue.
///
/// # Safety
///
/// `dq` is NULL, misaligned or readable.
unsafe fn open(dq: *mut Handle) -> Result<(Arc<Library>, Arc<Mutex<Queue>>), CallError> {
    let library = library()?;
    // SAFETY: the caller's promise.
    let queue = library.queues.get(unsafe { handles::at("dq", dq) }?)?;
    Ok((library, queue))
}

/// # Safety
///
/// `req` is NULL, misaligned or readable.
unsafe fn request(
    library: &Library,
    req: *mut Handle,
) -> Result<(Handle, Arc<OpenRequest>), CallError> {
    // SAFETY: the caller's promise.
    let handle = unsafe { handles::at("req", req) }?;
    Ok((handle, library.requests.get(handle)?))
}

/// # Safety
///
/// As [`mp_desc_queue_add_send`].
unsafe fn add_wait(dq: *mut Handle, req: *mut Handle, is_receive: bool) -> Result<(), CallError> {
    // SAFETY: the caller's promise.
    let (library, queue) = unsafe { open(dq) }?;
    let mut queue = locked(&queue);
    // SAFETY: the caller's promise.
    let (_, open) = unsafe { request(&library, req) }?;
    if open.request.is_receive() != is_receive {
        return Err(CallError::Kind(if is_receive { "receive" } else { "send" }));
    }
    Ok(queue.queue.wait(&open.request)?)
}

/// Ignores poisoning: a panic loses at most descriptors.
fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
