//! Events: a point in a stream's work that others can wait for.

use std::time::Duration;

use crate::backend::EventHandle;
use crate::{Error, Gpu};

/// A mark that a stream passes. [`Stream::record`](crate::Stream::record) sets it anew, [`Stream::wait`](crate::Stream::wait)
/// makes another stream wait for it.
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

    /// Whether the work before its latest record is done; of an event that was never recorded, yes.
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

    /// The time from an earlier event to this one, as the GPU took it (resolution about 0.5 µs). Both must be done.
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
