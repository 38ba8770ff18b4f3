//! Memory that work items use.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Keeps memory alive while it exists.
pub type Keeper = Arc<dyn Any + Send + Sync>;

/// Memory for a work item, valid while this exists.
#[derive(Clone)]
pub struct Span {
    pub(crate) start: *mut u8,
    _keeper: Option<Keeper>,
}

// SAFETY: a span is accessed only through `bytes`, which works on any thread.
unsafe impl Send for Span {}

impl Span {
    /// Memory at `start` with its owner; `None` if the caller keeps it alive.
    ///
    /// # Safety
    ///
    /// `start` is valid for the reads and writes of the work that gets this, at its alignment,
    /// until the span is dropped. Others access the memory as [`bytes`](crate::bytes) does, or not
    /// while the work is done.
    #[must_use]
    pub unsafe fn new(start: *mut u8, keeper: Option<Keeper>) -> Self {
        Self { start, _keeper: keeper }
    }

    /// Its start.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.start).finish()
    }
}
