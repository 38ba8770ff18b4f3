//! Sorting for lists that are short or sorted once: all of them share one instance of the standard library's sort,
//! which is 4 KB of the program for each type and comparison.

use std::cmp::Ordering;

/// A list that is sorted through its indexes. Equal items keep their order.
pub trait Order<T> {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// The key of an item is made at each comparison.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let mut order = order(self.len(), &|a, b| compare(&self[a], &self[b]));
        arrange(&mut order, &mut |a, b| self.swap(a, b));
    }
}

/// For each place the index of the item that belongs there.
fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Follows each cycle of the order. Swaps put an item into its place and the item from there into the next one.
fn arrange(order: &mut [usize], swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..order.len() {
        let mut place = first;
        loop {
            let from = std::mem::replace(&mut order[place], place);
            if from == first {
                break;
            }
            swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorts_as_the_standard_library_does(mut list: Vec<(u8, u16)>) {
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            list.order_by_key(|(key, _)| *key);
            prop_assert_eq!(&list, &expected);
            expected.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
            list.order_by(|a, b| b.1.cmp(&a.1));
            prop_assert_eq!(&list, &expected);
        }
    }
}
