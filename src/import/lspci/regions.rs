//! Regions of a function: `Region 0: Memory at 38000000000 (64-bit, prefetchable) [disabled] [size=32G]`.

use super::lines::Line;
use crate::model::{Fact, Resource, Why};

const BARS: u8 = 6;

/// IORESOURCE_IO, IORESOURCE_MEM, IORESOURCE_PREFETCH, IORESOURCE_MEM_64.
const IO: u64 = 0x100;
const MEMORY: u64 = 0x200;
const PREFETCHABLE: u64 = 0x2000;
const BITS_64: u64 = 0x10_0000;

/// All six regions as in sysfs; unprinted ones are zero.
pub(super) fn resources(
    lines: &[Line<'_>],
    failure: &mut Vec<(usize, String)>,
) -> Fact<Vec<Resource>> {
    let none = |bar| Resource { bar, start: 0, size: 0, flags: 0 };
    let mut resources: Vec<Resource> = (0..BARS).map(none).collect();
    for line in lines {
        let Some(text) = line.text.strip_prefix("Region ") else {
            continue;
        };
        match region(text)
            .and_then(|(bar, found)| Some((resources.get_mut(usize::from(bar))?, found)))
        {
            // `-F` and `-b` print no sizes, so all are unknown.
            Some((_, None)) => return Fact::Unknown(Why::NotCovered),
            Some((slot, Some(found))) => *slot = found,
            None => {
                failure.push((line.number, "invalid region".to_owned()));
                return Fact::Unknown(Why::Broken);
            }
        }
    }
    Fact::Known(resources)
}

/// The region; `None` inside without a size.
fn region(text: &str) -> Option<(u8, Option<Resource>)> {
    let (bar, mut rest) = text.split_once(": ")?;
    // Where the kernel knows more than the register, and where Enhanced Allocation sets the address.
    for mark in ["[virtual] ", "[enhanced] "] {
        rest = rest.strip_prefix(mark).unwrap_or(rest);
    }
    let (flags, rest) = match rest.strip_prefix("Memory at ") {
        Some(rest) => {
            let prefetchable = if rest.contains(", prefetchable)") { PREFETCHABLE } else { 0 };
            let wide = if rest.contains("(64-bit, ") { BITS_64 } else { 0 };
            (MEMORY | prefetchable | wide, rest)
        }
        None => (IO, rest.strip_prefix("I/O ports at ")?),
    };
    let address = rest.split(' ').next()?;
    let bar = bar.parse().ok()?;
    let start = if address.starts_with('<') {
        // `<unassigned>`, `<ignored>`.
        0
    } else {
        u64::from_str_radix(address, 16).ok()?
    };
    let Some((_, size)) = rest.split_once("[size=") else {
        return Some((bar, None));
    };
    let size = bytes(size.split(']').next()?)?;
    let resource = Resource { bar, start, size, flags };
    Some((bar, Some(resource)))
}

fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let number: u64 = text.trim_end_matches(['K', 'M', 'G', 'T']).parse().ok()?;
    number.checked_mul(1 << unit.map_or(0, |(_, shift)| *shift))
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    fn read(text: &str) -> (Fact<Vec<Resource>>, usize) {
        let lines: Vec<Line<'_>> = lines(text.as_bytes()).collect();
        let mut failure = Vec::new();
        (resources(&lines, &mut failure), failure.len())
    }

    #[test]
    fn reads_all_region_types() {
        let text = "\
\tRegion 0: Memory at 38000000000 (64-bit, prefetchable) [size=32G]
\tRegion 2: Memory at e0000000 (32-bit, non-prefetchable) [virtual] [size=16M]
\tRegion 3: Memory at <unassigned> (64-bit, prefetchable) [disabled] [size=512]
\tRegion 4: [virtual] Memory at 1000 (32-bit, non-prefetchable) [size=4K]
\tRegion 5: I/O ports at e000 [disabled] [size=64]";
        // From include/linux/ioport.h.
        let expected = [
            (0x380_0000_0000, 32 << 30, 0x10_2200),
            (0, 0, 0),
            (0xe000_0000, 16 << 20, 0x200),
            (0, 512, 0x10_2200),
            (0x1000, 4096, 0x200),
            (0xe000, 64, 0x100),
        ];
        let expected = expected.into_iter().zip(0..).map(|((start, size, flags), bar)| Resource {
            bar,
            start,
            size,
            flags,
        });
        assert_eq!(read(text), (Fact::Known(expected.collect()), 0));
    }

    #[test]
    fn invalid_region_makes_all_unknown() {
        for text in [
            "Region 0: Memory at",
            "Region 9: Memory at 1000 (32-bit, prefetchable)",
            "Region 0: Memory at 1000 (32-bit) [size=99999999999T]",
            "Region 0: Memory at xyz (32-bit)",
            "Region 0: nothing",
        ] {
            assert_eq!(read(text), (Fact::Unknown(Why::Broken), 1), "{text}");
        }
        let unsized_one = "Region 0: Memory at 1000 (32-bit, prefetchable) [size=4K]\nRegion 2: Memory at 2000000000 (64-bit, prefetchable)";
        assert_eq!(read(unsized_one), (Fact::Unknown(Why::NotCovered), 0));
        assert!(matches!(read("\tControl: x").0, Fact::Known(list) if list.len() == 6));
    }
}
