//! Functions for sends and receives.

use std::ffi::{c_int, c_void};

use gdr_sys::exports;
use verbs::raw::{ibv_qp, ibv_recv_wr, ibv_send_wr};

use crate::abi::{Descriptor, Qp, Request, TAG_SEND, What};
use crate::call_error::CallError;
use crate::pair::ProgramQueuePair;
use crate::request::{self, Meaning};
use crate::work::{self, WorkList};
use crate::{guard, pairs, post_calls, stream as streams};

exports!(
    use guard::call;

    /// Writes a list of sends into the queue without ringing the doorbell; `request` represents the whole list. Writes all of them or none.
    ///
    /// Datagrams take their destination from `wr.ud`; `ah` belongs to the queue pair's device and may be destroyed after this call.
    ///
    /// Returns 0; `ENOMEM` if the queue is full; `EINVAL` for NULL, an unknown queue pair, and invalid work requests, such as a datagram
    /// without `ah`; `EOPNOTSUPP` for unsupported opcodes. On error `*bad_wr` is the failed work request, unless `bad_wr` is NULL.
    ///
    /// # Safety
    ///
    /// `qp` is looked up, not dereferenced. `wr` is NULL or a valid list for `ibv_post_send` with live address handles; `bad_wr` and
    /// `request` are NULL or writable.
    pub unsafe fn gds_prepare_send(
        qp: *mut Qp,
        wr: *mut ibv_send_wr,
        bad_wr: *mut *mut ibv_send_wr,
        request: *mut Request,
    ) -> c_int {
        let pair = pairs::of(qp)?;
        request::check(request)?;
        // SAFETY: the caller's promise.
        let entry = unsafe { prepare(&pair, wr, bad_wr) }?;
        let pair = pair.id;
        // SAFETY: as above.
        unsafe { request::write(request, Meaning::Send { pair, entry }) }
    }

    /// Posts the doorbell of a request to a stream.
    ///
    /// Returns as `gds_stream_post_descriptors`.
    ///
    /// # Safety
    ///
    /// `stream` belongs to the current context's GPU; `request` is NULL or readable.
    pub unsafe fn gds_stream_post_send(stream: *mut c_void, request: *mut Request) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(stream, TAG_SEND, 1, request) }
    }

    /// Posts the doorbells of `count` requests to a stream, in order, as one list.
    ///
    /// Returns as `gds_stream_post_descriptors`; `EINVAL` for a negative count.
    ///
    /// # Safety
    ///
    /// `stream` belongs to the current context's GPU; `request` is NULL or an array of `count` requests.
    pub unsafe fn gds_stream_post_send_all(
        stream: *mut c_void,
        count: c_int,
        request: *mut Request,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { post_all(stream, TAG_SEND, count, request) }
    }

    /// Prepares a list of sends and posts its doorbell to a stream. On error nothing is left in the queue.
    ///
    /// Returns as `gds_prepare_send` and `gds_stream_post_send`.
    ///
    /// # Safety
    ///
    /// As `gds_prepare_send` and `gds_stream_post_send`.
    pub unsafe fn gds_stream_queue_send(
        stream: *mut c_void,
        qp: *mut Qp,
        wr: *mut ibv_send_wr,
        bad_wr: *mut *mut ibv_send_wr,
    ) -> c_int {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        let entry = unsafe { prepare(&pair, wr, bad_wr) }?;
        let posted = pair.claim_send(entry).and_then(|doorbell| {
            let ops = doorbell.map(|op| op.map(|place| place.device_address()));
            let can = streams::capabilities()?;
            // SAFETY: the caller's promise; a queue pair keeps the memory of a posted doorbell.
            unsafe { streams::post(stream, &ops, can, |_| 0) }
        });
        match posted {
            Ok(()) => pair.wake(),
            Err(_) => {
                pair.unclaim_send(entry);
                pair.cancel(entry);
            }
        }
        posted
    }

    /// Prepares a list of sends and rings its doorbell by the CPU.
    ///
    /// Returns as `gds_prepare_send`.
    ///
    /// # Safety
    ///
    /// As `gds_prepare_send`.
    pub unsafe fn gds_post_send(
        qp: *mut Qp,
        wr: *mut ibv_send_wr,
        bad_wr: *mut *mut ibv_send_wr,
    ) -> c_int {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        let entry = unsafe { prepare(&pair, wr, bad_wr) }?;
        let mut encoded = request::of(Meaning::Send { pair: pair.id, entry });
        let request = &raw mut encoded;
        let list = [Descriptor { tag: TAG_SEND, what: What { request } }];
        // SAFETY: as above.
        let posted = unsafe { post_calls::by_cpu(&list) };
        posted.inspect_err(|_| pair.cancel(entry))
    }

    /// Posts a list of receives. As in `ibv_post_recv`, those before a failed one stay posted.
    ///
    /// Returns as `gds_prepare_send`.
    ///
    /// # Safety
    ///
    /// `wr` is NULL or a valid list for `ibv_post_recv`; `bad_wr` is NULL or writable.
    pub unsafe fn gds_post_recv(
        qp: *mut Qp,
        wr: *mut ibv_recv_wr,
        bad_wr: *mut *mut ibv_recv_wr,
    ) -> c_int {
        let pair = pairs::of(qp)?;
        // SAFETY: the caller's promise.
        unsafe { receive(&pair, wr, bad_wr) }
    }
);

