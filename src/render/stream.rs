//! Sequences and maps that serialize while they are computed, without being stored.

use serde::{Serialize, Serializer};

/// A sequence whose items are computed while it is written.
pub struct Items<F>(pub F);

/// A map whose entries are computed while it is written, in the order of computation.
pub struct Entries<F>(pub F);

impl<F, I> Serialize for Items<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0())
    }
}

impl<F, I, K, V> Serialize for Entries<F>
where
    F: Fn() -> I,
    I: Iterator<Item = (K, V)>,
    K: Serialize,
    V: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0())
    }
}
