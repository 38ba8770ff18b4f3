//! Measures where a stream sees a word sooner.

use std::time::{Duration, Instant};

use gpu::{Compare, StreamCapabilities};

use crate::{Allocator, Error, MappedMemory, MemoryLocation, Program};

/// Words of each location that are measured.
const ROUNDS: u32 = 101;
/// Time for the stream to reach its wait.
const SETTLE: Duration = Duration::from_micros(20);
/// A stream that takes longer counts as slower.
const LIMIT: Duration = Duration::from_millis(100);
/// Offsets of the words, on separate cache lines.
const FLAG: usize = 0;
const REPLY: usize = 256;

impl Allocator {
    /// Where a stream that waits for a word sees it sooner, for completion queues: measures a hundred words in host memory and in GPU
    /// memory, in about 10 ms. The CPU's stores stand for a NIC's writes.
    ///
    /// Host memory for a simulated GPU, and where the CPU cannot map GPU memory.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`], [`Error::Mapping`].
    pub fn faster_for_waits(&self) -> Result<MemoryLocation, Error> {
        if self.gdr().is_none() || self.gpu().is_sim() {
            return Ok(MemoryLocation::Host);
        }
        let replies = self.place(MemoryLocation::Host, 4096)?;
        let host = self.answer_time(&self.place(MemoryLocation::Host, 4096)?, &replies)?;
        let gpu = self.answer_time(&self.place(MemoryLocation::Gpu, 4096)?, &replies)?;
        Ok(if gpu < host { MemoryLocation::Gpu } else { MemoryLocation::Host })
    }

    /// Median time from a store of the CPU, through a stream that waits for it, to a word that the stream writes.
    fn answer_time(&self, words: &MappedMemory, replies: &MappedMemory) -> Result<Duration, Error> {
        let failed = |operation| move |source| Error::Gpu { operation, source };
        let stream = self.gpu().stream().map_err(failed("create a stream"))?;
        let can = StreamCapabilities::of(self.gpu())
            .map_err(failed("read what the GPU's streams support"))?;
        replies.store_u32(REPLY, 0)?;
        let mut times = Vec::new();
        for round in 1..=ROUNDS {
            let mut program = Program::new();
            program.wait32(words, FLAG, round, Compare::Geq).write32(replies, REPLY, round);
            program.post_to(&stream, can)?;
            let posted = Instant::now();
            while posted.elapsed() < SETTLE {
                std::hint::spin_loop();
            }
            let begun = Instant::now();
            words.store_u32(FLAG, round)?;
            while replies.load_u32(REPLY)? != round {
                if begun.elapsed() > LIMIT {
                    return Ok(LIMIT);
                }
                std::hint::spin_loop();
            }
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or(LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use gdrcopy::{BackendKind, Gdr};
    use gpu::Gpu;

    use super::*;

    #[test]
    fn measures_both_locations() {
        let gdr = Gdr::open_with(BackendKind::Sim).expect("a simulated backend");
        let allocator = Allocator::new(Gpu::sim(), Some(gdr));
        let replies = allocator.place(MemoryLocation::Host, 4096).expect("words");
        for location in [MemoryLocation::Host, MemoryLocation::Gpu] {
            let words = allocator.place(location, 4096).expect("words");
            let time = allocator.answer_time(&words, &replies).expect("a time");
            assert!(time > Duration::ZERO, "{location:?}");
        }
        // Its GPU memory is host memory, so the times would decide nothing.
        assert_eq!(allocator.faster_for_waits().expect("a location"), MemoryLocation::Host);
    }
}
