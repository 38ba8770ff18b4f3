//! The memory of messages: outgoing ones in the first half, incoming ones in the second.

use std::ops::Range;

use gdsync::{MappedMemory, MemoryLocation};
use gpu::{Allocation, DeviceMemory, Pattern, Stream};
use mp::{Communicator, Region};

use super::plan::ALIGNMENT;
use super::talk::Step;
use super::task::Side;
use crate::probe::bytes::compare;
use crate::probe::failure::StepError;

/// Registered memory with both halves.
pub struct Memory {
    pub region: Region,
    kind: Kind,
    room: usize,
    /// Why the HCA cannot access GPU memory.
    pub fallback: Option<String>,
}

enum Kind {
    Gpu(DeviceMemory),
    Host(MappedMemory),
}

/// A half of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Outgoing,
    Incoming,
}

impl Memory {
    /// GPU memory if the HCA can access it, else host memory.
    pub fn new(ranks: &Communicator, room: usize) -> Result<Self, StepError> {
        let gpu = ranks.allocator().gpu();
        let memory = gpu.allocate(Allocation::Malloc, 2 * room)?;
        match ranks.register_gpu(&memory, 0..2 * room) {
            Ok(region) => Ok(Self { region, kind: Kind::Gpu(memory), room, fallback: None }),
            Err(why) => {
                let place = ranks.allocator().place(MemoryLocation::Host, 2 * room)?;
                Ok(Self {
                    region: ranks.register(&place)?,
                    kind: Kind::Host(place),
                    room,
                    fallback: Some(gpu::sentence(&why)),
                })
            }
        }
    }

    /// The location of message `index` of a step.
    pub fn range(&self, half: Half, step: &Step, index: u32) -> Range<usize> {
        let start = match half {
            Half::Outgoing => 0,
            Half::Incoming => self.room,
        };
        let start = start + stride(step) * index as usize;
        start..start + step.bytes
    }

    /// Writes all messages that this side sends.
    pub fn fill(&self, reader: &Stream, side: Side, step: &Step) -> Result<(), StepError> {
        self.write(reader, Half::Outgoing, &expected(side, step))
    }

    /// Writes other bytes than those that will arrive.
    pub fn clear(&self, reader: &Stream, step: &Step) -> Result<(), StepError> {
        let bytes = vec![0xc5; stride(step) * step.count as usize];
        self.write(reader, Half::Incoming, &bytes)
    }

    fn write(&self, stream: &Stream, half: Half, bytes: &[u8]) -> Result<(), StepError> {
        let at = match half {
            Half::Outgoing => 0,
            Half::Incoming => self.room,
        };
        match &self.kind {
            Kind::Gpu(memory) => Ok(stream.write(memory, at, bytes)?),
            Kind::Host(place) => Ok(place.write(at, bytes)?),
        }
    }

    /// What is wrong in the messages that came from a side.
    pub fn check(
        &self,
        reader: &Stream,
        from: Side,
        step: &Step,
    ) -> Result<Option<String>, StepError> {
        let expected = expected(from, step);
        let mut found = vec![0; expected.len()];
        match &self.kind {
            Kind::Gpu(memory) => reader.read(memory, self.room, &mut found)?,
            Kind::Host(place) => place.read(self.room, &mut found)?,
        }
        let messages = expected.chunks(stride(step)).zip(found.chunks(stride(step)));
        for (number, (expected, found)) in messages.enumerate() {
            // Behind a message lie the bytes of `clear`, and `expected` has them too.
            if let Some(mismatch) = compare(expected, found) {
                return Ok(Some(format!("message {number} of {}: {mismatch}", step.count)));
            }
        }
        Ok(None)
    }
}

/// Distance of messages.
fn stride(step: &Step) -> usize {
    step.bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT)
}

/// All messages of a side, each with the bytes behind it.
fn expected(side: Side, step: &Step) -> Vec<u8> {
    let mut bytes = vec![0xc5; stride(step) * step.count as usize];
    for (number, message) in (0..).zip(bytes.chunks_mut(stride(step))) {
        let seed = step.seed.wrapping_add(number).wrapping_mul(2);
        let seed = seed + u64::from(side == Side::Server);
        Pattern::new(seed).fill(&mut message[..step.bytes], 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::mp::talk::Kind;

    #[test]
    fn all_messages_and_the_bytes_behind_them_are_expected() {
        let step = Step { kind: Kind::Messages, bytes: 50, count: 3, seed: 5 };
        let sides = [Side::Client, Side::Server].map(|side| expected(side, &step));
        let messages: Vec<&[u8]> =
            sides.iter().flat_map(|bytes| bytes.chunks(stride(&step))).collect();
        assert_eq!((messages.len(), stride(&step)), (6, ALIGNMENT));
        for (number, message) in messages.iter().enumerate() {
            assert_eq!(message[50..], [0xc5; ALIGNMENT - 50]);
            assert!(!messages[..number].contains(message), "{number}");
        }
    }
}
