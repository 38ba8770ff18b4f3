//! Rust versions of the kernels in crate `gpu`'s `kernels.ptx`, except `copy_words`, which is a
//! copy ([`Item::Copy`](super::Item)).

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::operation::Operation;
use super::post::Post;
use super::queue::Queue;
use super::span::Span;
use crate::bytes;

/// A kernel and its parameters. Words in a span are naturally aligned.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the parameters in kernels.ptx")]
pub enum Kernel {
    /// Replies in `reply` to each round at `flag`.
    PingPong { flag: Span, reply: Span, rounds: u32, limit: Duration },
    /// As `PingPong`, for a flag and a reply of each block, with data that each round changes. The
    /// blocks compare the data before they reply, or write it (`ping_data`).
    PingPongData(PingPongData),
    /// Writes pattern words.
    FillPattern { to: Span, words: usize, key: u64, first: u64 },
    /// Counts words that differ from a pattern.
    CheckPattern {
        from: Span,
        words: usize,
        key: u64,
        first: u64,
        result: Span,
        /// Initial value of the result's two words: mismatch count and first mismatch. `None` keeps
        /// their contents.
        start: Option<(u64, u64)>,
    },
    /// Follows a list of offsets.
    Chase { list: Span, start: u32, hops: u32, result: Span, mask: u32 },
    /// Waits until a word is nonzero or the timeout expires.
    Hold { gate: Span, limit: Duration },
    /// Starts each round in `theirs` and waits for it in `ours`.
    Ping { ours: Span, theirs: Span, rounds: u32, limit: Duration },
    /// Performs memory operations in order.
    Perform { operations: Vec<Operation>, result: Span, limit: Duration },
    /// Drives mlx5 queues.
    Post(Post),
}

/// Parameters of [`Kernel::PingPongData`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the parameters in kernels.ptx")]
pub struct PingPongData {
    pub flags: Span,
    pub replies: Span,
    pub rounds: u32,
    pub limit: Duration,
    pub data: Span,
    pub words: usize,
    pub blocks: usize,
    pub writes: bool,
}

impl PingPongData {
    fn run(&self, queue: &Queue) -> Result<(), String> {
        let (data, words, blocks) = (&self.data, self.words, self.blocks);
        // The share of a block with one thread.
        let share = |block| (block..words).step_by(blocks).map(|k| word32(data, k));
        for round in 1..=self.rounds {
            if self.writes {
                for block in 0..blocks {
                    share(block).for_each(|word| word.fill(data_word(round)));
                    word32(&self.replies, block).store(round);
                }
            }
            for block in 0..blocks {
                let (flag, reply) = (word32(&self.flags, block), word32(&self.replies, block));
                if !comes(queue, flag, round, self.limit)? {
                    reply.store(u32::MAX);
                    return Ok(());
                }
                if !self.writes {
                    let is_right = share(block).all(|word| word.load() == data_word(round));
                    reply.store(if is_right { round } else { WRONG_DATA });
                }
            }
        }
        Ok(())
    }
}

impl Kernel {
    pub(crate) fn run(&self, queue: &Queue) -> Result<(), String> {
        match self {
            Self::PingPong { flag, reply, rounds, limit } => {
                ping_pong(queue, flag, reply, *rounds, *limit)
            }
            Self::PingPongData(exchange) => exchange.run(queue),
            Self::FillPattern { to, words, key, first } => {
                for position in 0..*words {
                    word32(to, position).fill(pattern(*key, first.wrapping_add(position as u64)));
                }
                Ok(())
            }
            Self::CheckPattern { from, words, key, first, result, start } => {
                check_pattern((from, *words), (*key, *first), result, *start);
                Ok(())
            }
            Self::Chase { list, start, hops, result, mask } => {
                let last = chase(list, *start, *hops, *mask);
                word64(result, 0).store(last);
                Ok(())
            }
            Self::Hold { gate, limit } => {
                let (gate, start) = (word32(gate, 0), Instant::now());
                queue.wait_until(
                    || "a gate to open".to_owned(),
                    || gate.load() != 0 || start.elapsed() >= *limit,
                )
            }
            Self::Ping { ours, theirs, rounds, limit } => {
                ping(queue, ours, theirs, *rounds, *limit)
            }
            Self::Perform { operations, result, limit } => {
                perform(queue, operations, result, *limit)
            }
            Self::Post(post) => post.run(queue),
        }
    }
}

/// Counts the words that differ from the pattern with this key, whose word `first` is the first one.
fn check_pattern(
    (from, words): (&Span, usize),
    (key, first): (u64, u64),
    result: &Span,
    start: Option<(u64, u64)>,
) {
    let differs = |position: &usize| {
        let expected = pattern(key, first.wrapping_add(*position as u64));
        word32(from, *position).load() != expected
    };
    let mut differing = (0..words).filter(differs);
    let first = differing.next();
    let count = first.map_or(0, |_| 1 + differing.count() as u64);
    let (found, least) = (word64(result, 0), word64(result, 1));
    let (start, lowest) = start.unwrap_or_else(|| (found.load(), least.load()));
    least.store(first.map_or(lowest, |position| lowest.min(position as u64)));
    found.store(start.wrapping_add(count));
}

