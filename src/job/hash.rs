//! A hash for the maps that each line of a log is looked up in: a few multiplications, where the one of the standard library takes a
//! third of the reader's time. Its key is random, so nobody can write a log whose names collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

pub type FastMap<K, V> = HashMap<K, V, Keyed>;

#[derive(Debug, Clone)]
pub struct Keyed(u64);

pub struct FastHasher {
    state: u64,
    key: u64,
}

impl Default for Keyed {
    fn default() -> Self {
        // Odd, because a factor of two loses a bit.
        Self(RandomState::new().hash_one(0) | 1)
    }
}

impl BuildHasher for Keyed {
    type Hasher = FastHasher;

    fn build_hasher(&self) -> FastHasher {
        FastHasher { state: self.0.rotate_left(32), key: self.0 }
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        let rest = rest.iter().fold(rest.len() as u64, |rest, byte| rest << 8 | u64::from(*byte));
        self.write_u64(rest);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    /// Both halves of a product depend on all bits of its factors.
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.key);
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.key);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::Hash;

    use super::*;

    /// As many different hashes as keys, and no more keys in one of 4,096 buckets than chance puts there (about 35 of 64,000).
    fn assert_spread<T: Hash>(keys: impl Iterator<Item = T>) {
        let hash = Keyed::default();
        let mut all = BTreeSet::new();
        let mut buckets = vec![[0; 2]; 4_096];
        let mut count = 0;
        for key in keys {
            let value = hash.hash_one(key);
            all.insert(value);
            buckets[value as usize % 4_096][0] += 1;
            buckets[(value >> 52) as usize][1] += 1;
            count += 1;
        }
        assert_eq!(all.len(), count);
        let fullest = buckets.iter().flatten().max().copied().unwrap_or_default();
        assert!(fullest < 64, "{fullest} of {count} keys in one bucket");
    }

    #[test]
    fn keys_of_logs_are_spread() {
        assert_spread((0..64_000_u64).map(|at| at << 32));
        assert_spread((0..64_000_u32).map(|at| (at, u64::from(at % 7))));
        assert_spread((0..64_000).map(|at| format!("gpu-node-{at}")));
        assert_spread((0..64_000).map(|at| format!("NET/IB/{at}/GDRDMA")));
    }
}
