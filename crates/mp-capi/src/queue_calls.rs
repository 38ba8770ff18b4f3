//! Descriptor queues.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::{self, CudaStream, Handle};
use crate::call_error::CallError;
use crate::library::{Library, OpenRequest, Queue, library};
use crate::stream::ForeignStream;
use crate::wait_calls::condition;
use crate::{guard, handles};

/// Creates an empty queue.
///
/// # Safety
///
/// `dq` is NULL, misaligned or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_alloc(dq: *mut Handle) -> c_int {
    guard::call("mp_desc_queue_alloc", || {
        handles::check("dq", dq)?;
        let library = library()?;
        let queue = Queue { queue: library.ranks.descriptor_queue(), unwaited: Vec::new() };
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(dq, library.queues.add(Mutex::new(queue))) };
        Ok(())
    })
}

/// Frees a queue and sets `*dq` to NULL. `EBUSY` if it has descriptors.
///
/// # Safety
///
/// `dq` is NULL, misaligned, or readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_free(dq: *mut Handle) -> c_int {
    guard::call("mp_desc_queue_free", || {
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
    })
}

/// Adds a descriptor.
///
/// # Safety
///
/// `dq` is NULL, misaligned or readable.
unsafe fn add(
    function: &'static str,
    dq: *mut Handle,
    add: impl FnOnce(&Library, &mut Queue) -> Result<(), CallError>,
) -> c_int {
    guard::call(function, || {
        let library = library()?;
        // SAFETY: the caller's promise.
        let queue = library.queues.get(unsafe { handles::at("dq", dq) }?)?;
        add(&library, &mut locked(&queue))
    })
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

/// Adds a prepared send or put.
///
/// # Safety
///
/// `dq` and `req` are NULL, misaligned or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_add_send(dq: *mut Handle, req: *mut Handle) -> c_int {
    let added = |library: &Library, queue: &mut Queue| {
        // SAFETY: the caller's promise.
        let (handle, open) = unsafe { request(library, req) }?;
        queue.queue.send(&open.request)?;
        if !open.has_completion {
            queue.unwaited.push(handle.addr());
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { add("mp_desc_queue_add_send", dq, added) }
}

/// Adds a wait for a send, put or get.
///
/// # Safety
///
/// As [`mp_desc_queue_add_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_add_wait_send(dq: *mut Handle, req: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add_wait("mp_desc_queue_add_wait_send", dq, req, false) }
}

/// Adds a wait for a receive.
///
/// # Safety
///
/// As [`mp_desc_queue_add_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_add_wait_recv(dq: *mut Handle, req: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add_wait("mp_desc_queue_add_wait_recv", dq, req, true) }
}

/// # Safety
///
/// As [`mp_desc_queue_add_send`].
unsafe fn add_wait(
    function: &'static str,
    dq: *mut Handle,
    req: *mut Handle,
    is_receive: bool,
) -> c_int {
    let added = |library: &Library, queue: &mut Queue| {
        // SAFETY: the caller's promise.
        let (_, open) = unsafe { request(library, req) }?;
        if open.request.is_receive() != is_receive {
            return Err(CallError::Kind(if is_receive { "receive" } else { "send" }));
        }
        Ok(queue.queue.wait(&open.request)?)
    };
    // SAFETY: as above.
    unsafe { add(function, dq, added) }
}

/// Adds a wait for a word of host memory. `flags` is a `gds_wait_cond_flag_t`.
///
/// # Safety
///
/// `dq` is NULL, misaligned or readable; `ptr` is NULL, misaligned, or a word that stays mapped until the stream has passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_add_wait_value32(
    dq: *mut Handle,
    ptr: *mut u32,
    value: u32,
    flags: c_int,
) -> c_int {
    let added = |library: &Library, queue: &mut Queue| {
        let condition = condition(flags, value, abi::WAIT_NOR)?;
        // SAFETY: the caller's promise.
        let word = unsafe { library.words.place(&library.gpu, ptr) }?;
        Ok(queue.queue.wait_word(&word, condition)?)
    };
    // SAFETY: as above.
    unsafe { add("mp_desc_queue_add_wait_value32", dq, added) }
}

/// Adds a write of a word of host memory.
///
/// # Safety
///
/// As [`mp_desc_queue_add_wait_value32`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_add_write_value32(
    dq: *mut Handle,
    ptr: *mut u32,
    value: u32,
) -> c_int {
    let added = |library: &Library, queue: &mut Queue| {
        // SAFETY: the caller's promise.
        let word = unsafe { library.words.place(&library.gpu, ptr) }?;
        queue.queue.write_word(&word, value);
        Ok(())
    };
    // SAFETY: as above.
    unsafe { add("mp_desc_queue_add_write_value32", dq, added) }
}

/// Posts all descriptors, and empties the queue.
///
/// # Safety
///
/// `dq` is NULL, misaligned or readable; `stream` is live or a default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_desc_queue_post_on_stream(
    stream: CudaStream,
    dq: *mut Handle,
    flags: c_int,
) -> c_int {
    let posted = |library: &Library, queue: &mut Queue| {
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
    };
    // SAFETY: as above.
    unsafe { add("mp_desc_queue_post_on_stream", dq, posted) }
}

/// Ignores poisoning: a panic loses at most descriptors.
fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
