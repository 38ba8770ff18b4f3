//! Sequences and maps that are serialized while they are computed, so that none of them is ever held whole.

use serde::{Serialize, Serializer};

/// A sequence: its items are made when they are written.
pub struct Items<F>(pub F);

/// A map: its entries are made when they are written, in the order in which they come.
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
