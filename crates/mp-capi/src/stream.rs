//! A program's stream.

use std::ptr::NonNull;

use engine::Stream;
use gpu::{DeviceMemory, DevicePtr, HostMemory, MemOp, Memory as _, foreign};

use crate::abi::CudaStream;

/// A `cudaStream_t`, live during the call that it was passed to.
pub(crate) struct ForeignStream(CudaStream);

impl ForeignStream {
    /// # Safety
    ///
    /// It is a live stream of this process or a default one until the result is dropped.
    pub unsafe fn new(stream: CudaStream) -> Self {
        Self(stream)
    }
}

impl Stream for ForeignStream {
    fn batch(&self, ops: &[MemOp]) -> Result<(), gpu::Error> {
        let ops: Vec<MemOp<DevicePtr>> =
            ops.iter().map(|op| op.clone().map(|word| word.address())).collect();
        // SAFETY: a live stream. The words are those of queues, which stay allocated while a stream may access them (`Communicator`), or
        // the program's, which promises that.
        unsafe { foreign::batch(self.0, &ops) }
    }

    fn download(
        &self,
        to: &HostMemory,
        to_offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), gpu::Error> {
        let Some(to) = host(to, to_offset, bytes) else {
            return Ok(());
        };
        let from = from.device_address().offset(from_offset as u64);
        // SAFETY: a live stream. The host memory is a region's, which the program keeps registered until the request has ended.
        unsafe { foreign::download(self.0, to, from, bytes) }
    }

    fn upload(
        &self,
        to: &DeviceMemory,
        to_offset: usize,
        from: &HostMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), gpu::Error> {
        let Some(from) = host(from, from_offset, bytes) else {
            return Ok(());
        };
        let to = to.device_address().offset(to_offset as u64);
        // SAFETY: as above.
        unsafe { foreign::upload(self.0, to, from, bytes) }
    }
}

/// The address of a range; `None` for no bytes. The caller has checked the range.
fn host(memory: &HostMemory, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
    let start = memory.as_ptr().as_ptr().wrapping_add(offset);
    NonNull::new(start).filter(|_| bytes > 0 && offset + bytes <= memory.len())
}
