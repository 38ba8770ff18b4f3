//! Compares received words with those sent, at the destination and by another engine than the one that moved them.
//!
//! With a wrong IOMMU or ACS setting CUDA reports success and delivers zeros, so a successful call proves nothing. A kernel of the
//! destination GPU checks copies of a copy engine; a copy to the host and the CPU check copies of a kernel.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu::{DeviceMemory, Error, HostMemory, Pattern, Stream};

/// Bytes compared at a time, so that a large buffer needs no second one of its size.
const BLOCK: usize = 1 << 20;
/// Bytes read from a GPU at a time.
const CHUNK: usize = 16 << 20;
/// More CPUs than this saturate the memory.
const MAX_CPUS: usize = 8;
/// Fills a buffer before something is read into it: neither zero nor a word of a pattern.
pub const UNTOUCHED: u8 = 0xa5;
/// Rounds for each verified size, each with new words.
pub const ROUNDS: u32 = 3;
/// The next step for a person, after wrong words.
pub const LOOK_AT: &str = "CUDA reported success: see gdr doctor --only pcie.iommu,pcie.acs, and the kernel's log for IOMMU faults";

/// Wrong words in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// Offset of the first wrong word, in bytes.
    pub at: u64,
    pub expected: u32,
    pub found: u32,
    /// Number of wrong words.
    pub words: u64,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at offset {:#x} {:#010x} was expected and {:#010x} found",
            self.at, self.expected, self.found
        )?;
        match self.words {
            0 | 1 => Ok(()),
            words => write!(f, ", {words} words are wrong"),
        }
    }
}

impl Wrong {
    /// The message, with the next step.
    pub fn advice(&self) -> String {
        format!("{self}. {LOOK_AT}")
    }
}

/// A new seed for each round of a process, so that data of an earlier round is wrong in a later one.
#[derive(Debug, Default)]
pub struct Seeds(Cell<u64>);

impl Seeds {
    pub fn next(&self) -> Pattern {
        self.0.set(self.0.get() + 1);
        Pattern::new(self.0.get())
    }
}

