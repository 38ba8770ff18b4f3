//! Enqueues work in a stream.

use gdr_sys::cuda as sys;

use super::driver::call;
use super::gpu::{CudaGpu, raw_context, raw_event};
use crate::backend::Work;
use crate::{DevicePtr, Error, Failure};

impl CudaGpu {
    /// Enqueues one operation; the context is current.
    ///
    /// # Safety
    ///
    /// All memory the work names stays valid until the stream is done with it.
    pub(super) unsafe fn put(&self, stream: sys::Stream, work: Work<'_>) -> Result<(), Error> {
        let driver = self.driver;
        match work {
            Work::HostToDevice { to, from, bytes, .. } => {
                call!(driver, cuMemcpyHtoDAsync(to.get(), from.cast(), bytes, stream))
                    .map_err(copy(to, bytes))
            }
            Work::DeviceToHost { to, from, bytes, .. } | Work::Finding { to, from, bytes } => {
                // SAFETY: guaranteed by the caller.
                unsafe { driver.copy_to_host(to, from.get(), bytes, stream) }
                    .map_err(copy(from, bytes))
            }
            Work::DeviceToDevice { to, from, bytes, .. } => {
                call!(driver, cuMemcpyDtoDAsync(to.get(), from.get(), bytes, stream))
                    .map_err(copy(to, bytes))
            }
            Work::PeerToPeer { to, to_context, from, from_context, bytes, .. } => call!(
                driver,
                cuMemcpyPeerAsync(
                    to.get(),
                    raw_context(to_context),
                    from.get(),
                    raw_context(from_context),
                    bytes,
                    stream
                )
            )
            .map_err(copy(to, bytes)),
            Work::FillBytes { to, value, bytes } => {
                call!(driver, cuMemsetD8Async(to.get(), value, bytes, stream))
                    .map_err(fill(to, bytes))
            }
            Work::FillWords { to, value, words } => {
                call!(driver, cuMemsetD32Async(to.get(), value, words, stream))
                    .map_err(fill(to, words * 4))
            }
            Work::Record(event) => {
                call!(driver, cuEventRecord(raw_event(event), stream)).map_err(Error::Event)
            }
            Work::Wait(event) => {
                call!(driver, cuStreamWaitEvent(stream, raw_event(event), 0)).map_err(Error::Event)
            }
            Work::Operations(steps) => driver
                .batch(stream, steps)
                .map_err(|source| Error::MemoryOperations { count: steps.len(), source }),
            // SAFETY: guaranteed by the caller.
            Work::Perform(perform) => unsafe { self.perform(stream, &perform) },
            // SAFETY: guaranteed by the caller.
            Work::Launch(kernel) => unsafe { self.launch(stream, kernel) },
            Work::CopyWords { to, from, vectors, .. } => {
                // SAFETY: guaranteed by the caller.
                unsafe { self.copy_words(stream, to, from, vectors) }
            }
        }
    }
}

fn copy(address: DevicePtr, bytes: usize) -> impl Fn(Failure) -> Error {
    move |source| Error::Copy { address, bytes, source }
}

fn fill(address: DevicePtr, bytes: usize) -> impl Fn(Failure) -> Error {
    move |source| Error::Fill { address, bytes, source }
}
