//! Sends: prepared, posted by a stream, by the CPU; and receives.

use std::ffi::{c_int, c_void};

use verbs::raw::{ibv_recv_wr, ibv_send_wr};

use crate::abi::{Descriptor, Qp, Request, TAG_SEND, What};
use crate::call_error::CallError;
use crate::pair::Pair;
use crate::request::{self, Meaning};
use crate::work::{self, Read};
use crate::{guard, pairs, post_calls, stream as streams};

/// Writes a list of sends into the queue, and rings nothing; `request` stands for all of it. All of the list is written, or nothing.
///
/// Of datagrams `wr.ud` says whom each is for: `ah` is of the queue pair's device and is read here, so it may be destroyed at once.
///
/// Returns 0; `ENOMEM` where the queue is full; `EINVAL` for NULL, what is no queue pair, and requests that cannot be, such as a datagram
/// without `ah` or one that is no send; `EOPNOTSUPP` for opcodes that are not done. `bad_wr`, where it is not NULL, tells which request
/// it was.
///
/// # Safety
///
/// `qp` is looked up, and not followed. `wr` is NULL or leads to a list as `ibv_post_send` takes it, with
/// address handles that are alive; `bad_wr` and `request` are NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_prepare_send(
    qp: *mut Qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
    request: *mut Request,
) -> c_int {
    guard::call("gds_prepare_send", || {
        let pair = pairs::of(qp)?;
        request::check(request)?;
        // SAFETY: the caller's promise.
        let entry = unsafe { prepare(&pair, wr, bad_wr) }?;
        let pair = pair.id;
        // SAFETY: as above.
        unsafe { request::write(request, Meaning::Send { pair, entry }) }
    })
}

/// Has a stream ring for what was prepared.
///
/// Returns as `gds_stream_post_descriptors`.
///
/// # Safety
///
/// `stream` is one of the current context's GPU; `request` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_post_send(stream: *mut c_void, request: *mut Request) -> c_int {
    // SAFETY: the caller's promise.
    guard::call("gds_stream_post_send", || unsafe {
        post_all(stream, TAG_SEND, 1, request)
    })
}

/// Has a stream ring for each of `count` requests, in order, as one list.
///
/// Returns as `gds_stream_post_descriptors`; `EINVAL` for a negative count.
///
/// # Safety
///
/// `stream` is one of the current context's GPU; `request` is NULL or an array of so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_post_send_all(
    stream: *mut c_void,
    count: c_int,
    request: *mut Request,
) -> c_int {
    // SAFETY: the caller's promise.
    guard::call("gds_stream_post_send_all", || unsafe {
        post_all(stream, TAG_SEND, count, request)
    })
}

/// Prepares a list of sends, and has a stream ring for it. Where the stream does not take it, nothing is left in the queue.
///
/// Returns as `gds_prepare_send` and `gds_stream_post_send`.
///
/// # Safety
///
/// As these two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_queue_send(
    stream: *mut c_void,
    qp: *mut Qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    guard::call("gds_stream_queue_send", || {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        let entry = unsafe { prepare(&pair, wr, bad_wr) }?;
        let posted = pair.give_send(entry).and_then(|doorbell| {
            let ops = doorbell.map(|op| op.map(|place| place.device_address()));
            let can = streams::capabilities()?;
            // SAFETY: as above; a queue pair keeps the places of a posted doorbell.
            unsafe { streams::put(stream, ops.into_iter(), can, |_| 0) }
        });
        match posted {
            Ok(()) => pair.wake(),
            Err(_) => {
                pair.ungive_send(entry);
                pair.take_back(entry);
            }
        }
        posted
    })
}

/// Prepares a list of sends, and rings for it at once, by the CPU.
///
/// Returns as `gds_prepare_send`.
///
/// # Safety
///
/// As `gds_prepare_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_post_send(
    qp: *mut Qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    guard::call("gds_post_send", || {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        let entry = unsafe { prepare(&pair, wr, bad_wr) }?;
        let mut own = request::of(Meaning::Send {
            pair: pair.id,
            entry,
        });
        let request = &raw mut own;
        let list = [Descriptor {
            tag: TAG_SEND,
            what: What { request },
        }];
        // SAFETY: as above.
        let posted = unsafe { post_calls::by_cpu(&list) };
        posted.inspect_err(|_| pair.take_back(entry))
    })
}

/// Posts a list of receives, as `ibv_post_recv` does: what comes before a request that fails stays posted.
///
/// Returns as `gds_prepare_send`.
///
/// # Safety
///
/// `wr` is NULL or leads to a list as `ibv_post_recv` takes it; `bad_wr` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_post_recv(
    qp: *mut Qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    guard::call("gds_post_recv", || {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        let mut read = unsafe { work::receives(wr, &pair.limits) };
        let mut done = 0;
        let mut refused = None;
        for (wr_id, segments) in &read.entries {
            match pair.receive(*wr_id, segments) {
                Ok(()) => done += 1,
                Err(call_error) => {
                    refused = Some(call_error);
                    break;
                }
            }
        }
        if done > 0 {
            pair.serve();
        }
        match refused.or_else(|| read.refused.take()) {
            None => Ok(()),
            // SAFETY: as above.
            Some(call_error) => Err(unsafe { blame(&read, done, bad_wr, call_error) }),
        }
    })
}

/// # Safety
///
/// As [`gds_prepare_send`].
unsafe fn prepare(
    pair: &Pair,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> Result<u64, CallError> {
    // SAFETY: the caller's promise.
    let mut read = unsafe { work::sends(wr, pair) };
    let made = match read.refused.take() {
        Some(call_error) => Err((read.entries.len(), call_error)),
        None => pair.prepare(&read.entries),
    };
    // SAFETY: as above.
    made.map_err(|(position, call_error)| unsafe { blame(&read, position, bad_wr, call_error) })
}

/// Tells the program which request it was.
///
/// # Safety
///
/// `bad_wr` is NULL or can be written to.
unsafe fn blame<T, W>(
    read: &Read<T, W>,
    position: usize,
    bad_wr: *mut *mut W,
    call_error: CallError,
) -> CallError {
    if !bad_wr.is_null() && bad_wr.is_aligned() {
        // SAFETY: not NULL, and the caller's promise.
        unsafe { bad_wr.write(read.at(position)) };
    }
    call_error
}

/// Puts requests into a stream.
///
/// # Safety
///
/// `stream` is one of the current context's GPU; `first` is NULL or an array of so many.
pub(crate) unsafe fn post_all(
    stream: *mut c_void,
    tag: u32,
    count: c_int,
    first: *mut Request,
) -> Result<(), CallError> {
    let count = requests(count)?;
    if count == 0 {
        return Ok(());
    }
    request::check(first)?;
    let list: Vec<Descriptor> = (0..count)
        .map(|position| {
            let request = first.wrapping_add(position);
            Descriptor {
                tag,
                what: What { request },
            }
        })
        .collect();
    // SAFETY: the caller's promise.
    unsafe { post_calls::on_stream(stream, &list) }
}

/// How many requests an array has. More than this nobody has prepared.
pub(crate) fn requests(count: c_int) -> Result<usize, CallError> {
    let known = usize::try_from(count)
        .ok()
        .filter(|&count| count <= 1 << 20);
    known.ok_or(CallError::Bounds {
        what: "count",
        value: count.into(),
        bounds: "it is not negative, and 1048576 at most",
    })
}