/// Writes a pattern with a kernel of the memory's own GPU, and waits for it.
pub fn fill(
    stream: &Stream,
    memory: &DeviceMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<(), Error> {
    stream.fill_pattern(memory, 0, bytes, pattern, 0)?;
    stream.synchronize()
}

/// Writes a pattern with the CPU.
pub fn fill_host(memory: &HostMemory, bytes: usize, pattern: Pattern) -> Result<(), Error> {
    by_blocks(bytes, &|start, block| {
        pattern.fill(block, (start / 4) as u64);
        memory.write(start, block)?;
        Ok(None)
    })
    .map(drop)
}

/// Compares with a kernel of the stream's GPU, which owns the memory.
pub fn by_kernel(
    stream: &Stream,
    memory: &DeviceMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<Option<Wrong>, Error> {
    let found = match stream.check_pattern(memory, 0, bytes, pattern, 0) {
        Ok(found) => found,
        // The check's result was lost on its way to the host; the copy engine locates the lost words.
        Err(error @ Error::Finding { .. }) => {
            return match by_engine(stream, memory, bytes, pattern)? {
                None => Err(error),
                wrong => Ok(wrong),
            };
        }
        Err(error) => return Err(error),
    };
    let Some(first) = found.first else {
        return Ok(None);
    };
    let mut word = [0; 4];
    stream.read(memory, first as usize * 4, &mut word)?;
    Ok(Some(Wrong {
        at: first * 4,
        expected: pattern.word(first),
        found: u32::from_le_bytes(word),
        words: found.words,
    }))
}

/// Compares with the CPU what the copy engine of the stream's GPU reads.
pub fn by_engine(
    stream: &Stream,
    memory: &DeviceMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<Option<Wrong>, Error> {
    let mut wrong = None;
    let mut chunk = vec![0; CHUNK.min(bytes)];
    for start in (0..bytes).step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(bytes - start)];
        // A read that does nothing must not pass.
        chunk.fill(UNTOUCHED);
        stream.read(memory, start, chunk)?;
        let chunk = &*chunk;
        let found = by_blocks(chunk.len(), &|at, block| {
            block.copy_from_slice(&chunk[at..at + block.len()]);
            Ok(differing(start + at, block, pattern))
        })?;
        wrong = merged(wrong, found);
    }
    Ok(wrong)
}

/// Compares host memory with the CPU.
pub fn by_host(
    memory: &HostMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<Option<Wrong>, Error> {
    by_blocks(bytes, &|start, block| {
        block.fill(UNTOUCHED);
        memory.read(start, block)?;
        Ok(differing(start, block, pattern))
    })
}

/// Compares a slice.
pub fn by_slice(found: &[u8], pattern: Pattern) -> Result<Option<Wrong>, Error> {
    by_blocks(found.len(), &|start, block| {
        block.copy_from_slice(&found[start..start + block.len()]);
        Ok(differing(start, block, pattern))
    })
}

/// Works on a block, given its offset and a buffer of its length.
type OnBlock<'a> = dyn Fn(usize, &mut [u8]) -> Result<Option<Wrong>, Error> + Sync + 'a;

/// Works on `bytes` in blocks, on several CPUs.
fn by_blocks(bytes: usize, work: &OnBlock<'_>) -> Result<Option<Wrong>, Error> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Option<Wrong>, Error> {
        let (mut wrong, mut buffer) = (None, vec![0; BLOCK.min(bytes)]);
        loop {
            let start = next.fetch_add(BLOCK, Ordering::Relaxed);
            if start >= bytes {
                return Ok(wrong);
            }
            let block = &mut buffer[..BLOCK.min(bytes - start)];
            wrong = merged(wrong, work(start, block)?);
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let others = bytes.div_ceil(BLOCK).min(cpus).min(MAX_CPUS).saturating_sub(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(worker)).collect();
        others.into_iter().try_fold(worker()?, |wrong, other| match other.join() {
            Ok(found) => Ok(merged(wrong, found?)),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// The wrong words of a block at offset `start`.
fn differing(start: usize, block: &[u8], pattern: Pattern) -> Option<Wrong> {
    if pattern.matches(block, (start / 4) as u64) {
        return None;
    }
    let mut wrong: Option<Wrong> = None;
    for (index, word) in ((start / 4) as u64..).zip(block.chunks_exact(4)) {
        let (expected, found) = (pattern.word(index), word_of(word));
        if expected != found {
            let first = Wrong { at: index * 4, expected, found, words: 0 };
            wrong.get_or_insert(first).words += 1;
        }
    }
    wrong
}

/// The first of both, with the sum of the counts.
fn merged(one: Option<Wrong>, other: Option<Wrong>) -> Option<Wrong> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Wrong {
            words: one.words + other.words,
            ..if one.at < other.at { one } else { other }
        }),
        (one, other) => one.or(other),
    }
}

fn word_of(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(bytes);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use gpu::{Allocation, Gpu};

    use super::*;

    /// More than one block, but not a multiple.
    const BYTES: usize = BLOCK + 4096;

    #[test]
    fn each_comparison_locates_wrong_words() {
        let gpu = Gpu::sim();
        let stream = gpu.stream().expect("a stream");
        let memory = gpu.allocate(Allocation::Malloc, BYTES).expect("memory");
        let host = gpu.pageable(BYTES).expect("memory");
        let pattern = Pattern::new(9);
        fill(&stream, &memory, BYTES, pattern).expect("filled");
        fill_host(&host, BYTES, pattern).expect("filled");
        let compare = || {
            [
                by_kernel(&stream, &memory, BYTES, pattern).expect("compared"),
                by_engine(&stream, &memory, BYTES, pattern).expect("compared"),
                by_host(&host, BYTES, pattern).expect("compared"),
            ]
        };
        assert_eq!(compare(), [None; 3]);
        for offset in [BYTES - 4, BLOCK, BLOCK - 4] {
            stream.write(&memory, offset, &[1, 0, 0, 0]).expect("written");
            host.write(offset, &[1, 0, 0, 0]).expect("written");
        }
        let wrong = Wrong {
            at: BLOCK as u64 - 4,
            expected: pattern.word(BLOCK as u64 / 4 - 1),
            found: 1,
            words: 3,
        };
        assert_eq!(compare(), [Some(wrong); 3]);
        let text = wrong.to_string();
        assert!(
            text.starts_with("at offset 0xffffc 0x")
                && text.ends_with("0x00000001 found, 3 words are wrong"),
            "{text}"
        );
    }
}
