//! Stream memory operations: words that a stream writes and waits for.

use std::convert::Infallible;

use gpu_sim::Compare;

use crate::memory::{Held, Memory};
use crate::{Attribute, DevicePtr, Error, Gpu};

/// A memory operation of a stream. `A` says where its word is: a [`Word`] for [`Stream::batch`](crate::Stream::batch), a
/// [`DevicePtr`] for [`foreign::batch`](crate::foreign::batch).
///
/// The address of a word is a multiple of its size. CUDA rejects waits on managed memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemOp<A = Word> {
    /// Writes 32 bits, after everything the stream wrote before is visible to the whole system.
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
        /// The right-hand side of the comparison.
        value: u32,
        /// The comparison.
        compare: Compare,
        /// Flushes remote writes afterwards.
        flush: bool,
    },
    /// Waits until 64 bits satisfy the condition.
    Wait64 {
        /// The word.
        at: A,
        /// The right-hand side of the comparison.
        value: u64,
        /// The comparison.
        compare: Compare,
        /// Flushes remote writes afterwards.
        flush: bool,
    },
    /// Orders the stream's writes before it, for the whole system, before those after it.
    Barrier,
    /// Makes writes of third parties that arrived over PCIe visible to the GPU. Only where
    /// [`CAN_FLUSH_REMOTE_WRITES`](crate::Attribute::CAN_FLUSH_REMOTE_WRITES) is 1: an H200 reports 0, rejects this, and needs
    /// no flush for its own reads.
    FlushRemoteWrites,
}

/// A word that a stream reads or writes. It keeps the memory alive, and so does a stream that uses it.
#[derive(Debug, Clone)]
pub struct Word {
    pub(crate) address: DevicePtr,
    bytes: usize,
    pub(crate) held: Option<Held>,
}

/// The memory operations that the streams of a GPU support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCapabilities {
    /// Words of 64 bits.
    pub words_of_64_bits: bool,
    /// Waits by [`Compare::Nor`].
    pub nor: bool,
    /// Flushes of remote writes ([`MemOp::FlushRemoteWrites`]). A GPU without them may need none (an H200).
    pub flush: bool,
}

impl StreamCapabilities {
    /// Those of a GPU's streams.
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
    /// The word of `bytes` bytes (4 or 8) at an offset.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`].
    pub fn new(memory: &impl Memory, offset: usize, bytes: usize) -> Result<Self, Error> {
        Ok(Self {
            address: memory.word(offset, bytes)?,
            bytes,
            held: Some(memory.held()),
        })
    }

    /// A word at any address, such as a register of another device.
    ///
    /// # Safety
    ///
    /// Until every operation on it is done, the GPU may read and write its 8 bytes, of which an operation on 32 bits uses 4.
    #[must_use]
    pub unsafe fn at(address: DevicePtr) -> Self {
        Self {
            address,
            bytes: 8,
            held: None,
        }
    }
}

impl<A> MemOp<A> {
    /// The same operation on the word that `find` gives. It gets the word's place and its size in bytes.
    ///
    /// # Errors
    ///
    /// Those of `find`.
    pub fn try_map<B, E>(self, find: impl FnOnce(A, usize) -> Result<B, E>) -> Result<MemOp<B>, E> {
        Ok(match self {
            Self::Write32 { at, value } => MemOp::Write32 {
                at: find(at, 4)?,
                value,
            },
            Self::Write64 { at, value } => MemOp::Write64 {
                at: find(at, 8)?,
                value,
            },
            Self::Wait32 {
                at,
                value,
                compare,
                flush,
            } => MemOp::Wait32 {
                at: find(at, 4)?,
                value,
                compare,
                flush,
            },
            Self::Wait64 {
                at,
                value,
                compare,
                flush,
            } => MemOp::Wait64 {
                at: find(at, 8)?,
                value,
                compare,
                flush,
            },
            Self::Barrier => MemOp::Barrier,
            Self::FlushRemoteWrites => MemOp::FlushRemoteWrites,
        })
    }

    /// [`Self::try_map`] that cannot fail.
    #[must_use]
    pub fn map<B>(self, find: impl FnOnce(A) -> B) -> MemOp<B> {
        let Ok(op) = self.try_map(|at, _| Ok::<B, Infallible>(find(at)));
        op
    }

    /// Follows a wait with a flush of remote writes, under the same condition as [`Self::FlushRemoteWrites`]. Other operations
    /// stay as they are.
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
        Ok(Self::Wait32 {
            at: Word::new(memory, offset, 4)?,
            value,
            compare,
            flush: false,
        })
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
        Ok(Self::Wait64 {
            at: Word::new(memory, offset, 8)?,
            value,
            compare,
            flush: false,
        })
    }

    /// The operation as the driver takes it. What keeps the memory goes to `held`.
    ///
    /// An operation of 64 bits cannot be put on a word of 32: that would reach beyond what [`Word::new`] checked.
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
    use gpu_sim::Compare::{And, Eq, Geq, Nor};

    // Expected values are computed by hand from cuda.h's formulas.

    #[test]
    fn geq_is_cyclic_in_the_width_of_the_word() {
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
        // A 32-bit wrap is none in 64 bits.
        assert!(!Geq.holds64(0, 0xffff_ffff));
    }

    #[test]
    fn eq_and_and_look_at_bits() {
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
    fn nor_holds_while_some_bit_is_in_neither() {
        // CQE owner bit: value 0xfeffffff leaves bit 24, so the wait holds while that bit is clear.
        assert!(Nor.holds32(0xf000_0000, 0xfeff_ffff));
        assert!(!Nor.holds32(0xf100_0000, 0xfeff_ffff));
        assert!(Nor.holds32(0, 0));
        assert!(!Nor.holds32(u32::MAX, 0) && !Nor.holds32(0, u32::MAX));
        assert!(Nor.holds64(0xffff_ffff, 0) && !Nor.holds64(0xffff_ffff, 0xffff_ffff_0000_0000));
    }
}
