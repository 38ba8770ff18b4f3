//! Divides a copy into parts.
//!
//! Parts shrink: each round halves the rest. A thread takes few parts (between two, its load
//! pipeline drains, about 1 µs on reads, and so do its write-combining buffers), yet all threads
//! end at about the same time.

/// Division of units into rounds of one part per thread. A round takes half of the rest, down to
/// parts of one unit.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) units: usize,
    pub(super) threads: usize,
}

impl Cut {
    /// Number of parts: a few for each thread.
    pub(super) fn parts(self) -> usize {
        self.rounds().map(|round| round.parts).sum()
    }

    /// (first unit, units) of a part.
    pub(super) fn part(self, index: usize) -> (usize, usize) {
        let mut before = 0;
        for round in self.rounds() {
            if index - before < round.parts {
                return (round.first + (index - before) * round.size, round.size);
            }
            before += round.parts;
        }
        (self.units, 0)
    }

    fn rounds(self) -> impl Iterator<Item = Round> {
        let mut first = 0;
        std::iter::from_fn(move || {
            let left = self.units - first;
            let size = (left / (2 * self.threads)).max(1);
            let parts = if size == 1 { left } else { self.threads };
            let round = Round { first, size, parts };
            first += size * parts;
            (left != 0).then_some(round)
        })
    }
}

/// `parts` parts of `size` units each, from unit `first`.
struct Round {
    first: usize,
    size: usize,
    parts: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 64 units for 4 threads are 4 parts of 8, 4 of 4, 4 of 2, and 8 of 1.
    #[test]
    fn parts_shrink() {
        let cut = Cut { units: 64, threads: 4 };
        let sizes: Vec<_> = (0..cut.parts()).map(|index| cut.part(index).1).collect();
        assert_eq!(sizes, [8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(cut.part(4), (32, 4));
        assert_eq!(Cut { units: 16, threads: 16 }.parts(), 16);
        assert!(Cut { units: 1 << 40, threads: 2 }.parts() < 200);
    }
}
