//! Encoding of `gds_send_request_t` and `gds_wait_request_t`: ids, and a keyed hash that detects garbage. Requests can be copied.

use std::hash::{BuildHasher as _, RandomState};

use gdr_sys::process::{PerProcess, Process};

use crate::abi::{REQUEST_WORDS, Request};
use crate::call_error::CallError;
use crate::flags;
use crate::pair::Side;

/// A decoded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// Prepared sends.
    Send {
        /// Id of the queue pair.
        pair: u64,
        /// Number of the last WQE, from 0.
        entry: u64,
    },
    /// The wait for a completion.
    Wait {
        /// Id of the queue pair.
        pair: u64,
        /// The completion queue.
        side: Side,
        /// Index of the completion, from 0.
        index: u32,
    },
}

/// Words of a request: kind, queue pair, number, hash; the others are zero.
const SEND: u64 = 1;
const WAIT_SENT: u64 = 2;
const WAIT_RECEIVED: u64 = 3;

/// Per process, so that a forked child rejects its parent's requests.
static MARKS: PerProcess<RandomState> = PerProcess::new(RandomState::new);

/// Writes a request.
///
/// # Safety
///
/// `to` is NULL or writable.
pub(crate) unsafe fn write(to: *mut Request, meaning: Meaning) -> Result<(), CallError> {
    check(to)?;
    // SAFETY: not NULL and aligned; the caller promises that it is writable.
    unsafe { to.write(of(meaning)) };
    Ok(())
}

/// Encodes a request.
pub(crate) fn of(meaning: Meaning) -> Request {
    let (kind, pair, number) = match meaning {
        Meaning::Send { pair, entry } => (SEND, pair, entry),
        Meaning::Wait { pair, side: Side::Sent, index } => (WAIT_SENT, pair, index.into()),
        Meaning::Wait { pair, side: Side::Received, index } => (WAIT_RECEIVED, pair, index.into()),
    };
    let mut words = [0; REQUEST_WORDS];
    words[..4].copy_from_slice(&[kind, pair, number, mark(meaning)]);
    Request { words }
}

/// Reads a request.
///
/// # Safety
///
/// `from` is NULL or readable.
pub(crate) unsafe fn read(from: *const Request) -> Result<Meaning, CallError> {
    check(from)?;
    // SAFETY: not NULL and aligned; the caller promises that it is readable; any bytes are valid integers.
    let [kind, pair, number, marked] = unsafe { from.cast::<[u64; 4]>().read() };
    let wait = |side| {
        let index = u32::try_from(number).ok()?;
        Some(Meaning::Wait { pair, side, index })
    };
    let meaning = match kind {
        SEND => Some(Meaning::Send { pair, entry: number }),
        WAIT_SENT => wait(Side::Sent),
        WAIT_RECEIVED => wait(Side::Received),
        _ => None,
    };
    meaning.filter(|&meaning| mark(meaning) == marked).ok_or(CallError::Request)
}

fn mark(meaning: Meaning) -> u64 {
    MARKS.get().hash_one((Process::current().number(), meaning))
}

/// Rejects NULL and misaligned pointers.
pub(crate) fn check(request: *const Request) -> Result<(), CallError> {
    flags::check("request", request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_detects_changes() {
        let mut request = Request { words: [0xcccc_cccc_cccc_cccc; REQUEST_WORDS] };
        // SAFETY: the reference is valid.
        let read = |request: &Request| unsafe { read(request) };
        assert!(read(&request).is_err());
        let meanings = [
            Meaning::Send { pair: 1, entry: 0 },
            Meaning::Send { pair: 9, entry: u64::MAX },
            Meaning::Wait { pair: 1, side: Side::Sent, index: 0 },
            Meaning::Wait { pair: 1, side: Side::Received, index: u32::MAX },
        ];
        for meaning in meanings {
            // SAFETY: the pointer to the local variable is valid.
            unsafe { write(&raw mut request, meaning) }.unwrap();
            assert_eq!(read(&request).unwrap(), meaning);
            for bit in 0..4 * 64 {
                let mut other = request;
                other.words[bit / 64] ^= 1 << (bit % 64);
                assert!(read(&other).is_err(), "{meaning:?} {bit}");
            }
        }
    }
}
