//! Slots for messages that the HCA, the stream and the CPU access, and the contents of messages.

use gdsync::hca::MemoryRegion;
use gdsync::wire::DataSegment;
use gdsync::{MemoryLocation, Place};
use gpu::{DeviceMemory, Pattern};

use super::super::queues::{Queues, allocate};
use super::super::session::Session;
use crate::probe::failure::StepError;

/// Offset of the message's number.
const NUMBER: usize = 0;
/// Offset of the word that the remote process changes: 0 when sent, its mark plus the number when returned.
pub const CHANGED: usize = 4;

pub struct Slots {
    pub place: Place,
    region: MemoryRegion,
    /// `None` for host memory.
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
    /// Slots in GPU memory, or in pinned host memory with the reason why the HCA cannot access GPU memory.
    pub fn new(
        session: &Session<'_>,
        queues: &Queues,
        count: usize,
        bytes: usize,
    ) -> Result<(Self, Option<String>), StepError> {
        let in_gpu_memory = || -> Result<(Place, MemoryRegion, DeviceMemory), String> {
            let memory = allocate(session, count * bytes);
            let memory = memory.map_err(|error| gpu::sentence(&error))?;
            let (place, region) = queues.register_gpu(session, &memory)?;
            Ok((place, region, memory))
        };
        let (place, region, device, why) = match in_gpu_memory() {
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

    /// Offset of a message's slot.
    pub fn at(&self, number: u32) -> usize {
        number as usize % self.count * self.bytes
    }

    /// The SGE of a message's slot.
    pub fn segment(&self, number: u32) -> DataSegment {
        self.region
            .segment(self.at(number) as u64, self.bytes as u32)
    }

    /// Writes a message with the CPU. Reading a word back flushes posted writes through the mapping.
    pub fn write(&self, number: u32, message: &[u8]) -> Result<(), StepError> {
        self.place.write(self.at(number), message)?;
        self.place.load_u32(self.at(number))?;
        Ok(())
    }

    /// Changes a message with the CPU.
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

/// Why a returned message is wrong.
pub fn wrong(number: u32, mark: u32, found: &[u8]) -> Option<String> {
    let expected = message(number, mark.wrapping_add(number), found.len());
    let at = expected
        .iter()
        .zip(found)
        .position(|(expected, found)| expected != found)?;
    let what = match at {
        0..4 => "wrong number",
        4..8 => "not as the other process changed it",
        _ => "not what was sent",
    };
    Some(format!(
        "returned message {number}: {what}: byte {at} is wrong"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locates_wrong_byte() {
        let there = message(5, 0, 24);
        assert_eq!(there[..8], [5_u32.to_ne_bytes(), [0; 4]].concat());
        let back = message(5, 105, 24);
        assert_eq!(wrong(5, 100, &back), None);
        // An unchanged echo, the previous message, and each byte of the payload.
        assert!(
            wrong(5, 100, &there)
                .is_some_and(|why| why.contains("not as the other process changed it: byte 4"))
        );
        assert!(
            wrong(5, 100, &message(4, 104, 24))
                .is_some_and(|why| why.contains("wrong number: byte 0"))
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
