//! Temporarily sets the calling thread's context and capture mode.

use gdr_sys::cuda as sys;

use super::driver::{Answer, Driver, call};

/// Makes a context current on this thread; drop restores the previous one.
pub(crate) struct Entered {
    driver: Driver,
}

impl Entered {
    /// Pushes `context` on this thread's stack.
    pub(crate) fn push(driver: Driver, context: sys::Context) -> Answer<Self> {
        call!(driver, cuCtxPushCurrent(context)).map(|()| Self { driver })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut popped = sys::Context::NULL;
        // Fails only if other code emptied this thread's stack; then there is nothing to restore.
        let _ = call!(self.driver, cuCtxPopCurrent(&mut popped));
    }
}

/// Sets this thread's capture mode to relaxed; drop restores the previous one. Otherwise, while any
/// graph is captured in the process, calls such as allocations fail and invalidate the capture.
pub(crate) struct Relaxed {
    driver: Driver,
    before: Option<u32>,
}

impl Relaxed {
    /// Drivers older than captures (10.1) lack the function.
    pub(crate) fn enter(driver: Driver) -> Self {
        let mut mode = sys::STREAM_CAPTURE_MODE_RELAXED;
        let exchanged = call!(driver, cuThreadExchangeStreamCaptureMode(&mut mode));
        Self { driver, before: exchanged.is_ok().then_some(mode) }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mut mode) = self.before {
            // Just succeeded with the same kind of argument.
            let _ = call!(self.driver, cuThreadExchangeStreamCaptureMode(&mut mode));
        }
    }
}
