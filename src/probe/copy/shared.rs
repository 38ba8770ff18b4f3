//! Memory that the CPU and a kernel share: memory of the GPU through a mapping, or pinned memory.

use gdrcopy::Mapping;
use gpu::{DeviceMemory, HostMemory, Memory};

use super::session::{Session, map_as};
use super::task::MemoryLocation;
use crate::probe::failure::StepError;

pub enum SharedMemory {
    Gpu { memory: DeviceMemory, mapping: Box<Mapping> },
    Host(HostMemory),
}

impl SharedMemory {
    /// Allocates memory of zeros.
    pub fn new(
        session: &Session<'_>,
        place: MemoryLocation,
        bytes: usize,
    ) -> Result<Self, StepError> {
        if place == MemoryLocation::Host {
            let memory = session.gpu.pinned(bytes)?;
            memory.write(0, &vec![0; bytes])?;
            return Ok(Self::Host(memory));
        }
        let choices = &session.task.choices;
        let memory = session.gpu.allocate(choices.allocation(), bytes)?;
        session.stream.fill(&memory, 0, bytes, 0)?;
        session.stream.synchronize()?;
        let mapping = Box::new(map_as(&session.gdr, &memory, choices)?);
        Ok(Self::Gpu { memory, mapping })
    }

    /// The memory, for kernels.
    pub fn memory(&self) -> &dyn Memory {
        match self {
            Self::Gpu { memory, .. } => memory,
            Self::Host(memory) => memory,
        }
    }

    /// Writes from the start on. Later stores of this CPU arrive later.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StepError> {
        match self {
            Self::Gpu { mapping, .. } => mapping.write(0, bytes)?,
            Self::Host(memory) => memory.write(0, bytes)?,
        }
        Ok(())
    }

    /// Reads from the start on.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), StepError> {
        match self {
            Self::Gpu { mapping, .. } => mapping.read(0, bytes)?,
            Self::Host(memory) => memory.read(0, bytes)?,
        }
        Ok(())
    }

    /// Loads the 32-bit word at an offset.
    pub fn load(&self, offset: usize) -> Result<u32, StepError> {
        Ok(match self {
            Self::Gpu { mapping, .. } => mapping.load(offset)?,
            Self::Host(memory) => memory.load_u32(offset)?,
        })
    }

    /// Stores the first 32-bit word, and lets it leave this CPU at once.
    pub fn store(&mut self, value: u32) -> Result<(), StepError> {
        match self {
            Self::Gpu { mapping, .. } => {
                mapping.store(0, value)?;
                mapping.fence();
            }
            Self::Host(memory) => memory.store_u32(0, value)?,
        }
        Ok(())
    }
}
