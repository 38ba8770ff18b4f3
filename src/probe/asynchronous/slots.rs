//! Slots for messages that the HCA, the stream and the CPU access, and the contents of messages.

use gdsync::MappedMemory;
use gdsync::hca::MemoryRegion;
use gdsync::wire::DataSegment;
use gpu::{Check, DeviceMemory, HostMemory, Pattern};

use super::queues::{Queues, allocate};
use super::session::Session;
use crate::probe::failure::StepError;

/// Offset of the message's number.
const NUMBER: usize = 0;
/// Offset of the word that the remote process changes: 0 when sent, its mark plus the number when returned.
pub const CHANGED: usize = 4;

pub struct Slots {
    pub place: MappedMemory,
    pub region: MemoryRegion,
    memory: SlotMemory,
    count: usize,
    bytes: usize,
}

enum SlotMemory {
    Gpu(DeviceMemory),
    /// Pinned host memory, and the GPU memory of [`Slots::for_kernels`], which kernels copy from and to it.
    Host(HostMemory, Option<DeviceMemory>),
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
        let in_gpu_memory = || -> Result<(MappedMemory, MemoryRegion, DeviceMemory), String> {
            let memory = allocate(session, count * bytes);
            let memory = memory.map_err(|error| gpu::sentence(&error))?;
            let (place, region) = queues.register_gpu(session, &memory)?;
            Ok((place, region, memory))
        };
        let (place, region, memory, why) = match in_gpu_memory() {
            Ok((place, region, memory)) => (place, region, SlotMemory::Gpu(memory), None),
            Err(why) => {
                let memory = session.gpu.pinned(count * bytes)?;
                let place = MappedMemory::host(memory.clone());
                let region = queues.register(&place)?;
                (place, region, SlotMemory::Host(memory, None), Some(why))
            }
        };
        let slots = Self { place, region, memory, count, bytes };
        Ok((slots, why))
    }

    /// Allocates what [`Self::fill`] and [`Self::compare`] need.
    pub fn for_kernels(mut self, session: &Session<'_>) -> Result<Self, StepError> {
        if let SlotMemory::Host(_, kernels) = &mut self.memory {
            *kernels = Some(allocate(session, self.count * self.bytes)?);
        }
        Ok(self)
    }

    /// Offset of a message's slot.
    pub fn at(&self, number: u32) -> usize {
        number as usize % self.count * self.bytes
    }

    /// The SGE of a message's slot.
    pub fn segment(&self, number: u32) -> DataSegment {
        self.region.segment(self.at(number) as u64, self.bytes as u32)
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
        match &self.memory {
            SlotMemory::Gpu(memory) => session.reader.read(memory, self.at(number), &mut bytes)?,
            SlotMemory::Host(..) => self.place.read(self.at(number), &mut bytes)?,
        }
        Ok(bytes)
    }

    /// Queues a kernel that writes the pattern of a message where the HCA reads it.
    pub fn fill(&self, session: &Session<'_>, number: u32) -> Result<(), StepError> {
        let (stream, at) = (&session.stream, self.at(number));
        let memory = self.kernel_memory()?;
        stream.fill_pattern(memory, at, self.bytes, pattern(number), 0)?;
        if let SlotMemory::Host(host, _) = &self.memory {
            stream.copy_words(host, at, memory, at, self.bytes)?;
        }
        Ok(())
    }

    /// Queues a kernel that compares a message with its pattern; the result is number `position` of `results`.
    pub fn compare(
        &self,
        session: &Session<'_>,
        number: u32,
        results: &DeviceMemory,
        position: usize,
    ) -> Result<Check, StepError> {
        let (stream, at) = (&session.stream, self.at(number));
        let memory = self.kernel_memory()?;
        if let SlotMemory::Host(host, _) = &self.memory {
            stream.copy_words(memory, at, host, at, self.bytes)?;
        }
        Ok(stream.start_check(
            memory,
            (at, self.bytes),
            (pattern(number), 0),
            results,
            position * Check::BYTES,
        )?)
    }

    fn kernel_memory(&self) -> Result<&DeviceMemory, StepError> {
        match &self.memory {
            SlotMemory::Gpu(memory) | SlotMemory::Host(_, Some(memory)) => Ok(memory),
            SlotMemory::Host(_, None) => Err(StepError::OutOfStep),
        }
    }
}

/// The pattern that kernels write into a message.
fn pattern(number: u32) -> Pattern {
    Pattern::new(u64::from(number) + 1)
}

/// Why a message is not message `number` with the word `changed`.
pub fn wrong(number: u32, changed: u32, found: &[u8]) -> Option<String> {
    let expected = message(number, changed, found.len());
    let at = expected.iter().zip(found).position(|(expected, found)| expected != found)?;
    let what = match at {
        0..4 => "wrong number",
        4..8 => "not as the other process changed it",
        _ => "not what was sent",
    };
    Some(format!("message {number}: {what}: byte {at} is wrong"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locates_wrong_byte() {
        let there = message(5, 0, 24);
        assert_eq!(there[..8], [5_u32.to_ne_bytes(), [0; 4]].concat());
        let back = message(5, 105, 24);
        assert_eq!(wrong(5, 105, &back), None);
        // An unchanged echo, the previous message, and each byte of the payload.
        assert!(
            wrong(5, 105, &there)
                .is_some_and(|why| why.contains("not as the other process changed it: byte 4"))
        );
        assert!(
            wrong(5, 105, &message(4, 104, 24))
                .is_some_and(|why| why.contains("wrong number: byte 0"))
        );
        for at in 8..24 {
            let mut broken = back.clone();
            broken[at] ^= 0x10;
            let why = wrong(5, 105, &broken).expect("wrong");
            assert!(why.contains(&format!("not what was sent: byte {at} ")), "{why}");
        }
        assert_ne!(message(4, 0, 24)[8..], there[8..]);
    }
}
