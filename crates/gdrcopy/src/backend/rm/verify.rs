//! Verifies that a mapping shows the right memory: the CPU reads through it what the GPU's copy
//! engine reads.
//!
//! Never writes to user memory. Uniform memory proves nothing and is accepted, because the method
//! was proven on our own memory.

use std::ptr::NonNull;

use gpu::DevicePtr;

use super::owner::Bench;
use crate::Error;
use crate::copy::fence;

/// Bytes compared at each place.
const WIDTH: u64 = 64;
/// Maximum number of places.
const MAX: usize = 16;
/// Size of a pool's memory objects: a multiple may start another one.
const STRIDE: u64 = 32 << 20;
/// Readings of a place that differs: the GPU may be writing there.
const ATTEMPTS: usize = 3;

/// Fully allocated part of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) address: DevicePtr,
    /// Bytes from the start of the mapping.
    pub(crate) at: usize,
    /// Length in bytes.
    pub(crate) length: u64,
}

/// Sample to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    address: DevicePtr,
    at: usize,
    length: usize,
}

/// Compares the mapping at `base` with what `bench` reads: the ends and the middle of each span,
/// and the borders within it.
pub(crate) fn check(
    bench: &dyn Bench,
    base: NonNull<u8>,
    spans: &[Span],
    borders: &[u64],
) -> Result<(), Error> {
    let places = places(spans, borders);
    let mut expected = read_gpu(bench, &places)?;
    let mut open: Vec<(Sample, Vec<u8>)> = Vec::new();
    for (place, expected) in places.into_iter().zip(expected.drain(..)) {
        if read_cpu(base, place) != expected {
            open.push((place, expected));
        }
    }
    for (place, first) in open {
        settle(bench, base, place, first)?;
    }
    Ok(())
}

/// Compares both ends of a span with known contents.
pub(crate) fn check_known(base: NonNull<u8>, span: Span, known: &[u8]) -> Result<(), Error> {
    for place in places(&[span], &[]) {
        let found = read_cpu(base, place);
        let from = place.at - span.at;
        let expected = known.get(from..from + place.length).unwrap_or_default();
        if found != expected {
            return Err(differing(place, expected, &found));
        }
    }
    Ok(())
}

/// Decides about a place that differed. Only a difference from two equal GPU readings, at every
/// attempt, is an error; memory that keeps changing is accepted like uniform memory.
fn settle(
    bench: &dyn Bench,
    base: NonNull<u8>,
    place: Sample,
    first: Vec<u8>,
) -> Result<(), Error> {
    let mut before = first;
    let mut verdict = None;
    for _ in 0..ATTEMPTS {
        let found = read_cpu(base, place);
        let after = read_gpu(bench, &[place])?.pop().unwrap_or_default();
        if found == after || found == before {
            return Ok(());
        }
        if before == after {
            verdict = Some((after.clone(), found));
        }
        before = after;
    }
    let Some((expected, found)) = verdict else {
        return Ok(());
    };
    Err(differing(place, &expected, &found))
}

fn differing(place: Sample, expected: &[u8], found: &[u8]) -> Error {
    if found.iter().all(|&byte| byte == 0xFF) {
        return Error::GpuLost { sign: "its memory reads as all ones" };
    }
    let at = expected.iter().zip(found).position(|(one, other)| one != other).unwrap_or(0);
    let eight = |bytes: &[u8]| {
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(bytes.iter().skip(at)) {
            *to = *from;
        }
        eight
    };
    Error::Verification {
        address: place.address.offset(at as u64),
        expected: eight(expected),
        found: eight(found),
    }
}

/// Places to compare: few in small mappings, every border in large ones.
fn places(spans: &[Span], borders: &[u64]) -> Vec<Sample> {
    let mut places = Vec::new();
    for span in spans {
        let width = WIDTH.min(span.length);
        let last = span.length - width;
        let mut starts = vec![0, last];
        if span.length > STRIDE / 512 {
            starts.push(last / 2);
        }
        starts.extend((1..).map(|index| index * STRIDE).take_while(|&start| start < last));
        let inside = borders.iter().filter_map(|&border| border.checked_sub(span.at as u64));
        for border in inside.filter(|&border| border <= last) {
            starts.extend([border.saturating_sub(width), border]);
        }
        starts.sort_unstable();
        starts.dedup();
        let places_of_span = starts.into_iter().map(|start| place(span, start, width)).collect();
        // Every allocation is compared somewhere, because each was found separately.
        places.extend(thin(places_of_span, (MAX / spans.len()).max(2)));
    }
    places
}

