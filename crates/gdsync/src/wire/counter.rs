//! Queue counters: blocks modulo 2^16, completions in 24 bits, and the owner bit of each pass.

use super::Error;

/// The number of slots in a queue: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Depth(u32);

/// The comparison of a stream memory operation with the word at [`WATCHED`](super::WATCHED).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Watch {
    /// True if any of these bits is set.
    And(u32),
    /// True if a bit is clear in both the word and this value.
    Nor(u32),
    /// True if the word minus this value is not negative, as a signed number.
    Geq(u32),
}

/// The owner bit in the polled word: bit 0 of `op_own`, the highest byte as a GPU loads it.
const OWNER: u32 = 1 << 24;

impl Depth {
    /// Maximum depth of a work queue: its counter has 16 bits, and full must differ from empty.
    pub const MAX_WORK: u32 = 1 << 15;
    /// Maximum depth of a completion queue: its counter has 24 bits.
    pub const MAX_COMPLETIONS: u32 = 1 << 23;

    /// Depth of a send queue in blocks, or of a receive queue in WQEs.
    ///
    /// # Errors
    ///
    /// [`Error::Depth`].
    pub fn work(entries: u32) -> Result<Self, Error> {
        Self::within(entries, Self::MAX_WORK)
    }

    /// Depth of a completion queue in CQEs.
    ///
    /// # Errors
    ///
    /// [`Error::Depth`].
    pub fn completions(entries: u32) -> Result<Self, Error> {
        Self::within(entries, Self::MAX_COMPLETIONS)
    }

    /// Number of slots.
    #[must_use]
    pub fn entries(self) -> u32 {
        self.0
    }

    /// Slot of the `n`th WQE, block or CQE.
    #[must_use]
    pub fn slot(self, n: u32) -> u32 {
        n & (self.0 - 1)
    }

    /// Owner bit of the `n`th completion: 0 in the first pass, toggled by each pass.
    #[must_use]
    pub fn parity(self, n: u32) -> bool {
        n & self.0 != 0
    }

    /// Number of used slots, from the producer and consumer counters, both modulo 2^16.
    #[must_use]
    pub fn used(self, producer: u16, consumer: u16) -> u32 {
        producer.wrapping_sub(consumer).into()
    }

    /// Number of free slots; 0 if the counters claim more than the depth.
    #[must_use]
    pub fn free(self, producer: u16, consumer: u16) -> u32 {
        self.0.saturating_sub(self.used(producer, consumer))
    }

    /// The comparison that waits for the `n`th completion: the owner bit of its pass.
    #[must_use]
    pub fn watch(self, n: u32) -> Watch {
        if self.parity(n) { Watch::And(OWNER) } else { Watch::Nor(!OWNER) }
    }

    /// Like [`Self::watch`], for GPUs without NOR. Even passes wait for an opcode below 8, so
    /// errors are not seen, and each polled slot must be [re-armed](super::rearmed).
    #[must_use]
    pub fn watch_without_nor(self, n: u32) -> Watch {
        if self.parity(n) { Watch::And(OWNER) } else { Watch::Geq(0) }
    }

    /// True if `op_own` in the slot belongs to the `n`th completion: written in this pass.
    #[must_use]
    pub fn is_written(self, n: u32, op_own: u8) -> bool {
        op_own >> 4 != 15 && (op_own & 1 != 0) == self.parity(n)
    }

    fn within(entries: u32, most: u32) -> Result<Self, Error> {
        if entries.is_power_of_two() && entries <= most {
            Ok(Self(entries))
        } else {
            Err(Error::Depth { entries, most })
        }
    }
}

/// Doorbell record of a work queue after `n` blocks or WQEs, big-endian as the CPU stores it.
#[must_use]
pub fn queue_record(producer: u16) -> u32 {
    u32::from(producer).to_be()
}

/// Number of posted blocks or WQEs in a doorbell record.
#[must_use]
pub fn producer_of(record: u32) -> u16 {
    u32::from_be(record) as u16
}

/// Doorbell record of a completion queue after `n` polled CQEs, as the CPU stores it.
#[must_use]
pub fn completion_record(consumer: u32) -> u32 {
    (consumer & 0xff_ffff).to_be()
}

/// Number of polled CQEs in a doorbell record, modulo 2^24.
#[must_use]
pub fn consumer_of(record: u32) -> u32 {
    u32::from_be(record) & 0xff_ffff
}

