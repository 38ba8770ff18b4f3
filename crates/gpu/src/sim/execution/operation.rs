//! Stream memory operations: word writes and waits of a stream.

use std::sync::atomic::{Ordering, fence};

use super::queue::Queue;
use super::span::Span;
use crate::bytes;

/// Wait condition on the observed word and the given value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `seen - value >= 0` as a signed number of the word's width: cyclic, so counters may wrap.
    Geq,
    /// `seen == value`.
    Eq,
    /// `seen & value != 0`.
    And,
    /// `!(seen | value) != 0`: some bit is clear in both.
    Nor,
}

impl Compare {
    /// True if a 32-bit word satisfies it.
    #[must_use]
    pub const fn holds32(self, seen: u32, value: u32) -> bool {
        match self {
            Self::Geq => seen.wrapping_sub(value) as i32 >= 0,
            Self::Eq => seen == value,
            Self::And => seen & value != 0,
            Self::Nor => !(seen | value) != 0,
        }
    }

    /// True if a 64-bit word satisfies it.
    #[must_use]
    pub const fn holds64(self, seen: u64, value: u64) -> bool {
        match self {
            Self::Geq => seen.wrapping_sub(value) as i64 >= 0,
            Self::Eq => seen == value,
            Self::And => seen & value != 0,
            Self::Nor => !(seen | value) != 0,
        }
    }
}

/// Memory operation. Each span is one naturally aligned word.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of CUDA's operations")]
pub enum Operation {
    /// Writes a 32-bit word after all earlier writes are visible.
    Write32 { to: Span, value: u32 },
    /// Writes a 64-bit word after all earlier writes are visible.
    Write64 { to: Span, value: u64 },
    /// Waits until a 32-bit word satisfies the condition.
    Wait32 { on: Span, value: u32, compare: Compare },
    /// Waits until a 64-bit word satisfies the condition.
    Wait64 { on: Span, value: u64, compare: Compare },
    /// Orders earlier and later accesses.
    Fence,
}

impl Operation {
    pub(crate) fn perform(&self, queue: &Queue) -> Result<(), String> {
        self.perform_until(queue, &|| false).map(drop)
    }

    /// Performs it; false if a wait ended because `is_over` was true.
    pub(crate) fn perform_until(
        &self,
        queue: &Queue,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, String> {
        match self {
            Self::Write32 { to, value } => {
                // The default write has a fence in front, so earlier writes become visible first.
                fence(Ordering::SeqCst);
                // SAFETY: the span is 4 bytes, aligned to 4, and kept alive.
                unsafe { bytes::store32(to.start, *value) };
                fence(Ordering::SeqCst);
                Ok(true)
            }
            Self::Write64 { to, value } => {
                fence(Ordering::SeqCst);
                // SAFETY: the span is 8 bytes, aligned to 8, and kept alive.
                unsafe { bytes::store64(to.start, *value) };
                fence(Ordering::SeqCst);
                Ok(true)
            }
            Self::Wait32 { on, value, compare } => {
                // SAFETY: the span is 4 bytes, aligned to 4, and kept alive.
                let load = || unsafe { bytes::load32(on.start) };
                let what = || {
                    let seen = load();
                    format!("a 32-bit word to be {compare:?} {value:#x}; it is {seen:#x}")
                };
                let holds = || compare.holds32(load(), *value);
                queue.wait_until(what, || holds() || is_over())?;
                Ok(holds())
            }
            Self::Wait64 { on, value, compare } => {
                // SAFETY: the span is 8 bytes, aligned to 8, and kept alive.
                let load = || unsafe { bytes::load64(on.start) };
                let what = || {
                    let seen = load();
                    format!("a 64-bit word to be {compare:?} {value:#x}; it is {seen:#x}")
                };
                let holds = || compare.holds64(load(), *value);
                queue.wait_until(what, || holds() || is_over())?;
                Ok(holds())
            }
            Self::Fence => {
                fence(Ordering::SeqCst);
                Ok(true)
            }
        }
    }
}
