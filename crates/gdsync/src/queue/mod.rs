//! The software's part of a queue pair: writes WQEs, rings doorbells (by the CPU or by a stream), polls and waits for completions.
//! Rings, records and registers lie in [places](crate::MappedMemory) of the caller; an [HCA](crate::hca) reads them.

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

use crate::{Error, MappedMemory};

/// Checks that `place` has exactly `need` bytes.
fn fits(what: &'static str, place: &MappedMemory, need: usize) -> Result<(), Error> {
    match place.len() {
        have if have == need => Ok(()),
        have => Err(Error::Size { what, need, have }),
    }
}

/// The stream operation on the first word of a place.
fn on_stream(op: MemOp<MappedMemory>) -> Result<MemOp, Error> {
    op.try_map(|place, bytes| place.word(0, bytes))
}