fn perform(
    queue: &Queue,
    operations: &[Operation],
    result: &Span,
    limit: Duration,
) -> Result<(), String> {
    let result = word32(result, 0);
    for (operation, before) in operations.iter().zip(0..) {
        let start = Instant::now();
        if !operation.perform_until(queue, &|| start.elapsed() >= limit)? {
            result.store(before | 1 << 31);
            return Ok(());
        }
    }
    result.store(operations.len() as u32);
    Ok(())
}

fn ping_pong(
    queue: &Queue,
    flag: &Span,
    reply: &Span,
    rounds: u32,
    limit: Duration,
) -> Result<(), String> {
    let (flag, reply) = (word32(flag, 0), word32(reply, 0));
    for round in 1..=rounds {
        if !comes(queue, flag, round, limit)? {
            reply.store(u32::MAX);
            return Ok(());
        }
        reply.store(round);
    }
    Ok(())
}

fn ping(
    queue: &Queue,
    ours: &Span,
    theirs: &Span,
    rounds: u32,
    limit: Duration,
) -> Result<(), String> {
    let (ours, theirs) = (word32(ours, 0), word32(theirs, 0));
    for round in 1..=rounds {
        theirs.store(round);
        if !comes(queue, ours, round, limit)? {
            theirs.store(u32::MAX);
            return Ok(());
        }
    }
    Ok(())
}

/// Reply of `ping_pong_data` to wrong data.
const WRONG_DATA: u32 = u32::MAX - 1;

/// Every word of the data of a round.
fn data_word(round: u32) -> u32 {
    if round % 2 == 1 { 0x5a5a_5a5a } else { 0xa5a5_a5a5 }
}

/// Waits until a word equals `round`; false if it becomes `u32::MAX` or the timeout expires.
fn comes(queue: &Queue, word: Word32, round: u32, limit: Duration) -> Result<bool, String> {
    let start = Instant::now();
    let mut came = false;
    let what = || format!("the ping-pong flag to be {round}; it is {}", word.load());
    queue.wait_until(what, || {
        let seen = word.load();
        came = seen == round;
        came || seen == u32::MAX || start.elapsed() >= limit
    })?;
    // Also false if the wait ended because the context failed.
    Ok(came)
}

/// Word `index` of a pattern, as in `kernels.ptx`: upper half of one xorshift step (13, 7, 17).
fn pattern(key: u64, index: u64) -> u32 {
    let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    (x >> 32) as u32
}

fn chase(list: &Span, start: u32, hops: u32, mask: u32) -> u64 {
    let (mut at, mut astray) = (start, 0);
    for _ in 0..hops {
        let next = word64(list, at as usize / 8).load();
        astray |= next & !u64::from(mask);
        at = next as u32 & mask;
    }
    if astray == 0 { u64::from(at) } else { u64::MAX }
}

/// Word `position` of a span, aligned to 4.
fn word32(span: &Span, position: usize) -> Word32 {
    // SAFETY: spans and their word counts were checked when the kernel was enqueued.
    Word32(unsafe { span.start.add(position * 4) })
}

/// Word `position` of a span, aligned to 8.
fn word64(span: &Span, position: usize) -> Word64 {
    // SAFETY: as above.
    Word64(unsafe { span.start.add(position * 8) })
}

/// Kernel word whose span keeps its memory alive while the kernel runs. Loads and stores are
/// sequentially consistent.
#[derive(Clone, Copy)]
pub(crate) struct Word32(*mut u8);

#[derive(Clone, Copy)]
pub(crate) struct Word64(*mut u8);

impl Word32 {
    /// Word `position` of a span that has it.
    pub(crate) fn at(span: &Span, position: usize) -> Self {
        word32(span, position)
    }

    /// Byte `position` of a span that has it.
    pub(crate) fn byte(span: &Span, position: usize) -> u8 {
        // SAFETY: as in `word32`.
        unsafe { bytes::load8(span.start.add(position)) }
    }

    pub(crate) fn load(self) -> u32 {
        // SAFETY: a word of a span (`word32`).
        unsafe { bytes::load32(self.0) }
    }

    pub(crate) fn store(self, value: u32) {
        self.fill(value);
        fence(Ordering::SeqCst);
    }

    /// Store without a fence, for all but the last of a series.
    pub(crate) fn fill(self, value: u32) {
        // SAFETY: as above.
        unsafe { bytes::store32(self.0, value) };
    }
}

impl Word64 {
    /// As [`Word32::at`].
    pub(crate) fn at(span: &Span, position: usize) -> Self {
        word64(span, position)
    }

    pub(crate) fn load(self) -> u64 {
        // SAFETY: a word of a span (`word64`).
        unsafe { bytes::load64(self.0) }
    }

    pub(crate) fn store(self, value: u64) {
        // SAFETY: as above.
        unsafe { bytes::store64(self.0, value) };
        fence(Ordering::SeqCst);
    }
}
