//! Stream memory operations: words a stream writes, and words it waits for.

use std::sync::atomic::{Ordering, fence};

use crate::bytes;
use crate::queue::Queue;
use crate::span::Span;

/// The condition a stream waits for, on the word it sees and the value it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `seen - value >= 0` as a signed number of the word's width: cyclic, so that counters may wrap.
    Geq,
    /// `seen == value`.
    Eq,
    /// `seen & value != 0`.
    And,
    /// `!(seen | value) != 0`: some bit is in neither.
    Nor,
}

impl Compare {
    /// Whether a 32-bit word satisfies it.
    #[must_use]
    pub const fn holds32(self, seen: u32, value: u32) -> bool {
        match self {
            Self::Geq => seen.wrapping_sub(value) as i32 >= 0,
            Self::Eq => seen == value,
            Self::And => seen & value != 0,
            Self::Nor => !(seen | value) != 0,
        }
    }

    /// Whether a 64-bit word satisfies it.
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

/// A memory operation. Each span is a word of the operation's width, at a multiple of it.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of CUDA's operations")]
pub enum Operation {
    /// Writes a 32-bit word, after all earlier writes are visible.
    Write32 { to: Span, value: u32 },
    /// Writes a 64-bit word, likewise.
    Write64 { to: Span, value: u64 },
    /// Waits until a 32-bit word satisfies the condition.
    Wait32 {
        on: Span,
        value: u32,
        compare: Compare,
    },
    /// Waits for a 64-bit word.
    Wait64 {
        on: Span,
        value: u64,
        compare: Compare,
    },
    /// Orders what comes before it and what comes after.
    Fence,
}

impl Operation {
    pub(crate) fn perform(&self, queue: &Queue) -> Result<(), String> {
        match self {
            Self::Write32 { to, value } => {
                // What was written before is seen before: the default write has a fence in front.
                fence(Ordering::SeqCst);
                // SAFETY: the span is 4 bytes at a multiple of 4, and is kept.
                unsafe { bytes::store32(to.start, *value) };
                fence(Ordering::SeqCst);
                Ok(())
            }
            Self::Write64 { to, value } => {
                fence(Ordering::SeqCst);
                // SAFETY: as above, of 8.
                unsafe { bytes::store64(to.start, *value) };
                fence(Ordering::SeqCst);
                Ok(())
            }
            Self::Wait32 { on, value, compare } => {
                // SAFETY: the span is 4 bytes at a multiple of 4, and is kept.
                let load = || unsafe { bytes::load32(on.start) };
                let what = || {
                    let seen = load();
                    format!("a 32-bit word to be {compare:?} {value:#x}; it is {seen:#x}")
                };
                queue.wait_until(what, || compare.holds32(load(), *value))
            }
            Self::Wait64 { on, value, compare } => {
                // SAFETY: as above, of 8.
                let load = || unsafe { bytes::load64(on.start) };
                let what = || {
                    let seen = load();
                    format!("a 64-bit word to be {compare:?} {value:#x}; it is {seen:#x}")
                };
                queue.wait_until(what, || compare.holds64(load(), *value))
            }
            Self::Fence => {
                fence(Ordering::SeqCst);
                Ok(())
            }
        }
    }
}
