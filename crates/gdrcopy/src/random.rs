//! Random contents for memory of our own: what two places show by chance alone must differ.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Bytes that nobody else has.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    // A forked child inherits its parent's sequence; the process tells them apart.
    let own = u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut bytes = vec![0; count];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice((word() ^ own).to_ne_bytes().get(..chunk.len()).unwrap_or_default());
    }
    bytes
}

/// The next word of this thread's sequence (xorshift64*, Vigna 2016), begun with the seed of the standard library's hash maps,
/// which the operating system gives.
pub(crate) fn word() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish() | 1);
    }
    STATE.with(|state| {
        let mut word = state.get();
        word ^= word >> 12;
        word ^= word << 25;
        word ^= word >> 27;
        state.set(word);
        word.wrapping_mul(0x2545_F491_4F6C_DD1D)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_are_alike() {
        let bytes = bytes(1 << 20);
        let mut pages: Vec<&[u8]> = bytes.chunks(64).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), (1 << 20) / 64);
        assert_eq!(super::bytes(3).len(), 3);
    }
}
