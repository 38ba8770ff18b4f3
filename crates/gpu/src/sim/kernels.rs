//! The kernels of `kernels.ptx`, in Rust, on simulated memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::queue::Queue;
use super::space::Span;
use crate::Pattern;

/// A kernel, on memory that was found already.
#[derive(Debug)]
pub(super) enum SimKernel {
    PingPong {
        flag: Span,
        reply: Span,
        rounds: u32,
        limit: Duration,
    },
    FillPattern {
        to: Span,
        words: usize,
        pattern: Pattern,
        first: u64,
    },
    CheckPattern {
        from: Span,
        words: usize,
        pattern: Pattern,
        first: u64,
        result: Span,
    },
}

impl SimKernel {
    pub(super) fn run(&self, queue: &Queue) -> Result<(), String> {
        match self {
            Self::PingPong {
                flag,
                reply,
                rounds,
                limit,
            } => ping_pong(queue, flag, reply, *rounds, *limit),
            Self::FillPattern {
                to,
                words,
                pattern,
                first,
            } => {
                for (position, index) in (0..*words).zip(*first..) {
                    word32(to, position).store(pattern.word(index), Ordering::Relaxed);
                }
                Ok(())
            }
            Self::CheckPattern {
                from,
                words,
                pattern,
                first,
                result,
            } => {
                let differs = |position: &usize| {
                    let expected = pattern.word(first.wrapping_add(*position as u64));
                    word32(from, *position).load(Ordering::Relaxed) != expected
                };
                let mut differing = (0..*words).filter(differs);
                if let Some(position) = differing.next() {
                    word64(result, 1).fetch_min(position as u64, Ordering::SeqCst);
                    word64(result, 0).fetch_add(1 + differing.count() as u64, Ordering::SeqCst);
                }
                Ok(())
            }
        }
    }
}

fn ping_pong(queue: &Queue, flag: &Span, reply: &Span, rounds: u32, limit: Duration) -> Result<(), String> {
    let (flag, reply) = (word32(flag, 0), word32(reply, 0));
    for round in 1..=rounds {
        let start = Instant::now();
        let mut stopped = false;
        let what = || {
            format!(
                "the ping-pong flag to be {round}; it is {}",
                flag.load(Ordering::SeqCst)
            )
        };
        queue.wait_until(what, || {
            let seen = flag.load(Ordering::SeqCst);
            stopped = seen != round && (seen == u32::MAX || start.elapsed() >= limit);
            stopped || seen == round
        })?;
        if stopped {
            reply.store(u32::MAX, Ordering::SeqCst);
            return Ok(());
        }
        reply.store(round, Ordering::SeqCst);
    }
    Ok(())
}

/// Word `position` of a span that holds it, at a multiple of 4.
fn word32(span: &Span, position: usize) -> &AtomicU32 {
    // SAFETY: spans and the numbers of words in them were checked when the kernel was put in; the span keeps its memory.
    unsafe { AtomicU32::from_ptr(span.start.add(position * 4).cast()) }
}

/// Word `position` of a span that holds it, at a multiple of 8.
fn word64(span: &Span, position: usize) -> &AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(span.start.add(position * 8).cast()) }
}
