//! Functions for waits and polling.

use std::ffi::{c_int, c_void};

use gdr_sys::exports;
use verbs::raw::ibv_cq;

use crate::abi::{Cq, Descriptor, Request, TAG_WAIT, What, WorkCompletion};
use crate::call_error::CallError;
use crate::pair::{ProgramQueuePair, Side};
use crate::request::{self, Meaning};
use crate::send_calls::post_all;
use crate::{flags, guard, pairs, post_calls};

exports!(
    use guard::call;

    /// Prepares a wait for the next completion without one (`cq->curr_offset`). `gds_poll_cq` does not return that completion until a
    /// stream has waited for it, or `gds_post_wait_cq` has abandoned the wait.
    ///
    /// Returns 0; `EINVAL` for NULL, an unknown completion queue, and flags other than 0; `ENOMEM` if every CQE has an open wait.
    ///
    /// # Safety
    ///
    /// `cq` is looked up, not dereferenced. `request` is NULL or writable.
    pub unsafe fn gds_prepare_wait_cq(cq: *mut Cq, request: *mut Request, flags: c_int) -> c_int {
        flags::none(flags)?;
        request::check(request)?;
        let meaning = take(cq)?;
        // SAFETY: the caller's promise.
        unsafe { request::write(request, meaning) }
    }

    /// Appends the write of a word to a wait that is not posted. The write follows the wait. `dw` is a GPU address, as for
    /// `GDS_MEMORY_GPU`.
    ///
    /// Returns 0; `EINVAL` for NULL, a misaligned word and an invalid request; `ENOMEM` for more than 30 writes.
    ///
    /// # Safety
    ///
    /// `request` is NULL or readable; the word stays valid until the wait is over.
    pub unsafe fn gds_append_wait_cq(request: *mut Request, dw: *mut u32, val: u32) -> c_int {
        let word = flags::word("dw", dw.cast())?;
        // SAFETY: the caller's promise.
        let Meaning::Wait { pair, side, index } = (unsafe { request::read(request) })? else {
            return Err(CallError::Request);
        };
        pairs::by_id(pair)?.append(side, index, word, val)
    }

    /// Posts a wait to a stream.
    ///
    /// Returns as `gds_stream_post_descriptors`.
    ///
    /// # Safety
    ///
    /// `stream` belongs to the current context's GPU; `request` is NULL or readable.
    pub unsafe fn gds_stream_post_wait_cq(stream: *mut c_void, request: *mut Request) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(stream, TAG_WAIT, 1, request) }
    }

    /// Posts `count` waits to a stream, in order, as one list.
    ///
    /// Returns as `gds_stream_post_descriptors`; `EINVAL` for a negative count.
    ///
    /// # Safety
    ///
    /// `stream` belongs to the current context's GPU; `request` is NULL or an array of `count` requests.
    pub unsafe fn gds_stream_post_wait_cq_all(
        stream: *mut c_void,
        count: c_int,
        request: *mut Request,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(stream, TAG_WAIT, count, request) }
    }

    /// Posts a wait for the next completion without one to a stream. On error the CPU may poll that completion.
    ///
    /// Returns as `gds_prepare_wait_cq` and `gds_stream_post_wait_cq`.
    ///
    /// # Safety
    ///
    /// `stream` belongs to the current context's GPU; `cq` is looked up, not dereferenced.
    pub unsafe fn gds_stream_wait_cq(stream: *mut c_void, cq: *mut Cq, flags: c_int) -> c_int {
        flags::none(flags)?;
        let meaning = take(cq)?;
        let mut encoded = request::of(meaning);
        let request = &raw mut encoded;
        let list = [Descriptor { tag: TAG_WAIT, what: What { request } }];
        // SAFETY: the caller's promise.
        let posted = unsafe { post_calls::on_stream(stream, &list) };
        posted.inspect_err(|_| {
            // Ignored: the first error is reported.
            let _ = abandon(meaning);
        })
    }

    /// Abandons a wait: the CPU may poll its completion.
    ///
    /// Returns 0; `EINVAL` for NULL, flags other than 0, an invalid request, a wait of another queue, and a posted wait.
    ///
    /// # Safety
    ///
    /// `cq` is looked up, not dereferenced. `request` is NULL or readable.
    pub unsafe fn gds_post_wait_cq(cq: *mut Cq, request: *mut Request, flags: c_int) -> c_int {
        flags::none(flags)?;
        let (pair, side) = pairs::of_queue(cq)?;
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        match meaning {
            Meaning::Wait { pair: id, side: of, .. } if (id, of) == (pair.id, side) => {
                abandon(meaning)
            }
            _ => Err(CallError::Request),
        }
    }
);

