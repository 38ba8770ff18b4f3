//! Reduces memory operations to those that a GPU's streams support. The CPU executes them unchanged.

use std::borrow::Cow;

use gpu::{Compare, MemOp, StreamCapabilities};

/// Limit of a write by value, in bytes: the capacity of CUDA's descriptor.
pub const MAX_BYTES: usize = 1024;

/// Why a GPU's streams cannot execute a list. The number is the descriptor's position, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The GPU's streams do not support 64-bit words.
    #[error("descriptor {0}: this GPU's streams do not wait for 64-bit words")]
    Words(usize),
    /// The GPU's streams cannot wait by NOR.
    #[error("descriptor {0}: this GPU's streams do not wait by NOR; Volta and later do")]
    Nor(usize),
}

impl Unsupported {
    /// Replaces the position with `convert(position)`.
    #[must_use]
    pub fn at(self, convert: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::Words(position) => Self::Words(convert(position)),
            Self::Nor(position) => Self::Nor(convert(position)),
        }
    }
}

/// An address of a word.
pub trait Offset {
    /// The address `bytes` bytes higher.
    #[must_use]
    fn offset(&self, bytes: usize) -> Self;
}

impl Offset for gpu::DevicePtr {
    fn offset(&self, bytes: usize) -> Self {
        gpu::DevicePtr::offset(*self, bytes as u64)
    }
}

impl Offset for gpu::Word {
    fn offset(&self, bytes: usize) -> Self {
        gpu::Word::offset(self, bytes)
    }
}

/// The 32-bit writes that make up `bytes`; `None` unless they are 4 to [`MAX_BYTES`] bytes, a multiple of 4.
pub fn words<A: Offset>(at: A, bytes: &[u8]) -> Option<impl Iterator<Item = MemOp<A>>> {
    let (words, rest) = bytes.as_chunks::<4>();
    if words.is_empty() || !rest.is_empty() || bytes.len() > MAX_BYTES {
        return None;
    }
    let words = words.iter().enumerate();
    Some(words.map(move |(number, word)| MemOp::Write32 {
        at: at.offset(number * 4),
        value: u32::from_ne_bytes(*word),
    }))
}

/// The operations for a GPU's streams, in order. Allocates nothing if they stay as they are.
///
/// - Consecutive barriers become one.
/// - Of consecutive waits, only the last one flushes.
/// - Flushes are dropped if the GPU lacks them: CUDA omits them on GPUs that need none.
/// - A 64-bit write that the GPU lacks becomes two 32-bit writes, the lower half first.
///
/// # Errors
///
/// [`Unsupported`], with the operation's position from 0.
pub fn lower<A: Offset + Clone>(
    ops: &[MemOp<A>],
    can: StreamCapabilities,
) -> Result<Cow<'_, [MemOp<A>]>, Unsupported> {
    let mut following = ops.iter().skip(1);
    if ops.iter().all(|op| is_lowered(op, following.next(), can)) {
        return Ok(Cow::Borrowed(ops));
    }
    for (position, op) in ops.iter().enumerate() {
        match op {
            MemOp::Wait32 { compare, .. } | MemOp::Wait64 { compare, .. }
                if *compare == Compare::Nor && !can.nor =>
            {
                return Err(Unsupported::Nor(position));
            }
            MemOp::Wait64 { .. } if !can.words_of_64_bits => {
                return Err(Unsupported::Words(position));
            }
            _ => {}
        }
    }
    let kept = ops.iter();
    let kept = kept.filter(|op| can.flush || !matches!(op, MemOp::FlushRemoteWrites));
    let split = kept.cloned().flat_map(|op| halves(op, can));
    let mut lowered: Vec<_> = split.collect();
    lowered.dedup_by(|next, one| matches!((one, next), (MemOp::Barrier, MemOp::Barrier)));
    merge_flushes(&mut lowered, can.flush);
    Ok(Cow::Owned(lowered))
}

/// True if the operation stays as it is before the following one.
fn is_lowered<A>(op: &MemOp<A>, following: Option<&MemOp<A>>, can: StreamCapabilities) -> bool {
    match op {
        MemOp::Write32 { .. } => true,
        MemOp::Write64 { .. } => can.words_of_64_bits,
        MemOp::Barrier => !matches!(following, Some(MemOp::Barrier)),
        MemOp::FlushRemoteWrites => can.flush,
        MemOp::Wait32 { compare, flush, .. } | MemOp::Wait64 { compare, flush, .. } => {
            (can.words_of_64_bits || matches!(op, MemOp::Wait32 { .. }))
                && (can.nor || *compare != Compare::Nor)
                && (!flush || can.flush && !following.is_some_and(is_wait))
        }
    }
}

