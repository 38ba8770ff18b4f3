//! The software's side of a queue pair: entries put in, doorbells rung (by the CPU or by a stream), completions polled and waited
//! for. Rings, records and registers lie in [places](crate::Place) that somebody else chose; who reads them is not known here.

mod completion;
mod receive;
mod send;
mod wait;

#[cfg(test)]
mod tests;

pub use completion::{CompletionParts, CompletionQueue, Waiting};
pub use receive::{ReceiveParts, ReceiveQueue};
pub use send::{Prepared, SendParts, SendQueue, Step};
pub use wait::Wait;

use crate::{Error, Place};

/// `place` has exactly the bytes that `what` needs.
fn fits(what: &'static str, place: &Place, need: usize) -> Result<(), Error> {
    match place.len() {
        have if have == need => Ok(()),
        have => Err(Error::Size { what, need, have }),
    }
}
