//! Latency of one load: a thread follows a linked list (pointer chasing).

use gpu::{Allocation, Error, Memory, Stream};

use super::sampling::{Budget, Sampler};

/// Bytes of the list, with one pointer in each line of 128 bytes, as in nvbandwidth.
pub const LIST: usize = 2 << 20;
/// A GPU's cache line, the distance between two pointers of the list.
pub const LINE: usize = 128;
/// Loads per sample: about a millisecond.
const HOPS: u32 = 1024;
/// Launches timed to get the cost of one.
const LAUNCHES: u32 = 5;

/// A circular list: the first word of each line is the offset of the next line.
pub fn ring() -> Vec<u8> {
    let mut bytes = vec![0; LIST];
    for (at, line) in bytes.chunks_exact_mut(LINE).enumerate() {
        let next = ((at + 1) * LINE % LIST) as u64;
        line[..8].copy_from_slice(&next.to_le_bytes());
    }
    bytes
}

/// Seconds per load, without the launch (some microseconds). Samples go round the list and the multiprocessors, because the
/// distance differs by a tenth between multiprocessors. `None` if the walk ended at a wrong line.
pub fn chase(
    stream: &Stream,
    list: &impl Memory,
    budget: Budget,
) -> Result<Option<Vec<f64>>, Error> {
    let gpu = stream.gpu();
    let blocks = gpu.multiprocessors()?.max(1);
    let result = gpu.allocate(Allocation::Malloc, 16)?;
    let (begin, end) = (gpu.event()?, gpu.event()?);
    let walk = |start: usize, hops: u32, block: u32| {
        stream.record(&begin)?;
        stream.chase(list, start, hops, block, &result)?;
        stream.record(&end)?;
        let mut last = [0; 8];
        stream.read(&result, 0, &mut last)?;
        Ok::<_, Error>((u64::from_le_bytes(last), end.elapsed_since(&begin)?.as_secs_f64()))
    };
    let mut launch = f64::INFINITY;
    // The first warms up.
    for block in 0..=LAUNCHES {
        let (last, seconds) = walk(0, 1, block % blocks)?;
        if last != LINE as u64 {
            return Ok(None);
        }
        if block > 0 {
            launch = launch.min(seconds);
        }
    }
    let lines = (LIST / LINE) as u32;
    let mut sampler = Sampler::new(Budget { least: budget.least.max(blocks as usize), ..budget });
    // The first warms up.
    for sample in 0_u32.. {
        if sample > 0 && !sampler.wants_more() {
            break;
        }
        let first = sample.wrapping_mul(HOPS) % lines;
        let (last, seconds) = walk(first as usize * LINE, HOPS, sample % blocks)?;
        if last != u64::from((first + HOPS) % lines) * LINE as u64 {
            return Ok(None);
        }
        if sample > 0 {
            sampler.push((seconds - launch).max(0.0) / f64::from(HOPS - 1));
        }
    }
    Ok(Some(sampler.finish().1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpu::Gpu;

    use super::*;

    #[test]
    fn detects_broken_list() {
        let gpu = Gpu::sim();
        let stream = gpu.stream().expect("a stream");
        let list = gpu.allocate(Allocation::Malloc, LIST).expect("memory");
        let budget = Budget { time: Duration::ZERO, least: 3, share: 0.1, runs: None };
        let mut bytes = ring();
        stream.write(&list, 0, &bytes).expect("written");
        let samples = chase(&stream, &list, budget).expect("it runs").expect("an intact list");
        assert!(samples.len() >= 3);
        // A lost line, whose word is 0, and an offset outside of the list.
        for broken in [0, LIST as u64] {
            bytes[LINE * 10..LINE * 10 + 8].copy_from_slice(&broken.to_le_bytes());
            stream.write(&list, 0, &bytes).expect("written");
            assert_eq!(chase(&stream, &list, budget).expect("it runs"), None);
        }
    }
}