exports!(
    use guard::count;

    /// Polls up to `num_entries` completions that no stream waits for, in order. Replaces `ibv_poll_cq`, which must not be used on these
    /// queues.
    ///
    /// Returns the number of completions, or a negated errno: `-EINVAL` for NULL, a negative number and an unknown completion queue;
    /// `-EOVERFLOW` if completions were overwritten.
    ///
    /// # Safety
    ///
    /// `cq` is looked up, not dereferenced. `wc` is NULL or has room for `num_entries` completions.
    pub unsafe fn gds_poll_cq(cq: *mut Cq, num_entries: c_int, wc: *mut WorkCompletion) -> c_int {
        let (pair, side) = pairs::of_queue(cq)?;
        // SAFETY: the caller's promise.
        unsafe { poll(&pair, side, num_entries, wc) }
    }

    /// [`gds_poll_cq`] for the verbs completion queue of a queue pair. The compatibility header's `ibv_poll_cq` calls it.
    ///
    /// Returns as `gds_poll_cq`; `-ENOENT`, without a message, for other completion queues.
    ///
    /// # Safety
    ///
    /// As [`gds_poll_cq`].
    pub unsafe fn gds_poll_verbs_cq(
        cq: *mut ibv_cq,
        num_entries: c_int,
        wc: *mut WorkCompletion,
    ) -> c_int {
        match pairs::of_verbs_queue(cq) {
            // SAFETY: the caller's promise.
            Some((pair, side)) => unsafe { poll(&pair, side, num_entries, wc) },
            None => Ok(-libc::ENOENT),
        }
    }
);

/// # Safety
///
/// As [`gds_poll_cq`].
unsafe fn poll(
    pair: &ProgramQueuePair,
    side: Side,
    num_entries: c_int,
    wc: *mut WorkCompletion,
) -> Result<c_int, CallError> {
    if num_entries < 0 {
        return Err(CallError::Bounds {
            what: "num_entries",
            value: num_entries.into(),
            bounds: "it must not be negative",
        });
    }
    if num_entries == 0 {
        return Ok(0);
    }
    flags::check("wc", wc)?;
    let mut taken = 0;
    let mut is_served = false;
    while taken < num_entries {
        match pair.poll(side) {
            Ok(Some(completion)) => {
                // SAFETY: not NULL and aligned; the caller promises room for `num_entries`.
                unsafe { wc.add(taken as usize).write(completion) };
                taken += 1;
            }
            Ok(None) if is_served || taken > 0 => break,
            // Serve the queue pair here instead of waiting for the proxy's thread.
            Ok(None) => {
                pair.serve();
                is_served = true;
            }
            // Return the completions; the next call fails again.
            Err(_) if taken > 0 => break,
            Err(call_error) => return Err(call_error),
        }
    }
    Ok(taken)
}

fn take(cq: *mut Cq) -> Result<Meaning, CallError> {
    let (pair, side) = pairs::of_queue(cq)?;
    let index = pair.take_wait(side)?;
    let pair = pair.id;
    Ok(Meaning::Wait { pair, side, index })
}

fn abandon(meaning: Meaning) -> Result<(), CallError> {
    match meaning {
        Meaning::Wait { pair, side, index } => pairs::by_id(pair)?.abandon(side, index),
        Meaning::Send { .. } => Err(CallError::Request),
    }
}
