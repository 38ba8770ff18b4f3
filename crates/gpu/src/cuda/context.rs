//! The calling thread's context and capture mode, changed for a while and put back.

use gdr_sys::cuda as sys;

use super::driver::{Answer, Driver, call};

/// A context made current on this thread; the one before comes back on drop.
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
        // It fails only if somebody else emptied this thread's stack meanwhile; then there is
        // nothing to put back.
        let _ = call!(self.driver, cuCtxPopCurrent(&mut popped));
    }
}

/// This thread's capture mode set to relaxed: while a graph is being captured somewhere in the
/// process, calls such as allocations are refused otherwise, and would spoil the capture. The mode
/// before comes back on drop.
pub(crate) struct Relaxed {
    driver: Driver,
    before: Option<u32>,
}

impl Relaxed {
    /// A driver older than captures (10.1) has nothing to be disturbed.
    pub(crate) fn enter(driver: Driver) -> Self {
        let mut mode = sys::STREAM_CAPTURE_MODE_RELAXED;
        let exchanged = call!(driver, cuThreadExchangeStreamCaptureMode(&mut mode));
        Self {
            driver,
            before: exchanged.is_ok().then_some(mode),
        }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mut mode) = self.before {
            // It worked a moment ago with the same kind of argument.
            let _ = call!(self.driver, cuThreadExchangeStreamCaptureMode(&mut mode));
        }
    }
}
