//! Memory operations as a GPU's streams support them, in as few as say the same. The CPU needs none of this.

use gpu::{Compare, MemOp, StreamCapabilities};

/// The most bytes that are written by value: CUDA's own descriptor carried as many.
pub const MOST_BYTES: usize = 1024;

/// Why a GPU's streams cannot do a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The GPU's streams have no words of 64 bits.
    #[error("descriptor {0}: this GPU's streams wait for no words of 64 bits")]
    Words(usize),
    /// The GPU's streams cannot wait by NOR.
    #[error("descriptor {0}: this GPU's streams do not wait by NOR, which Volta and later do")]
    Nor(usize),
}

impl Unsupported {
    /// The same of the operation, or of the program's descriptor, that `of` gives for this one.
    #[must_use]
    pub fn at(self, of: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::Words(position) => Self::Words(of(position)),
            Self::Nor(position) => Self::Nor(of(position)),
        }
    }
}

/// A place within words.
pub trait Offset {
    /// The place so many bytes further on.
    #[must_use]
    fn offset(&self, bytes: usize) -> Self;
}

impl Offset for gpu::DevicePtr {
    fn offset(&self, bytes: usize) -> Self {
        gpu::DevicePtr::offset(*self, bytes as u64)
    }
}

/// The writes of the 32-bit words that make up `bytes`; none if they are not 4 to [`MOST_BYTES`], in whole words.
pub fn words<A: Offset>(at: A, bytes: &[u8]) -> Option<impl Iterator<Item = MemOp<A>>> {
    let (words, rest) = bytes.as_chunks::<4>();
    if words.is_empty() || !rest.is_empty() || bytes.len() > MOST_BYTES {
        return None;
    }
    let words = words.iter().enumerate();
    Some(words.map(move |(number, word)| MemOp::Write32 {
        at: at.offset(number * 4),
        value: u32::from_ne_bytes(*word),
    }))
}

/// The operations for a GPU's streams, in order.
///
/// - A barrier is left out if nothing was written since the last one. CUDA's writes imply one in front (cuda.h,
///   `CU_STREAM_WRITE_VALUE_DEFAULT`), but simulated streams need it.
/// - Of waits in a row, the last one flushes for all: the flush after it covers what the others waited for.
/// - A flush that the GPU lacks is left out, as CUDA has it for GPUs that need none.
/// - A 64-bit word that the GPU cannot write becomes two, the lower first.
///
/// # Errors
///
/// [`Unsupported`], with the operation's position from 0.
pub fn lower<A: Offset>(
    ops: impl ExactSizeIterator<Item = MemOp<A>>,
    can: StreamCapabilities,
) -> Result<Vec<MemOp<A>>, Unsupported> {
    let mut lowered = Vec::with_capacity(ops.len());
    for (position, op) in ops.enumerate() {
        match op {
            MemOp::Barrier if matches!(lowered.last(), Some(MemOp::Barrier)) => {}
            MemOp::FlushRemoteWrites if !can.flush => {}
            MemOp::Wait32 { compare, .. } | MemOp::Wait64 { compare, .. }
                if compare == Compare::Nor && !can.nor =>
            {
                return Err(Unsupported::Nor(position));
            }
            MemOp::Wait64 { .. } if !can.words_of_64_bits => {
                return Err(Unsupported::Words(position));
            }
            MemOp::Write64 { at, value } if !can.words_of_64_bits => {
                let (high, value_high) = (at.offset(4), (value >> 32) as u32);
                let value = value as u32;
                lowered.push(MemOp::Write32 { at, value });
                lowered.push(MemOp::Write32 {
                    at: high,
                    value: value_high,
                });
            }
            op => lowered.push(op),
        }
    }
    merge_flushes(&mut lowered, can.flush);
    Ok(lowered)
}

fn merge_flushes<A>(ops: &mut [MemOp<A>], can_flush: bool) {
    let runs = ops.chunk_by_mut(|one, next| is_wait(one) && is_wait(next));
    for run in runs {
        let mut wanted = false;
        for op in run.iter_mut() {
            if let MemOp::Wait32 { flush, .. } | MemOp::Wait64 { flush, .. } = op {
                wanted |= std::mem::take(flush) && can_flush;
            }
        }
        if let Some(MemOp::Wait32 { flush, .. } | MemOp::Wait64 { flush, .. }) = run.last_mut() {
            *flush = wanted;
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

    const ALL: StreamCapabilities = StreamCapabilities {
        words_of_64_bits: true,
        nor: true,
        flush: true,
    };

    type Op = MemOp<DevicePtr>;

    fn at(offset: u64) -> DevicePtr {
        DevicePtr::new(0x1000 + offset)
    }

    fn wait(offset: u64, flush: bool) -> Op {
        MemOp::Wait32 {
            at: at(offset),
            value: 7,
            compare: Compare::Geq,
            flush,
        }
    }

    fn write(offset: u64, value: u32) -> Op {
        MemOp::Write32 {
            at: at(offset),
            value,
        }
    }

    fn lowered(ops: &[Op], can: StreamCapabilities) -> Result<Vec<Op>, Unsupported> {
        lower(ops.iter().copied(), can)
    }

    #[test]
    fn waits_in_a_row_flush_once_and_a_write_ends_the_row() {
        let first = [wait(0, true), wait(4, false), write(8, 1)];
        let ops = [&first[..], &[wait(0, true), wait(4, true)]].concat();
        let row = [wait(0, false), wait(4, true)];
        let expected = [&row[..], &[write(8, 1)], &row].concat();
        assert_eq!(lowered(&ops, ALL), Ok(expected));
        let no_flush = StreamCapabilities {
            flush: false,
            ..ALL
        };
        let row = [wait(0, false), wait(4, false)];
        let expected = [&row[..], &[write(8, 1)], &row].concat();
        assert_eq!(lowered(&ops, no_flush), Ok(expected));
        let flush = [MemOp::FlushRemoteWrites];
        assert_eq!(lowered(&flush, ALL), Ok(flush.to_vec()));
        assert_eq!(lowered(&flush, no_flush), Ok(vec![]));
    }

    #[test]
    fn barriers_in_a_row_are_one() {
        let barrier = MemOp::Barrier;
        let ops = [barrier, barrier, write(0, 1), barrier, barrier];
        let expected = vec![barrier, write(0, 1), barrier];
        assert_eq!(lowered(&ops, ALL), Ok(expected));
    }

    #[test]
    fn bytes_are_whole_words_up_to_1024() {
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
    fn what_a_gpu_lacks_is_done_otherwise_or_refused() {
        let little = StreamCapabilities {
            words_of_64_bits: false,
            nor: false,
            flush: false,
        };
        let (at, value) = (at(0), 0x1122_3344_5566_7788);
        let halves = vec![write(0, 0x5566_7788), write(4, 0x1122_3344)];
        assert_eq!(lowered(&[MemOp::Write64 { at, value }], little), Ok(halves));
        let (value, flush) = (1, false);
        let compare = Compare::Eq;
        let wait = MemOp::Wait64 {
            at,
            value,
            compare,
            flush,
        };
        assert_eq!(lowered(&[wait], ALL), Ok(vec![wait]));
        assert_eq!(lowered(&[wait], little), Err(Unsupported::Words(0)));
        let (value, compare) = (1, Compare::Nor);
        let nor = MemOp::Wait32 {
            at,
            value,
            compare,
            flush,
        };
        assert_eq!(
            lowered(&[MemOp::Barrier, nor], little),
            Err(Unsupported::Nor(1))
        );
    }
}