/// A 64-bit write that the GPU lacks as two 32-bit writes, the lower half first; another operation unchanged.
fn halves<A: Offset>(op: MemOp<A>, can: StreamCapabilities) -> impl Iterator<Item = MemOp<A>> {
    let (low, high) = match op {
        MemOp::Write64 { at, value } if !can.words_of_64_bits => {
            let high = MemOp::Write32 { at: at.offset(4), value: (value >> 32) as u32 };
            let value = value as u32;
            (MemOp::Write32 { at, value }, Some(high))
        }
        op => (op, None),
    };
    std::iter::once(low).chain(high)
}

fn merge_flushes<A>(ops: &mut [MemOp<A>], can_flush: bool) {
    let runs = ops.chunk_by_mut(|one, next| is_wait(one) && is_wait(next));
    for run in runs {
        let mut needed = false;
        for op in run.iter_mut() {
            if let MemOp::Wait32 { flush, .. } | MemOp::Wait64 { flush, .. } = op {
                needed |= std::mem::take(flush) && can_flush;
            }
        }
        if let Some(MemOp::Wait32 { flush, .. } | MemOp::Wait64 { flush, .. }) = run.last_mut() {
            *flush = needed;
        }
    }
}

fn is_wait<A>(op: &MemOp<A>) -> bool {
    matches!(op, MemOp::Wait32 { .. } | MemOp::Wait64 { .. })
}

#[cfg(test)]
mod tests {
    use gpu::DevicePtr;

    use super::*;

    const ALL: StreamCapabilities =
        StreamCapabilities { words_of_64_bits: true, nor: true, flush: true };

    type Op = MemOp<DevicePtr>;

    fn at(offset: u64) -> DevicePtr {
        DevicePtr::new(0x1000 + offset)
    }

    fn wait(offset: u64, flush: bool) -> Op {
        MemOp::Wait32 { at: at(offset), value: 7, compare: Compare::Geq, flush }
    }

    fn write(offset: u64, value: u32) -> Op {
        MemOp::Write32 { at: at(offset), value }
    }

    fn lowered(ops: &[Op], can: StreamCapabilities) -> Result<Vec<Op>, Unsupported> {
        lower(ops, can).map(Cow::into_owned)
    }

    #[test]
    fn merges_flushes_of_consecutive_waits() {
        let first = [wait(0, true), wait(4, false), write(8, 1)];
        let ops = [&first[..], &[wait(0, true), wait(4, true)]].concat();
        let row = [wait(0, false), wait(4, true)];
        let expected = [&row[..], &[write(8, 1)], &row].concat();
        assert_eq!(lowered(&ops, ALL), Ok(expected));
        let no_flush = StreamCapabilities { flush: false, ..ALL };
        let row = [wait(0, false), wait(4, false)];
        let expected = [&row[..], &[write(8, 1)], &row].concat();
        assert_eq!(lowered(&ops, no_flush), Ok(expected));
        let flush = [MemOp::FlushRemoteWrites];
        assert_eq!(lowered(&flush, ALL), Ok(flush.to_vec()));
        assert_eq!(lowered(&flush, no_flush), Ok(vec![]));
    }

    #[test]
    fn merges_consecutive_barriers() {
        let barrier = MemOp::Barrier;
        let ops = [barrier, barrier, write(0, 1), barrier, barrier];
        let expected = vec![barrier, write(0, 1), barrier];
        assert_eq!(lowered(&ops, ALL), Ok(expected));
    }

    #[test]
    fn splits_bytes_into_words() {
        let word = |value: [u8; 4]| u32::from_ne_bytes(value);
        let ops = words(at(0), &[1, 2, 3, 4, 5, 6, 7, 8]).expect("whole words");
        let expected = [write(0, word([1, 2, 3, 4])), write(4, word([5, 6, 7, 8]))];
        assert_eq!(ops.collect::<Vec<_>>(), expected);
        assert_eq!(words(at(0), &[0; 1024]).map(Iterator::count), Some(256));
        for count in [0, 3, 1028] {
            assert!(words(at(0), &vec![0; count]).is_none(), "{count}");
        }
    }

    #[test]
    fn replaces_or_rejects_unsupported_operations() {
        let little = StreamCapabilities { words_of_64_bits: false, nor: false, flush: false };
        let (at, value) = (at(0), 0x1122_3344_5566_7788);
        let halves = vec![write(0, 0x5566_7788), write(4, 0x1122_3344)];
        assert_eq!(lowered(&[MemOp::Write64 { at, value }], little), Ok(halves));
        let (value, flush) = (1, false);
        let compare = Compare::Eq;
        let wait = MemOp::Wait64 { at, value, compare, flush };
        assert_eq!(lowered(&[wait], ALL), Ok(vec![wait]));
        assert_eq!(lowered(&[wait], little), Err(Unsupported::Words(0)));
        let (value, compare) = (1, Compare::Nor);
        let nor = MemOp::Wait32 { at, value, compare, flush };
        assert_eq!(lowered(&[MemOp::Barrier, nor], little), Err(Unsupported::Nor(1)));
    }
}
