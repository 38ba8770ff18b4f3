//! State of a copy: its window, and whether mappings of several types exist. Copies take no lock
//! and make no system call.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use gdrcopy::MappingType;
use gdrcopy::copy::Copier;

use crate::call_error::CallError;
use crate::slots::{self, PROCESS};

/// Number of live mappings of each type, and in the highest bit whether there is more than one
/// type: one word, so that they are always consistent. A forked child starts with its parent's counts: at worst a needless fence. No
/// lock, which a child could inherit locked.
#[derive(Clone, Copy)]
struct Alive(u64);

impl Alive {
    const MIXED: u64 = 1 << 63;
    /// Bits of a count: there are fewer mappings than slots.
    const BITS: u32 = 21;
    /// Types except [`MappingType::None`].
    const TYPES: u32 = 3;

    fn one(mapping: MappingType) -> u64 {
        let place = (mapping as u32).clamp(1, Self::TYPES) - 1;
        1 << (place * Self::BITS)
    }

    fn count(self, place: u32) -> u64 {
        self.0 >> (place * Self::BITS) & ((1 << Self::BITS) - 1)
    }

    /// Sets the highest bit according to the counts.
    fn marked(self) -> u64 {
        let types = (0..Self::TYPES).filter(|&place| self.count(place) > 0).count();
        let numbers = self.0 & !Self::MIXED;
        if types > 1 { numbers | Self::MIXED } else { numbers }
    }
}

/// Window of a copy of `bytes` bytes at `device` through `handle`; `None` if it is invalid (see
/// [`copy_error`]) or there is nothing to copy. Valid while the handle stays mapped.
#[inline]
pub(crate) fn admit(
    handle: u64,
    device: usize,
    host: usize,
    bytes: usize,
) -> Option<NonNull<Copier>> {
    let window = slots::window(handle)?;
    let offset = device.wrapping_sub(window.start);
    // With zero bytes the difference wraps and is out of every range.
    let inside = offset < window.bytes && bytes.wrapping_sub(1) < window.bytes - offset;
    (inside && host != 0).then_some(window.copier)
}

/// Why [`admit`] returned `None`; `Ok` if there is nothing to copy.
#[cold]
pub(crate) fn copy_error(
    handle: u64,
    device: usize,
    host: usize,
    bytes: usize,
) -> Result<(), CallError> {
    if slots::window(handle).is_none() {
        return Err(slots::call_error(handle));
    }
    match (bytes, host) {
        (0, _) => Ok(()),
        (_, 0) => Err(CallError::Null { what: "h_ptr" }),
        _ => Err(CallError::Outside { handle, address: device, bytes }),
    }
}

/// True if mappings of more than one type are live. Then a copy ends with a full fence: the CPU may
/// delay accesses of one type longer than those of another, even to the same memory.
#[inline]
pub(crate) fn mixed() -> bool {
    PROCESS.alive.load(Ordering::Relaxed) & Alive::MIXED != 0
}

/// Counts a new mapping of this type.
pub(crate) fn add(mapping: MappingType) {
    change(|alive| alive + Alive::one(mapping));
}

/// Counts the end of a mapping of this type.
pub(crate) fn remove(mapping: MappingType) {
    // Every end follows its beginning.
    change(|alive| alive - Alive::one(mapping));
}

fn change(to: impl Fn(u64) -> u64) {
    let mut alive = PROCESS.alive.load(Ordering::Relaxed);
    while let Err(other) = PROCESS.alive.compare_exchange_weak(
        alive,
        Alive(to(alive)).marked(),
        Ordering::SeqCst,
        Ordering::Relaxed,
    ) {
        alive = other;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// One thread unmaps while another maps; Miri runs many orders.
    #[test]
    fn one_type_is_not_mixed() {
        use MappingType::{Caching, WriteCombining};
        for _ in 0..if cfg!(miri) { 8 } else { 10_000 } {
            add(Caching);
            let ready = AtomicU64::new(0);
            let together = |does: fn(MappingType), of| {
                ready.fetch_add(1, Ordering::SeqCst);
                while ready.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
                does(of);
            };
            std::thread::scope(|scope| {
                scope.spawn(|| together(add, WriteCombining));
                scope.spawn(|| together(remove, Caching));
            });
            assert!(!mixed(), "one live mapping");
            add(Caching);
            assert!(mixed(), "two types");
            remove(WriteCombining);
            assert!(!mixed());
            remove(Caching);
        }
    }

    #[test]
    fn mixed_bit_matches_counts() {
        let most = (1 << Alive::BITS) - 1;
        for counts in [
            [0, 0, 0],
            [1, 0, 0],
            [0, most, 0],
            [0, 0, 2],
            [1, 1, 0],
            [0, 1, most],
            [1, 0, 7],
            [3, 2, 1],
        ] {
            let [first, second, third] = counts;
            let word = first | second << 21 | third << 42;
            let types = counts.iter().filter(|&&count| count > 0).count();
            for stale in [0, 1 << 63] {
                assert_eq!(
                    Alive(word | stale).marked(),
                    word | u64::from(types > 1) << 63,
                    "{counts:?}"
                );
            }
        }
    }
}
