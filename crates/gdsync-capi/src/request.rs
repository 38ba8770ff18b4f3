//! What is inside a `gds_send_request_t` or `gds_wait_request_t`: numbers of things that this library keeps, and a mark that tells whether
//! they are its own. So a request may be copied, and garbage in one is found before anything is looked up.

use std::hash::{BuildHasher as _, RandomState};

use process::{PerProcess, Process};

use crate::abi::{REQUEST_WORDS, Request};
use crate::call_error::CallError;
use crate::pair::Side;

/// What a request stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// Prepared entries of a queue pair, up to the one of this number.
    Send {
        /// The queue pair's own number.
        pair: u64,
        /// The last entry's, counted from 0.
        entry: u64,
    },
    /// The wait for a completion.
    Wait {
        /// The queue pair's own number.
        pair: u64,
        /// Of which of its queues.
        side: Side,
        /// Which completion, counted from 0.
        index: u32,
    },
}

/// The kind is the first word, before the queue pair, the number and the mark; the other words are zero.
const SEND: u64 = 1;
const WAIT_SENT: u64 = 2;
const WAIT_RECEIVED: u64 = 3;

/// This process's own: a forked child's are others.
static MARKS: PerProcess<RandomState> = PerProcess::new(RandomState::new);

/// Writes a request.
///
/// # Safety
///
/// `to` is NULL or can be written to.
pub(crate) unsafe fn write(to: *mut Request, meaning: Meaning) -> Result<(), CallError> {
    check(to)?;
    // SAFETY: not NULL and aligned, and so the caller promises that it can be written to.
    unsafe { to.write(of(meaning)) };
    Ok(())
}

/// The request that stands for it.
pub(crate) fn of(meaning: Meaning) -> Request {
    let (kind, pair, number) = match meaning {
        Meaning::Send { pair, entry } => (SEND, pair, entry),
        Meaning::Wait {
            pair,
            side: Side::Sent,
            index,
        } => (WAIT_SENT, pair, index.into()),
        Meaning::Wait {
            pair,
            side: Side::Received,
            index,
        } => (WAIT_RECEIVED, pair, index.into()),
    };
    let mut words = [0; REQUEST_WORDS];
    words[..4].copy_from_slice(&[kind, pair, number, mark(meaning)]);
    Request { words }
}

/// Reads a request.
///
/// # Safety
///
/// `from` is NULL or can be read.
pub(crate) unsafe fn read(from: *const Request) -> Result<Meaning, CallError> {
    check(from)?;
    // SAFETY: not NULL and aligned, and so the caller promises that it can be read; any bytes are numbers.
    let [kind, pair, number, marked] = unsafe { from.cast::<[u64; 4]>().read() };
    let wait = |side| {
        let index = u32::try_from(number).ok()?;
        Some(Meaning::Wait { pair, side, index })
    };
    let meaning = match kind {
        SEND => Some(Meaning::Send {
            pair,
            entry: number,
        }),
        WAIT_SENT => wait(Side::Sent),
        WAIT_RECEIVED => wait(Side::Received),
        _ => None,
    };
    meaning
        .filter(|&meaning| mark(meaning) == marked)
        .ok_or(CallError::Request)
}

fn mark(meaning: Meaning) -> u64 {
    MARKS.get().hash_one((Process::current().number(), meaning))
}

/// Neither NULL nor askew.
pub(crate) fn check(request: *const Request) -> Result<(), CallError> {
    if request.is_null() {
        return Err(CallError::Null { what: "request" });
    }
    match request.is_aligned() {
        true => Ok(()),
        false => Err(CallError::Misaligned {
            what: "request",
            address: request.addr(),
            alignment: align_of::<Request>(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_was_written_and_any_change_of_its_numbers_is_found() {
        let mut request = Request {
            words: [0xcccc_cccc_cccc_cccc; REQUEST_WORDS],
        };
        // SAFETY: the pointers lead to this function's own request.
        let read = |request: &Request| unsafe { read(request) };
        assert!(read(&request).is_err());
        let meanings = [
            Meaning::Send { pair: 1, entry: 0 },
            Meaning::Send {
                pair: 9,
                entry: u64::MAX,
            },
            Meaning::Wait {
                pair: 1,
                side: Side::Sent,
                index: 0,
            },
            Meaning::Wait {
                pair: 1,
                side: Side::Received,
                index: u32::MAX,
            },
        ];
        for meaning in meanings {
            // SAFETY: as above.
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
