//! hwloc's bitmaps of CPUs and NUMA nodes: `0x000000ff,,0xffffffff`, 32-bit words, the highest first.

use crate::model::IdList;

/// 131,072 CPUs.
const WORDS: usize = 4096;
/// Limit of ranges.
const RANGES: usize = 1024;

/// The ids of a bitmap; `None` if it is invalid, infinite (`0xf...f`: never counted) or too large.
pub fn ids(text: &str) -> Option<IdList> {
    if text.is_empty() || text.split(',').count() > WORDS {
        return None;
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (at, word) in text.rsplit(',').enumerate() {
        let base = u32::try_from(at).ok()?.checked_mul(32)?;
        let bits = self::word(word)?;
        let set = (0..32).filter(|bit| bits & 1 << bit != 0).map(|bit| base + bit);
        for id in set {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == id => *high = id,
                _ => ranges.push((id, id)),
            }
            if ranges.len() > RANGES {
                return None;
            }
        }
    }
    Some(IdList::from_ranges(ranges))
}

/// Parses one word; empty means zero.
fn word(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.strip_prefix("0x")?;
    let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hwloc_bitmaps() {
        // From lstopo 2.9 for CPUs 0-55 and 112-167, and for 56-111 and 168-223.
        for (text, list) in [
            ("0x000000ff,0xffffffff,0xffff0000,,0x00ffffff,0xffffffff", "0-55,112-167"),
            ("0xffffffff,0xffffff00,,0x0000ffff,0xffffffff,0xff000000,0x0", "56-111,168-223"),
            ("0x00000001", "0"),
            ("0x0", ""),
            ("0x00000003", "0-1"),
            ("0x80000000,0x80000001", "0,31,63"),
        ] {
            assert_eq!(ids(text).map(|ids| ids.to_string()).as_deref(), Some(list), "{text}");
        }
    }

    #[test]
    fn infinite_bitmap_is_unknown() {
        for text in ["0xf...f", "0xf...f,0x00000001", "", "0x", "3", "0x1ffffffff", "0x1 0x2", "x"]
        {
            assert_eq!(ids(text), None, "{text}");
        }
        let long = vec!["0xffffffff"; WORDS + 1].join(",");
        assert_eq!(ids(&long), None);
        let holes = vec!["0x55555555"; 200].join(",");
        assert_eq!(ids(&holes), None);
    }
}
