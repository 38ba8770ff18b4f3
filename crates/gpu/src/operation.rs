//! Stream memory operations: writes and waits of a stream.

use std::convert::Infallible;

use crate::memory::{Held, Memory};
use crate::{Attribute, Compare, DevicePtr, Error, Gpu};

/// A memory operation of a stream. `A` is the type of the word's location: a [`Word`] for
/// [`Stream::batch`](crate::Stream::batch), a [`DevicePtr`] for
/// [`foreign::batch`](crate::foreign::batch).
///
/// The address of a word is a multiple of its size. CUDA rejects waits on managed memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemOp<A = Word> {
    /// Writes 32 bits, after the stream's earlier writes are visible to the whole system.
    Write32 {
        /// The word.
        at: A,
        /// The new value.
        value: u32,
    },
    /// Writes 64 bits, likewise.
    Write64 {
        /// The word.
        at: A,
        /// The new value.
        value: u64,
    },
    /// Waits until 32 bits satisfy the condition.
    Wait32 {
        /// The word.
        at: A,
        /// Right-hand side of the comparison.
        value: u32,
        /// The comparison.
        compare: Compare,
        /// Flushes remote writes afterwards.
        flush: bool,
    },
    /// Waits until 64 bits satisfy the condition.
    Wait64 {
        /// Word.
        at: A,
        /// Right-hand side of the comparison.
        value: u64,
        /// The comparison.
        compare: Compare,
        /// Flushes remote writes afterwards.
        flush: bool,
    },
    /// Orders the stream's writes before it, for the whole system, before those after it.
    Barrier,
    /// Makes writes of other devices that arrived over PCIe visible to the GPU. Requires
    /// [`CAN_FLUSH_REMOTE_WRITES`](crate::Attribute::CAN_FLUSH_REMOTE_WRITES): an H200 reports 0,
    /// rejects this, and needs no flush for its own reads.
    FlushRemoteWrites,
}

/// A word that a stream reads or writes. The word, and each stream that uses it, keep the memory
/// alive.
#[derive(Debug, Clone)]
pub struct Word {
    pub(crate) address: DevicePtr,
    bytes: usize,
    pub(crate) held: Option<Held>,
}

/// Memory operations that a GPU's streams support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCapabilities {
    /// 64-bit words.
    pub words_of_64_bits: bool,
    /// Waits with [`Compare::Nor`].
    pub nor: bool,
    /// Flushes of remote writes ([`MemOp::FlushRemoteWrites`]). A GPU without them may need none (an H200).
    pub flush: bool,
}

impl StreamCapabilities {
    /// Features of a GPU's streams.
    ///
    /// # Errors
    ///
    /// As [`Gpu::attribute`].
    pub fn of(gpu: &Gpu) -> Result<Self, Error> {
        let has = |attribute| Ok::<_, Error>(gpu.attribute(attribute)? == Some(1));
        Ok(Self {
            words_of_64_bits: has(Attribute::CAN_USE_64_BIT_STREAM_MEM_OPS)?,
            nor: has(Attribute::CAN_USE_STREAM_WAIT_VALUE_NOR)?,
            flush: has(Attribute::CAN_FLUSH_REMOTE_WRITES)?,
        })
    }
}

impl Word {
    /// Word of `bytes` bytes (4 or 8) at an offset.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`].
    pub fn new(memory: &impl Memory, offset: usize, bytes: usize) -> Result<Self, Error> {
        Ok(Self { address: memory.word(offset, bytes)?, bytes, held: Some(memory.held()) })
    }

    /// Its device address.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.address
    }

    /// The word `bytes` bytes after the beginning of this one, as long as what is left of it.
    #[must_use]
    pub fn offset(&self, bytes: usize) -> Self {
        Self {
            address: self.address.offset(bytes as u64),
            bytes: self.bytes.saturating_sub(bytes),
            held: self.held.clone(),
        }
    }

    /// A word at any address, such as a register of another device.
    ///
    /// # Safety
    ///
    /// Until every operation on it is done, the GPU may access its 8 bytes; a 32-bit operation uses
    /// 4.
    #[must_use]
    pub unsafe fn at(address: DevicePtr) -> Self {
        Self { address, bytes: 8, held: None }
    }
}

impl<A> MemOp<A> {
    /// The same operation on the word that `find` returns for its location and size in bytes.
    ///
    /// # Errors
    ///
    /// Errors of `find`.
    pub fn try_map<B, E>(self, find: impl FnOnce(A, usize) -> Result<B, E>) -> Result<MemOp<B>, E> {
        Ok(match self {
            Self::Write32 { at, value } => MemOp::Write32 { at: find(at, 4)?, value },
            Self::Write64 { at, value } => MemOp::Write64 { at: find(at, 8)?, value },
            Self::Wait32 { at, value, compare, flush } => {
                MemOp::Wait32 { at: find(at, 4)?, value, compare, flush }
            }
            Self::Wait64 { at, value, compare, flush } => {
                MemOp::Wait64 { at: find(at, 8)?, value, compare, flush }
            }
            Self::Barrier => MemOp::Barrier,
            Self::FlushRemoteWrites => MemOp::FlushRemoteWrites,
        })
    }

