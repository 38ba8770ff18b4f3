//! Where messages lie: slots of one size, which the HCA, the stream and the CPU reach; and what is in them.

use gdsync::hca::MemoryRegion;
use gdsync::wire::DataSegment;
use gdsync::{MemoryLocation, Place};
use gpu::{Allocation, DeviceMemory, Pattern, pointer};

use super::super::queues::Queues;
use super::super::session::Session;
use crate::probe::failure::StepError;

/// The number of a message is its first word.
const NUMBER: usize = 0;
/// What the remote side changes is its second: nothing on the way there, and its mark plus the number on the way back.
pub const CHANGED: usize = 4;

pub struct Slots {
    pub place: Place,
    region: MemoryRegion,
    /// The GPU's memory, where it is that.
    device: Option<DeviceMemory>,
    count: usize,
    bytes: usize,
}

pub fn message(number: u32, changed: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes];
    Pattern::new(number.into()).fill(&mut message, 0);
    message[NUMBER..NUMBER + 4].copy_from_slice(&number.to_ne_bytes());
    message[CHANGED..CHANGED + 4].copy_from_slice(&changed.to_ne_bytes());
    message
}

impl Slots {
    /// Of the GPU's memory where the HCA reaches it, and otherwise, with the reason, of pinned host memory.
    pub fn new(
        session: &Session<'_>,
        queues: &Queues,
        count: usize,
        bytes: usize,
    ) -> Result<(Self, Option<String>), StepError> {
        let of_the_gpu = || -> Result<(Place, MemoryRegion, DeviceMemory), String> {
            let gdr = session
                .allocator
                .gdr()
                .ok_or("the CPU maps no GPU memory here")?;
            let said = |error: gdsync::Error| gpu::sentence(&error);
            let size = (count * bytes).next_multiple_of(64 << 10);
            let memory = session.gpu.allocate(Allocation::Malloc, size);
            let memory = memory.map_err(|error| gpu::sentence(&error))?;
            if !session.gpu.is_sim() {
                // A driver that does not know it is asked for no copies that it would bear on.
                let _ = pointer::set_sync_memops(memory.address());
            }
            let place = Place::device(memory.clone(), gdr).map_err(said)?;
            let region = queues
                .register(&place)
                .map_err(|failure| gpu::sentence(&failure))?;
            Ok((place, region, memory))
        };
        let (place, region, device, why) = match of_the_gpu() {
            Ok((place, region, memory)) => (place, region, Some(memory), None),
            Err(why) => {
                let place = session
                    .allocator
                    .place(MemoryLocation::Host, count * bytes)?;
                let region = queues.register(&place)?;
                (place, region, None, Some(why))
            }
        };
        let slots = Self {
            place,
            region,
            device,
            count,
            bytes,
        };
        Ok((slots, why))
    }

    /// Where the slot of a message begins.
    pub fn at(&self, number: u32) -> usize {
        number as usize % self.count * self.bytes
    }

    /// The slot of a message, for an entry.
    pub fn segment(&self, number: u32) -> DataSegment {
        self.region
            .segment(self.at(number) as u64, self.bytes as u32)
    }

    /// The CPU writes a message. It is there when this returns: what was written through a mapping is behind the word that is read.
    pub fn write(&self, number: u32, message: &[u8]) -> Result<(), StepError> {
        self.place.write(self.at(number), message)?;
        self.place.load_u32(self.at(number))?;
        Ok(())
    }

    /// The CPU changes a message.
    pub fn change(&self, number: u32, changed: u32) -> Result<(), StepError> {
        self.place.store_u32(self.at(number) + CHANGED, changed)?;
        self.place.load_u32(self.at(number) + CHANGED)?;
        Ok(())
    }

    pub fn read(&self, session: &Session<'_>, number: u32) -> Result<Vec<u8>, StepError> {
        let mut bytes = vec![0; self.bytes];
        match &self.device {
            Some(memory) => session.reader.read(memory, self.at(number), &mut bytes)?,
            None => self.place.read(self.at(number), &mut bytes)?,
        }
        Ok(bytes)
    }
}

/// What is wrong with what came back, if anything is.
pub fn wrong(number: u32, mark: u32, found: &[u8]) -> Option<String> {
    let expected = message(number, mark.wrapping_add(number), found.len());
    let at = expected
        .iter()
        .zip(found)
        .position(|(expected, found)| expected != found)?;
    let what = match at {
        0..4 => "it is another one",
        4..8 => "it is not as the other process changed it",
        _ => "it is not what was sent",
    };
    Some(format!(
        "message {number}: {what}: byte {at} is wrong where it came back"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_and_each_number_is_another_message() {
        let there = message(5, 0, 24);
        assert_eq!(there[..8], [5_u32.to_ne_bytes(), [0; 4]].concat());
        let back = message(5, 105, 24);
        assert_eq!(wrong(5, 100, &back), None);
        // An echo without a change, the message before, and a byte of the rest.
        assert!(
            wrong(5, 100, &there)
                .is_some_and(|why| why.contains("not as the other process changed it: byte 4"))
        );
        assert!(
            wrong(5, 100, &message(4, 104, 24))
                .is_some_and(|why| why.contains("it is another one: byte 0"))
        );
        for at in 8..24 {
            let mut broken = back.clone();
            broken[at] ^= 0x10;
            let why = wrong(5, 100, &broken).expect("wrong");
            assert!(
                why.contains(&format!("not what was sent: byte {at} ")),
                "{why}"
            );
        }
        assert_ne!(message(4, 0, 24)[8..], there[8..]);
    }
}