impl Watch {
    /// True if the word satisfies the comparison.
    #[must_use]
    pub fn holds(self, word: u32) -> bool {
        match self {
            Self::And(bits) => word & bits != 0,
            Self::Nor(bits) => !(word | bits) != 0,
            Self::Geq(value) => word.wrapping_sub(value) as i32 >= 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rearmed;
    use super::*;

    #[test]
    fn accepts_powers_of_two_up_to_the_limit() {
        for entries in [1, 2, 4096, 1 << 15] {
            assert_eq!(Depth::work(entries).unwrap().entries(), entries);
        }
        for entries in [0, 3, 1 << 16] {
            assert!(Depth::work(entries).is_err());
        }
        assert!(Depth::completions(1 << 23).is_ok() && Depth::completions(1 << 24).is_err());
    }

    #[test]
    fn work_counters_wrap_at_16_bits() {
        let depth = Depth::work(8).unwrap();
        assert_eq!((depth.used(3, 0xfffe), depth.free(3, 0xfffe)), (5, 3));
        assert_eq!(depth.slot(0x1_0003), 3);
        assert_eq!(Depth::work(1 << 15).unwrap().free(0x7fff, 0xffff), 0);
    }

    #[test]
    fn owner_bit_toggles_per_pass() {
        let depth = Depth::completions(4).unwrap();
        let bits: Vec<bool> = (0..12).map(|n| depth.parity(n)).collect();
        let (even, odd) = ([false; 4], [true; 4]);
        assert_eq!(bits, [even, odd, even].concat());
        // The owner bit of a queue of one toggles each time, also when the 32-bit counter wraps.
        let one = Depth::completions(1).unwrap();
        assert_eq!((one.parity(0), one.parity(1), one.parity(u32::MAX)), (false, true, true));
    }

    #[test]
    fn watches_match_their_pass() {
        let depth = Depth::completions(2).unwrap();
        assert_eq!(depth.watch(0), Watch::Nor(0xfeff_ffff));
        assert_eq!(depth.watch(2), Watch::And(0x0100_0000));
        assert_eq!(depth.watch_without_nor(0), Watch::Geq(0));
        // op_own is the highest byte: 0xf1 before the first pass, then owner 0, 1, 0.
        for (word, first, second) in [
            (0xf100_0000, false, true),
            (0x0000_3412, true, false),
            (0x0100_3412, false, true),
            (0xd000_3412, true, false),
        ] {
            assert_eq!(depth.watch(0).holds(word), first, "{word:#x}");
            assert_eq!(depth.watch(2).holds(word), second, "{word:#x}");
        }
        // rdma-core's initial value satisfies the wait of pass 0 at once, a bug of libgdsync.
        assert!(depth.watch(0).holds(0xf000_0000));
        // Without NOR neither the initial value nor an error satisfies the wait.
        assert!(!Watch::Geq(0).holds(0xf100_0000) && Watch::Geq(0).holds(0x0000_0000));
        assert!(!Watch::Geq(0).holds(0xd000_0000));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn rearmed_slot_satisfies_no_wait() {
        let depth = Depth::completions(2).unwrap();
        // Polled in pass 0 and waited for in pass 1, and the reverse.
        assert!(
            !depth.watch(2).holds(rearmed(false))
                && !depth.watch_without_nor(2).holds(rearmed(false))
        );
        assert!(
            !depth.watch(4).holds(rearmed(true))
                && !depth.watch_without_nor(4).holds(rearmed(true))
        );
    }

    #[test]
    fn records_are_big_endian() {
        assert_eq!(queue_record(0x1234).to_ne_bytes(), [0, 0, 0x12, 0x34]);
        assert_eq!(completion_record(0x89ab_cdef).to_ne_bytes(), [0, 0xab, 0xcd, 0xef]);
        assert_eq!(producer_of(queue_record(0xfedc)), 0xfedc);
        assert_eq!(consumer_of(completion_record(0x0100_0001)), 1);
    }

    #[test]
    fn cqe_is_valid_in_its_pass() {
        let depth = Depth::completions(4).unwrap();
        assert!(depth.is_written(0, 0x20) && !depth.is_written(0, 0x21));
        assert!(depth.is_written(4, 0xd1) && !depth.is_written(4, 0xd0));
        assert!(!depth.is_written(0, 0xf0) && !depth.is_written(4, 0xf1));
    }
}