exports!(
    use guard::number;

    /// [`gds_post_recv`] for the verbs queue pair of a queue pair. The compatibility header's `ibv_post_recv` calls it.
    ///
    /// Returns as `gds_post_recv`; `-ENOENT`, without a message, for other queue pairs.
    ///
    /// # Safety
    ///
    /// As [`gds_post_recv`].
    pub unsafe fn gds_post_verbs_recv(
        qp: *mut ibv_qp,
        wr: *mut ibv_recv_wr,
        bad_wr: *mut *mut ibv_recv_wr,
    ) -> c_int {
        let Some(pair) = pairs::of_verbs_pair(qp) else {
            return Ok(-libc::ENOENT);
        };
        // SAFETY: the caller's promise.
        unsafe { receive(&pair, wr, bad_wr) }?;
        Ok(0)
    }
);

/// # Safety
///
/// As [`gds_post_recv`].
unsafe fn receive(
    pair: &ProgramQueuePair,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> Result<(), CallError> {
    // SAFETY: the caller's promise.
    let mut read = unsafe { work::receives(wr, &pair.limits) };
    let mut done = 0;
    let mut error = None;
    for (wr_id, segments) in &read.entries {
        match pair.receive(*wr_id, segments) {
            Ok(()) => done += 1,
            Err(call_error) => {
                error = Some(call_error);
                break;
            }
        }
    }
    if done > 0 {
        pair.serve();
    }
    match error.or_else(|| read.error.take()) {
        None => Ok(()),
        // SAFETY: as above.
        Some(call_error) => Err(unsafe { set_bad_wr(&read, done, bad_wr, call_error) }),
    }
}

/// # Safety
///
/// As [`gds_prepare_send`].
unsafe fn prepare(
    pair: &ProgramQueuePair,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> Result<u64, CallError> {
    // SAFETY: the caller's promise.
    let mut read = unsafe { work::sends(wr, pair) };
    let made = match read.error.take() {
        Some(call_error) => Err((read.entries.len(), call_error)),
        None => pair.prepare(&read.entries),
    };
    // SAFETY: as above.
    made.map_err(|(position, call_error)| unsafe {
        set_bad_wr(&read, position, bad_wr, call_error)
    })
}

/// Sets `*bad_wr` to the failed work request.
///
/// # Safety
///
/// `bad_wr` is NULL or writable.
unsafe fn set_bad_wr<T, W>(
    read: &WorkList<T, W>,
    position: usize,
    bad_wr: *mut *mut W,
    call_error: CallError,
) -> CallError {
    if !bad_wr.is_null() && bad_wr.is_aligned() {
        // SAFETY: not NULL and aligned; the caller promises that it is writable.
        unsafe { bad_wr.write(read.at(position)) };
    }
    call_error
}

/// Posts requests to a stream.
///
/// # Safety
///
/// `stream` belongs to the current context's GPU; `first` is NULL or an array of `count` requests.
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
            Descriptor { tag, what: What { request } }
        })
        .collect();
    // SAFETY: the caller's promise.
    unsafe { post_calls::on_stream(stream, &list) }
}

/// Checks the length of an array of requests. The limit exceeds the queues' depths.
pub(crate) fn requests(count: c_int) -> Result<usize, CallError> {
    let length = usize::try_from(count).ok().filter(|&count| count <= 1 << 20);
    length.ok_or(CallError::Bounds {
        what: "count",
        value: count.into(),
        bounds: "it must be 0 to 1048576",
    })
}
