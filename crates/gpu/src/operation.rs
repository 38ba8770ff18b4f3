//! Stream memory operations: word writes and waits of a stream.

use gpu_sim::Compare;

use crate::memory::{Held, Memory};
use crate::{DevicePtr, Error};

/// One operation of a batch. The operation, and the stream it is enqueued to, hold the memory it
/// names.
///
/// Words must be naturally aligned. CUDA rejects waits on managed memory.
#[derive(Debug, Clone)]
pub struct MemoryOperation {
    pub(crate) step: Step,
    pub(crate) held: Option<Held>,
}

/// Operation without the memory that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Write32 {
        address: DevicePtr,
        value: u32,
    },
    Write64 {
        address: DevicePtr,
        value: u64,
    },
    Wait32 {
        address: DevicePtr,
        value: u32,
        compare: Compare,
        flush: bool,
    },
    Wait64 {
        address: DevicePtr,
        value: u64,
        compare: Compare,
        flush: bool,
    },
    Barrier,
    FlushRemoteWrites,
}

impl MemoryOperation {
    /// Writes a 32-bit word after all earlier writes of the stream are visible system-wide.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn write32(memory: &impl Memory, offset: usize, value: u32) -> Result<Self, Error> {
        let address = memory.word(offset, 4)?;
        Ok(Self::on(memory, Step::Write32 { address, value }))
    }

    /// Writes a 64-bit word; see [`Self::write32`].
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn write64(memory: &impl Memory, offset: usize, value: u64) -> Result<Self, Error> {
        let address = memory.word(offset, 8)?;
        Ok(Self::on(memory, Step::Write64 { address, value }))
    }

    /// Waits until a 32-bit word satisfies the comparison.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn wait32(
        memory: &impl Memory,
        offset: usize,
        value: u32,
        compare: Compare,
    ) -> Result<Self, Error> {
        let address = memory.word(offset, 4)?;
        Ok(Self::on(memory, wait32(address, value, compare)))
    }

    /// Waits until a 64-bit word satisfies the comparison.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn wait64(
        memory: &impl Memory,
        offset: usize,
        value: u64,
        compare: Compare,
    ) -> Result<Self, Error> {
        let address = memory.word(offset, 8)?;
        Ok(Self::on(memory, wait64(address, value, compare)))
    }

    /// System-wide barrier between earlier and later writes of the stream.
    #[must_use]
    pub fn barrier() -> Self {
        Self::bare(Step::Barrier)
    }

    /// Makes third-party PCIe writes visible to the GPU. Requires
    /// [`CAN_FLUSH_REMOTE_WRITES`](crate::Attribute::CAN_FLUSH_REMOTE_WRITES) = 1 (H200 reports 0:
    /// it rejects the flush and needs none for its own reads).
    #[must_use]
    pub fn flush_remote_writes() -> Self {
        Self::bare(Step::FlushRemoteWrites)
    }

    /// Adds a remote write flush to a wait, under the same condition; other operations stay
    /// unchanged.
    #[must_use]
    pub fn flushed(mut self) -> Self {
        if let Step::Wait32 { flush, .. } | Step::Wait64 { flush, .. } = &mut self.step {
            *flush = true;
        }
        self
    }

    /// [`Self::write32`] at a raw address, such as a device register.
    ///
    /// # Safety
    ///
    /// Until the operation is done, the GPU may write the address.
    #[must_use]
    pub unsafe fn write32_at(address: DevicePtr, value: u32) -> Self {
        Self::bare(Step::Write32 { address, value })
    }

    /// [`Self::write64`] at a raw address.
    ///
    /// # Safety
    ///
    /// As [`Self::write32_at`].
    #[must_use]
    pub unsafe fn write64_at(address: DevicePtr, value: u64) -> Self {
        Self::bare(Step::Write64 { address, value })
    }

    /// [`Self::wait32`] at a raw address.
    ///
    /// # Safety
    ///
    /// Until the operation is done, the GPU may read the address, and reads have no side effects.
    #[must_use]
    pub unsafe fn wait32_at(address: DevicePtr, value: u32, compare: Compare) -> Self {
        Self::bare(wait32(address, value, compare))
    }

    /// [`Self::wait64`] at a raw address.
    ///
    /// # Safety
    ///
    /// As [`Self::wait32_at`].
    #[must_use]
    pub unsafe fn wait64_at(address: DevicePtr, value: u64, compare: Compare) -> Self {
        Self::bare(wait64(address, value, compare))
    }

    fn on(memory: &impl Memory, step: Step) -> Self {
        Self {
            step,
            held: Some(memory.held()),
        }
    }

    fn bare(step: Step) -> Self {
        Self { step, held: None }
    }
}

fn wait32(address: DevicePtr, value: u32, compare: Compare) -> Step {
    Step::Wait32 {
        address,
        value,
        compare,
        flush: false,
    }
}

fn wait64(address: DevicePtr, value: u64, compare: Compare) -> Step {
    Step::Wait64 {
        address,
        value,
        compare,
        flush: false,
    }
}

#[cfg(test)]
mod tests {
    use super::Compare::{And, Eq, Geq, Nor};

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
