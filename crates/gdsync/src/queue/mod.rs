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
pub use send::{Prepared, SendParts, SendQueue};
pub use wait::Wait;

use gpu::MemOp;

use crate::{Error, Place};

/// `place` has exactly the bytes that `what` needs.
fn fits(what: &'static str, place: &Place, need: usize) -> Result<(), Error> {
    match place.len() {
        have if have == need => Ok(()),
        have => Err(Error::Size { what, need, have }),
    }
}

/// An operation on the word that a place starts with, for a stream.
fn on_stream(op: MemOp<Place>) -> Result<MemOp, Error> {
    op.try_map(|place, bytes| place.word(0, bytes))
}
