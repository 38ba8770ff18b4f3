//! Memory of messages: MPI moves it, and the CPU or a kernel fills and compares it.

use gpu::{Gpu, HostMemory, Pattern};
use mp::mpi::Memory;

use crate::probe::failure::StepError;
use crate::probe::rdma::Store;

pub struct Buffer {
    store: Store,
    /// The same memory, for MPI.
    pub memory: Memory,
}

impl Buffer {
    /// Ordinary pages of the host, as a program without a GPU sends them.
    pub fn on_host(bytes: usize) -> Result<Self, StepError> {
        let host: HostMemory = Gpu::sim().pageable(bytes)?;
        Ok(Self { store: Store::Pinned(host.clone()), memory: Memory::Host(host) })
    }

    pub fn on_gpu(gpu: &Gpu, bytes: usize) -> Result<Self, StepError> {
        let store = Store::on_gpu(gpu, bytes)?;
        let Some((memory, _)) = store.device() else {
            return Err(StepError::OutOfStep);
        };
        let memory = Memory::Device(memory.clone());
        Ok(Self { store, memory })
    }

    /// Writes a pattern to its start.
    pub fn fill(&self, bytes: usize, pattern: Pattern) -> Result<(), StepError> {
        self.store.fill(bytes, pattern)
    }

    /// The error in its start; none if it holds the pattern.
    pub fn check(&self, bytes: usize, pattern: Pattern) -> Result<Option<String>, StepError> {
        let wrong = self.store.check(bytes, pattern)?;
        Ok(wrong.map(|wrong| wrong.to_string()))
    }

    pub fn is_simulated_gpu(&self) -> bool {
        let device = self.store.device();
        device.is_some_and(|(memory, _)| memory.gpu().is_sim())
    }

    /// Writes bytes to its start.
    pub fn write(&self, bytes: &[u8]) -> Result<(), StepError> {
        self.store.write(0, bytes)
    }

    /// Reads its start.
    pub fn read(&self, bytes: usize) -> Result<Vec<u8>, StepError> {
        let mut read = vec![0; bytes];
        self.store.read(0, &mut read)?;
        Ok(read)
    }
}