    /// Infallible [`Self::try_map`].
    #[must_use]
    pub fn map<B>(self, find: impl FnOnce(A) -> B) -> MemOp<B> {
        let Ok(op) = self.try_map(|at, _| Ok::<B, Infallible>(find(at)));
        op
    }

    /// Adds a flush of remote writes after a wait, under the same condition as
    /// [`Self::FlushRemoteWrites`]. Other operations do not change.
    #[must_use]
    pub fn flushed(mut self) -> Self {
        if let Self::Wait32 { flush, .. } | Self::Wait64 { flush, .. } = &mut self {
            *flush = true;
        }
        self
    }
}

impl MemOp<Word> {
    /// Writes a 32-bit word.
    ///
    /// # Errors
    ///
    /// As [`Word::new`].
    pub fn write32(memory: &impl Memory, offset: usize, value: u32) -> Result<Self, Error> {
        let at = Word::new(memory, offset, 4)?;
        Ok(Self::Write32 { at, value })
    }

    /// Writes a 64-bit word.
    ///
    /// # Errors
    ///
    /// As [`Word::new`].
    pub fn write64(memory: &impl Memory, offset: usize, value: u64) -> Result<Self, Error> {
        let at = Word::new(memory, offset, 8)?;
        Ok(Self::Write64 { at, value })
    }

    /// Waits until a 32-bit word satisfies the comparison.
    ///
    /// # Errors
    ///
    /// As [`Word::new`].
    pub fn wait32(
        memory: &impl Memory,
        offset: usize,
        value: u32,
        compare: Compare,
    ) -> Result<Self, Error> {
        Ok(Self::Wait32 { at: Word::new(memory, offset, 4)?, value, compare, flush: false })
    }

    /// Waits until a 64-bit word satisfies the comparison.
    ///
    /// # Errors
    ///
    /// As [`Word::new`].
    pub fn wait64(
        memory: &impl Memory,
        offset: usize,
        value: u64,
        compare: Compare,
    ) -> Result<Self, Error> {
        Ok(Self::Wait64 { at: Word::new(memory, offset, 8)?, value, compare, flush: false })
    }

    /// Converts to driver arguments; the memory's owners are added to `held`.
    ///
    /// A 64-bit operation on a 32-bit word is an error: it would exceed the range that
    /// [`Word::new`] checked.
    pub(crate) fn address(&self, held: &mut Vec<Held>) -> Result<MemOp<DevicePtr>, Error> {
        self.clone().try_map(|word, bytes| {
            crate::memory::check_range(0, bytes, word.bytes)?;
            held.extend(word.held);
            Ok(word.address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Compare::{And, Eq, Geq, Nor};

    // Expected values are computed by hand from cuda.h's formulas.

    #[test]
    fn geq_is_cyclic() {
        for (seen, value, holds) in [
            (5, 5, true),
            (6, 5, true),
            (4, 5, false),
            // 0 - 0xffffffff = 1: the counter wrapped past the value.
            (0, 0xffff_ffff, true),
            (0xffff_ffff, 0, false),
            // Half the range: 0x80000000 is the most negative difference, 0x7fffffff the most
            // positive.
            (0x8000_0000, 0, false),
            (0x7fff_ffff, 0, true),
            (0, 0x8000_0000, false),
            (0, 0x8000_0001, true),
        ] {
            assert_eq!(Geq.holds32(seen, value), holds, "{seen:#x} {value:#x}");
        }
        assert!(Geq.holds64(0, u64::MAX));
        assert!(!Geq.holds64(1 << 63, 0));
        // The counter wraps in 32 bits, not in 64.
        assert!(!Geq.holds64(0, 0xffff_ffff));
    }

    #[test]
    fn eq_and_and() {
        assert!(Eq.holds32(7, 7) && !Eq.holds32(7, 8));
        assert!(And.holds32(0b1010, 0b0010) && !And.holds32(0b1010, 0b0101));
        assert!(!And.holds32(u32::MAX, 0));
        assert!(
            Eq.holds64(1 << 40, 1 << 40)
                && And.holds64(1 << 40, 3 << 40)
                && !And.holds64(1 << 40, 1 << 41)
        );
    }

    #[test]
    fn nor() {
        // CQE owner bit: value 0xfeffffff leaves bit 24, so the wait holds while that bit is clear.
        assert!(Nor.holds32(0xf000_0000, 0xfeff_ffff));
        assert!(!Nor.holds32(0xf100_0000, 0xfeff_ffff));
        assert!(Nor.holds32(0, 0));
        assert!(!Nor.holds32(u32::MAX, 0) && !Nor.holds32(0, u32::MAX));
        assert!(Nor.holds64(0xffff_ffff, 0) && !Nor.holds64(0xffff_ffff, 0xffff_ffff_0000_0000));
    }
}
