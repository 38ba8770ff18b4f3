//! Messages between ranks from memory that MPI uses after the call returns: the host's or a GPU's.
//!
//! A library that does not support GPU memory reads or writes the GPU's address with the CPU. CUDA reserves these addresses, so
//! the process ends with SIGSEGV; no other memory is touched.

use gpu::{DeviceMemory, HostMemory};

use super::functions::{Handle, Mpi, Start, check};
use super::{Communicator, Error};

/// Memory of a message. Clones share it.
#[derive(Debug, Clone)]
pub enum Memory {
    /// The host's.
    Host(HostMemory),
    /// A GPU's.
    Device(DeviceMemory),
}

impl Memory {
    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Host(memory) => memory.len(),
            Self::Device(memory) => memory.len(),
        }
    }

    /// True if it has no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn address(&self) -> usize {
        match self {
            Self::Host(memory) => memory.as_ptr().expose_provenance().get(),
            Self::Device(memory) => memory.address().get() as usize,
        }
    }
}

/// A message that is being sent or received. Its memory lives until it is done; dropped before, the memory is never freed.
#[derive(Debug)]
pub struct Request {
    mpi: Mpi,
    handle: Handle,
    memory: Option<Memory>,
}

impl Communicator {
    /// Begins to send bytes of a memory to a rank.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Length`], [`Error::NotInitialized`], [`Error::Failed`].
    pub fn isend(
        &self,
        memory: &Memory,
        (offset, bytes): (usize, usize),
        to: u32,
    ) -> Result<Request, Error> {
        let start = self.mpi.0.isend;
        self.start("MPI_Isend", start, memory, (offset, bytes), to)
    }

    /// Begins to receive at most so many bytes of a rank into a memory.
    ///
    /// # Errors
    ///
    /// As [`Self::isend`].
    pub fn irecv(
        &self,
        memory: &Memory,
        (offset, bytes): (usize, usize),
        from: u32,
    ) -> Result<Request, Error> {
        let start = self.mpi.0.irecv;
        self.start("MPI_Irecv", start, memory, (offset, bytes), from)
    }

    fn start(
        &self,
        name: &'static str,
        start: Start,
        memory: &Memory,
        (offset, bytes): (usize, usize),
        rank: u32,
    ) -> Result<Request, Error> {
        if offset.checked_add(bytes).is_none_or(|end| end > memory.len()) {
            return Err(Error::Range { offset, bytes });
        }
        let (count, rank) = self.arguments(bytes, rank)?;
        let address = std::ptr::with_exposed_provenance_mut(memory.address() + offset);
        let mut handle = 0;
        // SAFETY: the range is within the memory, which the request keeps until MPI is done with it.
        check(name, unsafe {
            start(address, count, self.mpi.0.byte, rank, 0, self.handle, &raw mut handle)
        })?;
        Ok(Request { mpi: self.mpi, handle, memory: Some(memory.clone()) })
    }
}

impl Request {
    /// `MPI_Test`: lets MPI progress; true once the message is done.
    ///
    /// # Errors
    ///
    /// [`Error::NotInitialized`], [`Error::Failed`].
    pub fn is_done(&mut self) -> Result<bool, Error> {
        if self.memory.is_none() {
            return Ok(true);
        }
        let (functions, mut done) = (self.mpi.0, 0);
        // SAFETY: the request is in progress; the status is MPI_STATUS_IGNORE.
        let code =
            unsafe { (functions.test)(&raw mut self.handle, &raw mut done, functions.no_status) };
        check("MPI_Test", code)?;
        if done != 0 {
            self.memory = None;
        }
        Ok(done != 0)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // MPI may still use it.
        std::mem::forget(self.memory.take());
    }
}
