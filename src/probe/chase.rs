//! What one load costs: a thread follows a list whose every word holds the address of the next.

use gpu::{Allocation, DevicePtr, Error, Memory, Stream};

use super::sampling::{Budget, Sampler};

/// The list goes over so many bytes, with a word in each line of 128, as nvbandwidth has it.
pub const LIST: usize = 2 << 20;
/// What a GPU moves at once, and how far the words of the list are apart.
pub const LINE: usize = 128;
/// So many loads are a sample: about a millisecond, of which a launch is a few thousandths.
const HOPS: u32 = 1024;

/// The bytes of a list that starts at this address, each line's first word leading to the next line, the last to the first.
pub fn ring(start: DevicePtr) -> Vec<u8> {
    let mut bytes = vec![0; LIST];
    for (at, line) in bytes.chunks_exact_mut(LINE).enumerate() {
        let next = start.offset(((at + 1) * LINE % LIST) as u64);
        line[..8].copy_from_slice(&next.get().to_le_bytes());
    }
    bytes
}

/// Seconds for one load, a sample for each part of the list and each multiprocessor in turn: from some it is a tenth further
/// than from others, so each has its turn. None where the list did not lead where it does.
pub fn chase(stream: &Stream, list: &impl Memory, budget: Budget) -> Result<Option<Vec<f64>>, Error> {
    let gpu = stream.gpu();
    let blocks = gpu.multiprocessors()?.max(1);
    let result = gpu.allocate(Allocation::Malloc, 16)?;
    let (begin, end) = (gpu.event()?, gpu.event()?);
    let lines = (LIST / LINE) as u32;
    let mut sampler = Sampler::new(Budget {
        least: budget.least.max(blocks as usize),
        ..budget
    });
    // The first warms up.
    for sample in 0_u32.. {
        if sample > 0 && !sampler.wants_more() {
            break;
        }
        let first = sample.wrapping_mul(HOPS) % lines;
        stream.record(&begin)?;
        stream.chase(list, first as usize * LINE, HOPS, sample % blocks, &result)?;
        stream.record(&end)?;
        let mut last = [0; 8];
        stream.read(&result, 0, &mut last)?;
        let place = ((first + HOPS) % lines) as usize * LINE;
        if u64::from_le_bytes(last) != Memory::device_address(list).offset(place as u64).get() {
            return Ok(None);
        }
        if sample > 0 {
            sampler.push(end.elapsed_since(&begin)?.as_secs_f64() / f64::from(HOPS));
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
    fn a_list_leads_round_and_a_broken_one_is_told() {
        let gpu = Gpu::sim();
        let stream = gpu.stream().expect("a stream");
        let list = gpu.allocate(Allocation::Malloc, LIST).expect("memory");
        let budget = Budget {
            time: Duration::ZERO,
            least: 3,
            share: 0.1,
        };
        let mut bytes = ring(list.address());
        stream.write(&list, 0, &bytes).expect("written");
        let samples = chase(&stream, &list, budget).expect("it runs").expect("it leads round");
        assert!(samples.len() >= 3);
        // A line that was lost: its word is 0.
        bytes[LINE * 10..LINE * 10 + 8].fill(0);
        stream.write(&list, 0, &bytes).expect("written");
        assert_eq!(chase(&stream, &list, budget).expect("it runs"), None);
    }
}
