//! Streams, and batches of work for them.

use gdsync::{Error as QueueError, MappedMemory, lower};
use gpu::{DeviceMemory, HostMemory, MemOp, StreamCapabilities};

use crate::error::gpu_failed;
use crate::region::Staged;
use crate::{Condition, Error};

/// A stream that executes memory operations and copies in order: one of the crate `gpu`, or a C program's.
pub trait Stream {
    /// Enqueues memory operations.
    ///
    /// # Errors
    ///
    /// Those of the GPU's driver.
    fn batch(&self, ops: &[MemOp]) -> Result<(), gpu::Error>;

    /// Enqueues a copy from GPU memory to host memory.
    ///
    /// # Errors
    ///
    /// Those of the GPU's driver.
    fn download(
        &self,
        to: &HostMemory,
        to_offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), gpu::Error>;

    /// Enqueues a copy from host memory to GPU memory.
    ///
    /// # Errors
    ///
    /// Those of the GPU's driver.
    fn upload(
        &self,
        to: &DeviceMemory,
        to_offset: usize,
        from: &HostMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), gpu::Error>;
}

impl Stream for gpu::Stream {
    fn batch(&self, ops: &[MemOp]) -> Result<(), gpu::Error> {
        self.batch(ops)
    }

    fn download(
        &self,
        to: &HostMemory,
        to_offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), gpu::Error> {
        self.download(to, to_offset, from, from_offset, bytes)
    }

    fn upload(
        &self,
        to: &DeviceMemory,
        to_offset: usize,
        from: &HostMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), gpu::Error> {
        self.upload(to, to_offset, from, from_offset, bytes)
    }
}

/// Enqueues memory operations.
pub(crate) fn post(
    stream: &dyn Stream,
    ops: &[MemOp],
    can: StreamCapabilities,
) -> Result<(), Error> {
    let ops = lower::lower(ops, can).map_err(QueueError::from)?;
    let posted = stream.batch(&ops);
    posted.map_err(gpu_failed("enqueue memory operations on a stream"))
}

/// Work for a stream, in order.
pub(crate) struct Batch<'s> {
    stream: &'s dyn Stream,
    can: StreamCapabilities,
    ops: Vec<MemOp>,
}

impl<'s> Batch<'s> {
    pub fn new(stream: &'s dyn Stream, can: StreamCapabilities) -> Self {
        Self { stream, can, ops: Vec::new() }
    }

    /// Adds the operations of a queue.
    pub fn add<const N: usize>(
        &mut self,
        ops: Result<[MemOp; N], QueueError>,
    ) -> Result<(), Error> {
        self.ops.extend(ops?);
        Ok(())
    }

    /// Adds a write of a word.
    pub fn write(&mut self, place: &MappedMemory, offset: usize, value: u32) -> Result<(), Error> {
        let at = place.word(offset, 4)?;
        self.ops.push(MemOp::Write32 { at, value });
        Ok(())
    }

    /// Adds a wait for the word at the beginning of a place.
    pub fn wait(&mut self, place: &MappedMemory, condition: Condition) -> Result<(), Error> {
        let Condition { compare, value } = condition;
        let (at, flush) = (place.word(0, 4)?, true);
        self.ops.push(MemOp::Wait32 { at, value, compare, flush });
        Ok(())
    }

    /// Enqueues the memory operations so far.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.ops.is_empty() {
            return Ok(());
        }
        let ops = std::mem::take(&mut self.ops);
        post(self.stream, &ops, self.can)
    }

    /// Copies a range of staged GPU memory to its copy in host memory.
    pub fn download(&mut self, staged: &Staged, offset: usize, bytes: usize) -> Result<(), Error> {
        self.flush()?;
        let from = staged.start + offset;
        let copied = self.stream.download(&staged.host, offset, &staged.device, from, bytes);
        copied.map_err(gpu_failed("copy staged memory on a stream"))
    }

    /// The reverse of [`Self::download`].
    pub fn upload(&mut self, staged: &Staged, offset: usize, bytes: usize) -> Result<(), Error> {
        self.flush()?;
        let to = staged.start + offset;
        let copied = self.stream.upload(&staged.device, to, &staged.host, offset, bytes);
        copied.map_err(gpu_failed("copy staged memory on a stream"))
    }
}