/// Whole 8-byte words if possible: each access to the mapping takes about a microsecond.
fn place(span: &Span, start: u64, width: u64) -> Sample {
    let address = span.address.offset(start).get();
    let up = address.next_multiple_of(8) - address;
    let (start, width) = if width >= 16 { (start + up, (width - up) & !7) } else { (start, width) };
    Sample {
        address: span.address.offset(start),
        at: span.at + start as usize,
        length: width as usize,
    }
}

/// Evenly spaced, with the first and the last.
fn thin(places: Vec<Sample>, most: usize) -> Vec<Sample> {
    let count = places.len();
    if count <= most {
        return places;
    }
    (0..most).filter_map(|index| places.get(index * (count - 1) / (most - 1)).copied()).collect()
}

fn read_gpu(bench: &dyn Bench, places: &[Sample]) -> Result<Vec<Vec<u8>>, Error> {
    let mut buffers: Vec<Vec<u8>> = places.iter().map(|place| vec![0; place.length]).collect();
    let mut parts: Vec<_> = places
        .iter()
        .zip(&mut buffers)
        .map(|(place, buffer)| (place.address, buffer.as_mut_slice()))
        .collect();
    bench.read_each(&mut parts).map_err(|source| Error::Cuda {
        operation: "read the memory through the GPU to verify its mapping",
        source,
    })?;
    Ok(buffers)
}

/// What the CPU reads, by plain loads: the copy kernels are not proven yet.
fn read_cpu(base: NonNull<u8>, place: Sample) -> Vec<u8> {
    fence::before_reads();
    // SAFETY: every place lies within a span, and every span within the live mapping at `base`.
    let start = unsafe { base.add(place.at) };
    if !place.length.is_multiple_of(8) || !start.as_ptr().addr().is_multiple_of(8) {
        // SAFETY: within the place; a byte needs no alignment.
        return (0..place.length)
            .map(|index| unsafe { start.add(index).read_volatile() })
            .collect();
    }
    let words = start.cast::<u64>();
    // SAFETY: within the place, and aligned as just checked.
    (0..place.length / 8)
        .flat_map(|index| unsafe { words.add(index).read_volatile() }.to_ne_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(length: u64) -> Span {
        Span { address: DevicePtr::new(0x7000_0000_0200), at: 0x200, length }
    }

    #[test]
    fn compares_ends_and_borders() {
        let starts = |length: u64, borders: &[u64]| -> Vec<usize> {
            places(&[span(length)], borders).iter().map(|place| place.at - 0x200).collect()
        };
        assert_eq!(starts(1, &[]), [0]);
        assert_eq!(starts(64, &[]), [0]);
        assert_eq!(starts(65536, &[]), [0, 65472]);
        assert_eq!(starts(2 << 20, &[]), [0, (2 << 20) / 2 - 32, (2 << 20) - 64]);
        // A border between two objects, 1 MiB into the mapping.
        assert_eq!(starts(2 << 20, &[1 << 20]).len(), 5);
        assert!(starts(2 << 20, &[1 << 20]).contains(&((1 << 20) - 0x200)));
        assert_eq!(starts(6 << 30, &[]).len(), 16);
        assert_eq!(starts(6 << 30, &[]).last(), Some(&((6 << 30) - 64)));
    }

    #[test]
    fn places_are_within_span_and_aligned() {
        for length in [1, 7, 15, 16, 63, 64, 65, 4097, 65537] {
            for shift in 0..16 {
                let span = Span {
                    address: DevicePtr::new(0x7000_0000_0000 + shift),
                    at: shift as usize,
                    length,
                };
                for place in places(&[span], &[]) {
                    let end = place.at + place.length;
                    assert!(
                        place.at >= span.at
                            && end as u64 <= span.at as u64 + length
                            && place.length > 0
                    );
                    assert_eq!(
                        place.address.get() - span.address.get(),
                        (place.at - span.at) as u64
                    );
                    assert!(
                        length < 16 || place.at.is_multiple_of(8) && place.length.is_multiple_of(8)
                    );
                }
            }
        }
    }
}
