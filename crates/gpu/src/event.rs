//! Events: points in a stream's work that others can wait for.

use std::time::Duration;

use crate::backend::EventHandle;
use crate::{Error, Gpu};

/// CUDA event. [`Stream::record`](crate::Stream::record) sets it,
/// [`Stream::wait`](crate::Stream::wait) makes another stream wait for it.
///
/// ```
/// use gpu::{Allocation, Gpu};
///
/// let gpu = Gpu::sim();
/// let (first, second) = (gpu.stream()?, gpu.stream()?);
/// let memory = gpu.allocate(Allocation::Malloc, 64)?;
/// let (event, host) = (gpu.event()?, gpu.pinned(64)?);
/// first.fill(&memory, 0, 64, 7)?;
/// first.record(&event)?;
/// second.wait(&event)?;
/// second.download(&host, 0, &memory, 0, 64)?;
/// second.synchronize()?;
/// assert_eq!(host.load_u32(60)?, 0x0707_0707);
/// # Ok::<(), gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct Event {
    gpu: Gpu,
    handle: EventHandle,
}

impl Event {
    pub(crate) fn new(gpu: Gpu) -> Result<Self, Error> {
        let handle = gpu.backend().create_event()?;
        Ok(Self { gpu, handle })
    }

    /// True if the work before its latest record is done, or if it was never recorded.
    ///
    /// # Errors
    ///
    /// [`Error::Event`], [`Error::Abandoned`].
    pub fn is_done(&self) -> Result<bool, Error> {
        self.gpu.backend().event_is_done(self.handle)
    }

    /// Waits for the work before its latest record.
    ///
    /// # Errors
    ///
    /// [`Error::Event`], [`Error::Abandoned`].
    pub fn synchronize(&self) -> Result<(), Error> {
        self.gpu.backend().synchronize_event(self.handle)
    }

    /// GPU time since an earlier event (resolution about 0.5 µs). Both must be done.
    ///
    /// # Errors
    ///
    /// [`Error::Event`], [`Error::Foreign`].
    pub fn elapsed_since(&self, earlier: &Event) -> Result<Duration, Error> {
        if !self.gpu.is_same(&earlier.gpu) {
            return Err(Error::Foreign("earlier event"));
        }
        self.gpu.backend().elapsed(earlier.handle, self.handle)
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    pub(crate) fn handle(&self) -> EventHandle {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.gpu.backend().destroy_event(self.handle);
    }
}
