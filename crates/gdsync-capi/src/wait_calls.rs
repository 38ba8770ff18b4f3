//! Waits for completions, by a stream; and the completions themselves, by the CPU.

use std::ffi::{c_int, c_void};

use crate::abi::{Cq, Descriptor, Request, TAG_WAIT, What, WorkCompletion};
use crate::call_error::CallError;
use crate::request::{self, Meaning};
use crate::send_calls::post_all;
use crate::{flags, guard, pairs, post_calls};

/// Takes the wait for the next completion that nobody waits for yet (`cq->curr_offset`), and lets `request` stand for it. From now on
/// `gds_poll_cq` does not give that completion until a stream has seen it, or the wait is given up by `gds_post_wait_cq`.
///
/// Returns 0; `EINVAL` for NULL, what is no completion queue, and flags other than 0; `ENOMEM` where as many waits as the queue has
/// entries are open.
///
/// # Safety
///
/// `cq` is looked up, and not followed. `request` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_prepare_wait_cq(
    cq: *mut Cq,
    request: *mut Request,
    flags: c_int,
) -> c_int {
    guard::call("gds_prepare_wait_cq", || {
        flags::none(flags)?;
        request::check(request)?;
        let meaning = take(cq)?;
        // SAFETY: the caller's promise.
        unsafe { request::write(request, meaning) }
    })
}

/// Adds the write of a word behind a wait that was not posted yet: once the completion is there, and the CPU may poll it. `dw` is an
/// address of the GPU, as of `GDS_MEMORY_GPU`.
///
/// Returns 0; `EINVAL` for NULL, a misaligned word and what is no such wait; `ENOMEM` for more than 30.
///
/// # Safety
///
/// `request` is NULL or can be read; the word stays memory until the wait is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_append_wait_cq(
    request: *mut Request,
    dw: *mut u32,
    val: u32,
) -> c_int {
    guard::call("gds_append_wait_cq", || {
        let word = flags::word("dw", dw.cast())?;
        // SAFETY: the caller's promise.
        let Meaning::Wait { pair, side, index } = (unsafe { request::read(request) })? else {
            return Err(CallError::Request);
        };
        pairs::numbered(pair)?.append(side, index, word, val)
    })
}

/// Has a stream wait.
///
/// Returns as `gds_stream_post_descriptors`.
///
/// # Safety
///
/// `stream` is one of the current context's GPU; `request` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_post_wait_cq(
    stream: *mut c_void,
    request: *mut Request,
) -> c_int {
    // SAFETY: the caller's promise.
    guard::call("gds_stream_post_wait_cq", || unsafe {
        post_all(stream, TAG_WAIT, 1, request)
    })
}

/// Has a stream wait for each of `count` requests, in order, as one list.
///
/// Returns as `gds_stream_post_descriptors`; `EINVAL` for a negative count.
///
/// # Safety
///
/// `stream` is one of the current context's GPU; `request` is NULL or an array of so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_post_wait_cq_all(
    stream: *mut c_void,
    count: c_int,
    request: *mut Request,
) -> c_int {
    // SAFETY: the caller's promise.
    guard::call("gds_stream_post_wait_cq_all", || unsafe {
        post_all(stream, TAG_WAIT, count, request)
    })
}

/// Has a stream wait for the next completion that nobody waits for yet. Where the stream does not take it, the CPU may poll that
/// completion.
///
/// Returns as `gds_prepare_wait_cq` and `gds_stream_post_wait_cq`.
///
/// # Safety
///
/// `stream` is one of the current context's GPU; `cq` is looked up, and not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_wait_cq(
    stream: *mut c_void,
    cq: *mut Cq,
    flags: c_int,
) -> c_int {
    guard::call("gds_stream_wait_cq", || {
        flags::none(flags)?;
        let meaning = take(cq)?;
        let mut own = request::of(meaning);
        let request = &raw mut own;
        let list = [Descriptor {
            tag: TAG_WAIT,
            what: What { request },
        }];
        // SAFETY: the caller's promise.
        let posted = unsafe { post_calls::on_stream(stream, &list) };
        posted.inspect_err(|_| {
            // The first refusal is the one to report.
            let _ = abandon(meaning);
        })
    })
}

/// Gives a wait up: no stream will see that completion, and the CPU may poll it.
///
/// Returns 0; `EINVAL` for NULL, flags other than 0, what is no such wait of this queue, and a wait that was posted.
///
/// # Safety
///
/// `cq` is looked up, and not followed. `request` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_post_wait_cq(
    cq: *mut Cq,
    request: *mut Request,
    flags: c_int,
) -> c_int {
    guard::call("gds_post_wait_cq", || {
        flags::none(flags)?;
        let (pair, side) = pairs::of_queue(cq)?;
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        match meaning {
            Meaning::Wait {
                pair: of, side: at, ..
            } if (of, at) == (pair.id, side) => abandon(meaning),
            _ => Err(CallError::Request),
        }
    })
}

/// Takes completions that no stream waits for, in order: `num_entries` at most. In place of `ibv_poll_cq`, which would take them from
/// this library.
///
/// Returns how many; or an errno with a minus: `-EINVAL` for NULL, a negative number and what is no completion queue; `-EOVERFLOW` where
/// completions were overwritten.
///
/// # Safety
///
/// `cq` is looked up, and not followed. `wc` is NULL or has room for so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_poll_cq(
    cq: *mut Cq,
    num_entries: c_int,
    wc: *mut WorkCompletion,
) -> c_int {
    guard::count("gds_poll_cq", || {
        let (pair, side) = pairs::of_queue(cq)?;
        if num_entries < 0 {
            return Err(CallError::Bounds {
                what: "num_entries",
                value: num_entries.into(),
                bounds: "it is not negative",
            });
        }
        if num_entries == 0 {
            return Ok(0);
        }
        if wc.is_null() {
            return Err(CallError::Null { what: "wc" });
        }
        if !wc.is_aligned() {
            let (what, alignment) = ("wc", align_of::<WorkCompletion>());
            return Err(CallError::Misaligned {
                what,
                address: wc.addr(),
                alignment,
            });
        }
        let mut taken = 0;
        let mut is_served = false;
        while taken < num_entries {
            match pair.poll(side) {
                Ok(Some(completion)) => {
                    // SAFETY: not NULL, aligned, and the caller promises that there is room for as many.
                    unsafe { wc.add(taken as usize).write(completion) };
                    taken += 1;
                }
                Ok(None) if is_served || taken > 0 => break,
                // Who polls need not wait for somebody else to look.
                Ok(None) => {
                    pair.serve();
                    is_served = true;
                }
                // What was taken is told first; the next call meets it again.
                Err(_) if taken > 0 => break,
                Err(call_error) => return Err(call_error),
            }
        }
        Ok(taken)
    })
}

fn take(cq: *mut Cq) -> Result<Meaning, CallError> {
    let (pair, side) = pairs::of_queue(cq)?;
    let index = pair.take_wait(side)?;
    let pair = pair.id;
    Ok(Meaning::Wait { pair, side, index })
}

fn abandon(meaning: Meaning) -> Result<(), CallError> {
    match meaning {
        Meaning::Wait { pair, side, index } => pairs::numbered(pair)?.abandon(side, index),
        Meaning::Send { .. } => Err(CallError::Request),
    }
}
