//! Chains: the steps of a repair that change the same file, attribute or register bits, as a sequence of states.
//! Comparing the present state with the chain shows what is already undone and what others changed. Pure.

use crate::model::{ConfigWrite, Entry, Mutation, Progress};

/// The states around one step.
pub struct Chain<T> {
    /// What its undo restores.
    pub goal: T,
    /// Before the steps before it.
    earlier: Vec<T>,
    /// After it, and after the steps that follow.
    later: Vec<T>,
}

/// The present state relative to one step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As before this step, or earlier.
    Back,
    /// As this step or a later one left it.
    Ours,
    /// Changed by others.
    Foreign,
}

impl<T> Chain<T> {
    /// The chain around the step `at`. `states` returns the states before and after an entry that changes the same thing.
    pub fn of<'e>(
        entries: &'e [Entry],
        at: usize,
        states: impl Fn(&'e Mutation) -> Option<(T, T)>,
    ) -> Option<Self> {
        let (before, rest) = entries.split_at_checked(at)?;
        let (own, after) = rest.split_first()?;
        let (mut goal, new) = states(&own.mutation)?;
        // A step before this one may have been undone first, because this one could not be: then that state stays.
        let undone = before.iter().filter(|entry| entry.progress == Progress::Undone);
        let mut undone = undone.filter_map(|entry| states(&entry.mutation));
        if let Some((first, _)) = undone.next() {
            goal = first;
        }
        let all = |entries: &'e [Entry]| {
            let found = entries.iter().map(|entry| states(&entry.mutation));
            found.flatten().collect::<Vec<_>>()
        };
        let later = all(after).into_iter().map(|(_, new)| new);
        Some(Self {
            goal,
            earlier: all(before).into_iter().map(|(old, _)| old).collect(),
            later: std::iter::once(new).chain(later).collect(),
        })
    }

    pub fn standing(&self, is_now: impl Fn(&T) -> bool) -> Standing {
        if is_now(&self.goal) {
            return Standing::Back;
        }
        if self.later.iter().any(&is_now) {
            return Standing::Ours;
        }
        if self.earlier.iter().any(&is_now) { Standing::Back } else { Standing::Foreign }
    }
}

impl Chain<u32> {
    /// The states of a register. Other writes may change only some of its bits, or be wider or narrower.
    pub fn of_register(entries: &[Entry], at: usize, write: &ConfigWrite) -> Self {
        let changes = |entry: &Entry| bits(&entry.mutation, write);
        let overlaid = |now: u32, (mask, bits): (u32, u32)| now & !mask | bits & mask;
        let mut now = write.old;
        let before = entries[..at].iter().rev().filter_map(changes);
        let earlier = before.map(|bits| {
            now = overlaid(now, (bits.mask, bits.old));
            now
        });
        let earlier = earlier.collect();
        let mut now = write.new;
        let after = entries[at + 1..].iter().filter_map(changes);
        let later = after.map(|bits| {
            now = overlaid(now, (bits.mask, bits.new));
            now
        });
        Self { goal: write.old, earlier, later: std::iter::once(write.new).chain(later).collect() }
    }
}

/// True if a step after `at` that changes the same bits is not undone.
pub fn is_covered(entries: &[Entry], at: usize, write: &ConfigWrite) -> bool {
    entries[at + 1..].iter().any(|entry| {
        entry.progress != Progress::Undone
            && bits(&entry.mutation, write).is_some_and(|bits| bits.mask & write.mask != 0)
    })
}

/// Bits that a write changes, in the place of another register.
struct Bits {
    mask: u32,
    old: u32,
    new: u32,
}

/// The part of a write that lies in the register of `place`.
fn bits(mutation: &Mutation, place: &ConfigWrite) -> Option<Bits> {
    let Mutation::WriteConfig(write) = mutation else {
        return None;
    };
    if (write.bdf, write.capability) != (place.bdf, place.capability) {
        return None;
    }
    let bytes = i32::from(write.offset) - i32::from(place.offset);
    // Bytes beyond the other register's width fall off the upper end, earlier ones off the lower end.
    let moved = |value: u32| {
        let shift = bytes.unsigned_abs().checked_mul(8)?;
        let value = u64::from(value);
        let value =
            if bytes >= 0 { value.checked_shl(shift)? } else { value.checked_shr(shift)? };
        let width = 8 * u32::from(place.width.min(4));
        u32::try_from(value & ((1_u64 << width) - 1)).ok()
    };
    let found = Bits { mask: moved(write.mask)?, old: moved(write.old)?, new: moved(write.new)? };
    (found.mask != 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Capability;

    fn write(offset: u16, width: u8, mask: u32, old: u32, new: u32) -> ConfigWrite {
        ConfigWrite {
            bdf: "0000:02:00.0".parse().expect("an address"),
            capability: Capability::ACS,
            offset,
            width,
            mask,
            old,
            new,
        }
    }

    #[test]
    fn bits_of_overlapping_registers() {
        // Bytes 4 to 7 of the capability read 44 55 66 77, least significant first.
        let whole = write(4, 4, 0xffff_ffff, 0x7766_5544, 0);
        for (place, expected) in [
            (write(4, 4, 0, 0, 0), Some((0xffff_ffff, 0x7766_5544))),
            (write(6, 2, 0, 0, 0), Some((0xffff, 0x7766))),
            (write(7, 1, 0, 0, 0), Some((0xff, 0x77))),
            (write(2, 4, 0, 0, 0), Some((0xffff_0000, 0x5544_0000))),
            (write(0, 4, 0, 0, 0), None),
            (write(8, 4, 0, 0, 0), None),
            (write(3, 2, 0, 0, 0), Some((0xff00, 0x4400))),
        ] {
            let found = bits(&Mutation::WriteConfig(whole), &place);
            let found = found.map(|bits| (bits.mask, bits.old));
            assert_eq!(found, expected, "{} {}", place.offset, place.width);
        }
        let elsewhere = ConfigWrite { capability: Capability::EXPRESS, ..whole };
        assert!(bits(&Mutation::WriteConfig(whole), &elsewhere).is_none());
    }
}
