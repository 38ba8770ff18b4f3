//! A set of CPUs or NUMA nodes as the kernel prints it: `0-3,8,10-11`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sorted, merged ranges, both ends included. Formatted as the kernel's `%*pbl`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct IdList {
    /// Shared, because many devices have the CPUs of one node.
    ranges: Arc<[(u32, u32)]>,
}

/// The text is not a list of ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a list of numbers and ranges such as 0-3,8")]
pub struct IdListError {
    pub text: String,
}

/// Maximum number of ranges: 2048 CPUs with every other one offline. It bounds the cost of comparing lists, which is
/// done for each device and node.
const MAX_RANGES: usize = 1_024;

impl IdList {
    /// Creates a list from ids in any order.
    pub fn new(ids: impl IntoIterator<Item = u32>) -> Self {
        Self::merged(ids.into_iter().map(|id| (id, id)).collect())
    }

    /// Creates a list from ranges in any order, both ends included.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self::merged(ranges.into_iter().filter(|(low, high)| low <= high).collect())
    }

    fn merged(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match out.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => out.push((low, high)),
            }
        }
        Self { ranges: out.into() }
    }

    /// True if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// True if the list contains the id.
    pub fn contains(&self, id: u32) -> bool {
        self.overlaps(id, id)
    }

    /// True if the lists share an id.
    pub fn intersects(&self, other: &Self) -> bool {
        let (few, many) =
            if self.ranges.len() < other.ranges.len() { (self, other) } else { (other, self) };
        let mut ranges = few.ranges.iter();
        ranges.any(|&(low, high)| many.overlaps(low, high))
    }

    fn overlaps(&self, low: u32, high: u32) -> bool {
        // The first range that does not end before.
        let at = self.ranges.partition_point(|&(_, end)| end < low);
        self.ranges.get(at).is_some_and(|&(begin, _)| begin <= high)
    }

    /// The ids in both lists.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(&&(low, high)), Some(&&(l, h))) = (a.peek(), b.peek()) {
            if l <= high && low <= h {
                ranges.push((low.max(l), high.min(h)));
            }
            // Both are sorted: the one that ends first overlaps nothing else.
            if high < h {
                a.next()
            } else {
                b.next()
            };
        }
        Self::merged(ranges)
    }

    /// The ids in any of the lists.
    pub fn union<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::from_ranges(lists.into_iter().flat_map(|list| list.ranges.iter().copied()))
    }

    /// The ids for which `other` is false. Visits each id, so use it on short lists only.
    pub fn without(&self, other: impl Fn(u32) -> bool) -> Self {
        let ids = self.ranges.iter().flat_map(|&(low, high)| low..=high);
        Self::new(ids.filter(|id| !other(*id)))
    }

    /// The highest id.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|(_, high)| *high)
    }

    /// The lowest id.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|&(low, _)| low)
    }

    /// Number of ids.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|&(low, high)| u64::from(high - low) + 1).sum()
    }
}

impl FromStr for IdList {
    type Err = IdListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || IdListError { text: text.trim().chars().take(80).collect() };
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low: u32 = low.trim().parse().map_err(|_| error())?;
            let high: u32 = high.trim().parse().map_err(|_| error())?;
            if high < low {
                return Err(error());
            }
            if ranges.len() == MAX_RANGES {
                return Err(error());
            }
            ranges.push((low, high));
        }
        Ok(Self::merged(ranges))
    }
}

impl TryFrom<String> for IdList {
    type Error = IdListError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<IdList> for String {
    fn from(list: IdList) -> Self {
        list.to_string()
    }
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (low, high)) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if low == high {
                write!(f, "{comma}{low}")?;
            } else {
                write!(f, "{comma}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_kernel_lists() {
        for text in ["", "0", "0-31", "0-55,112-167", "0,2,4,6"] {
            assert_eq!(text.parse::<IdList>().map(|l| l.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(IdList::new([3, 1, 2, 7]).to_string(), "1-3,7");
        assert_eq!("0-4294967295".parse::<IdList>().map(|l| l.len()), Ok(1 << 32));
    }

    #[test]
    fn rejects_invalid_lists() {
        for text in ["a", "3-1", "1-", "-1", "4294967296", "1;2"] {
            assert!(text.parse::<IdList>().is_err(), "{text}");
        }
    }

    #[test]
    fn set_operations() {
        let (a, b) = (IdList::new(0..8), IdList::new([6, 7, 8, 9]));
        assert!(a.intersects(&b) && a.contains(7) && !a.contains(8));
        assert_eq!(a.intersection(&b).to_string(), "6-7");
        assert!(!a.intersects(&IdList::new([8])));
        let even = IdList::new((0..100).map(|id| 2 * id));
        assert!(
            even.contains(0) && even.contains(198) && !even.contains(99) && !even.contains(200)
        );
        let odd = IdList::new((0..100).map(|id| 2 * id + 1));
        assert!(!even.intersects(&odd) && even.intersection(&odd).is_empty());
        let middle = IdList::from_ranges([(99, 101), (150, 150), (500, 600)]);
        assert!(even.intersects(&middle) && middle.intersects(&odd));
        assert_eq!(even.intersection(&middle).to_string(), "100,150");
        assert_eq!(middle.intersection(&odd).to_string(), "99,101");
        assert!(!IdList::default().intersects(&even) && !even.intersects(&IdList::default()));
    }
}
