//! Sets of CPUs: those this process may use, and how many threads they can run.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

/// CPU numbers 0 to 1023, as in the C library's `cpu_set_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus([u64; WORDS]);

const WORDS: usize = 16;

impl Cpus {
    /// Empty set. As a hint: no preference.
    pub const NONE: Cpus = Cpus([0; WORDS]);

    /// Parses the kernel's list format, `0-15,32-47`, as in a PCI device's `local_cpulist` and a
    /// NUMA node's `cpulist`. `None` if the text is invalid. CPUs above 1023 are dropped.
    ///
    /// ```
    /// use gdrcopy::copy::Cpus;
    /// assert_eq!(Cpus::parse("0-2,7\n").map(|cpus| cpus.count()), Some(4));
    /// ```
    pub fn parse(list: &str) -> Option<Cpus> {
        let mut cpus = Cpus::NONE;
        for range in list.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            for cpu in first..=last.min(WORDS * 64 - 1) {
                cpus.0[cpu / 64] |= 1 << (cpu % 64);
            }
        }
        Some(cpus)
    }

    /// Number of CPUs.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Affinity of the calling thread.
    pub(super) fn of_caller() -> Cpus {
        let mut cpus = Cpus::NONE;
        // SAFETY: the kernel writes at most the given length, that of the array. cpu_set_t is an
        // array of unsigned long, which has the same layout on 64-bit little-endian machines.
        let answer = unsafe {
            libc::sched_getaffinity(0, mem::size_of_val(&cpus.0), cpus.0.as_mut_ptr().cast())
        };
        if answer == 0 { cpus } else { Cpus::NONE }
    }

    /// Intersection, if it has at least `least` CPUs; else `self`.
    pub(super) fn near(&self, hint: &Cpus, least: usize) -> Cpus {
        let both = Cpus(std::array::from_fn(|word| self.0[word] & hint.0[word]));
        if both.count() >= least { both } else { *self }
    }

    /// Binds a thread of this process to these CPUs, 0 for the calling one; errors are ignored.
    pub(super) fn bind(&self, thread: u32) {
        // SAFETY: the set is `size_of_val` bytes of our own, read only.
        unsafe {
            libc::sched_setaffinity(
                thread as libc::pid_t,
                mem::size_of_val(&self.0),
                self.0.as_ptr().cast(),
            )
        };
    }
}

/// A set that threads share. Its words change one by one; who writes it afterwards corrects what
/// others read meanwhile.
#[derive(Debug, Default)]
pub(super) struct SharedCpus([AtomicU64; WORDS]);

impl SharedCpus {
    pub(super) fn get(&self) -> Cpus {
        Cpus(std::array::from_fn(|word| self.0[word].load(Ordering::SeqCst)))
    }

    pub(super) fn set(&self, cpus: &Cpus) {
        for (shared, word) in self.0.iter().zip(cpus.0) {
            shared.store(word, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_kernel_lists() {
        assert_eq!(Cpus::parse(""), Some(Cpus::NONE));
        assert_eq!(Cpus::parse("\n").map(|cpus| cpus.count()), Some(0));
        assert_eq!(Cpus::parse("3").map(|cpus| cpus.0[0]), Some(0b1000));
        assert_eq!(
            Cpus::parse("0-1,64-65\n").map(|cpus| (cpus.0[0], cpus.0[1])),
            Some((0b11, 0b11))
        );
        assert_eq!(Cpus::parse("1000-5000").map(|cpus| cpus.count()), Some(24));
        assert_eq!(Cpus::parse("0-x"), None);
    }

    #[test]
    fn hint_is_limited_to_affinity() {
        let [mine, hint, elsewhere] =
            ["0-7", "4-11", "32-63"].map(|list| Cpus::parse(list).expect("a list"));
        assert_eq!(mine.near(&hint, 2), Cpus::parse("4-7").expect("a list"));
        assert_eq!(mine.near(&hint, 5), mine);
        assert_eq!(mine.near(&elsewhere, 2), mine);
        assert_eq!(mine.near(&Cpus::NONE, 2), mine);
    }

    #[test]
    fn affinity_is_not_empty() {
        assert!(Cpus::of_caller().count() >= 1);
    }
}
