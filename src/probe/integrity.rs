//! Words that arrived, compared with those that were sent, where they arrived and by other means than those that moved them.
//!
//! With a wrong IOMMU or ACS setting CUDA reports success and delivers zeros, so a call that succeeded proves nothing. What a
//! copy engine moved is compared by a kernel of the far GPU; what a kernel moved, by a copy to the host and the CPU.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu::{DeviceMemory, Error, HostMemory, Pattern, Stream};

/// Compared so much at a time, so that a large buffer needs no second one of its size.
const PIECE: usize = 1 << 20;
/// And so much is brought from a GPU at a time.
const PART: usize = 16 << 20;
/// More CPUs than these find the memory busy.
const MOST_CPUS: usize = 8;
/// What is in a buffer before something is read into it.
const UNTOUCHED: u8 = 0xa5;

/// A word that is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// Where the first is, in bytes from the start.
    pub at: u64,
    pub expected: u32,
    pub found: u32,
    /// How many words are wrong in all.
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

/// Seeds that no two rounds of a process share: what an earlier round left behind is wrong in a later one.
#[derive(Debug, Default)]
pub struct Seeds(Cell<u64>);

impl Seeds {
    pub fn next(&self) -> Pattern {
        self.0.set(self.0.get() + 1);
        Pattern::new(self.0.get())
    }
}

/// Writes a pattern by a kernel of the memory's own GPU; done when it returns.
pub fn fill(
    stream: &Stream,
    memory: &DeviceMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<(), Error> {
    stream.fill_pattern(memory, 0, bytes, pattern, 0)?;
    stream.synchronize()
}

/// Writes a pattern by the CPU.
pub fn fill_host(memory: &HostMemory, bytes: usize, pattern: Pattern) -> Result<(), Error> {
    by_pieces(bytes, &|start, piece| {
        pattern.fill(piece, (start / 4) as u64);
        memory.write(start, piece)?;
        Ok(None)
    })
    .map(drop)
}

/// Compares by a kernel of the stream's GPU, whose memory it is.
pub fn by_kernel(
    stream: &Stream,
    memory: &DeviceMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<Option<Wrong>, Error> {
    let found = match stream.check_pattern(memory, 0, bytes, pattern, 0) {
        Ok(found) => found,
        // Copies to the host lose words. What they bring then tells which.
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

/// Compares by the CPU what the copy engine of the stream's GPU brings it.
pub fn by_engine(
    stream: &Stream,
    memory: &DeviceMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<Option<Wrong>, Error> {
    let mut wrong = None;
    let mut part = vec![0; PART.min(bytes)];
    for start in (0..bytes).step_by(PART) {
        let part = &mut part[..PART.min(bytes - start)];
        // No pattern repeats a word: a read that does nothing must not pass.
        part.fill(UNTOUCHED);
        stream.read(memory, start, part)?;
        let part = &*part;
        let found = by_pieces(part.len(), &|at, piece| {
            piece.copy_from_slice(&part[at..at + piece.len()]);
            Ok(differing(start + at, piece, pattern))
        })?;
        wrong = merged(wrong, found);
    }
    Ok(wrong)
}

/// Compares host memory by the CPU.
pub fn by_host(
    memory: &HostMemory,
    bytes: usize,
    pattern: Pattern,
) -> Result<Option<Wrong>, Error> {
    by_pieces(bytes, &|start, piece| {
        piece.fill(UNTOUCHED);
        memory.read(start, piece)?;
        Ok(differing(start, piece, pattern))
    })
}

/// Compares bytes that the CPU has.
pub fn by_slice(found: &[u8], pattern: Pattern) -> Result<Option<Wrong>, Error> {
    by_pieces(found.len(), &|start, piece| {
        piece.copy_from_slice(&found[start..start + piece.len()]);
        Ok(differing(start, piece, pattern))
    })
}

/// What is done with a piece: its place, and a buffer of its length.
type OnPiece<'a> = dyn Fn(usize, &mut [u8]) -> Result<Option<Wrong>, Error> + Sync + 'a;

/// Goes through so many bytes piece by piece, with a few CPUs where there are several pieces.
fn by_pieces(bytes: usize, work: &OnPiece<'_>) -> Result<Option<Wrong>, Error> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Option<Wrong>, Error> {
        let (mut wrong, mut buffer) = (None, vec![0; PIECE.min(bytes)]);
        loop {
            let start = next.fetch_add(PIECE, Ordering::Relaxed);
            if start >= bytes {
                return Ok(wrong);
            }
            let piece = &mut buffer[..PIECE.min(bytes - start)];
            wrong = merged(wrong, work(start, piece)?);
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let others = bytes
        .div_ceil(PIECE)
        .min(cpus)
        .min(MOST_CPUS)
        .saturating_sub(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(worker)).collect();
        others
            .into_iter()
            .try_fold(worker()?, |wrong, other| match other.join() {
                Ok(found) => Ok(merged(wrong, found?)),
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}

/// What differs in a piece that begins there.
fn differing(start: usize, piece: &[u8], pattern: Pattern) -> Option<Wrong> {
    let mut wrong: Option<Wrong> = None;
    for (index, word) in ((start / 4) as u64..).zip(piece.chunks_exact(4)) {
        let (expected, found) = (pattern.word(index), word_of(word));
        if expected != found {
            let first = Wrong {
                at: index * 4,
                expected,
                found,
                words: 0,
            };
            wrong.get_or_insert(first).words += 1;
        }
    }
    wrong
}

/// The first of both, and how many there are in all.
fn merged(one: Option<Wrong>, other: Option<Wrong>) -> Option<Wrong> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Wrong {
            words: one.words + other.words,
            ..if one.at < other.at { one } else { other }
        }),
        (one, other) => one.or(other),
    }
}

/// The word of four bytes.
fn word_of(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(bytes);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use gpu::{Allocation, Gpu};

    use super::*;

    /// Larger than a piece, and no multiple of one.
    const BYTES: usize = PIECE + 4096;

    #[test]
    fn a_wrong_word_is_found_by_each_of_the_three_and_told_where_it_is() {
        let gpu = Gpu::sim();
        let stream = gpu.stream().expect("a stream");
        let memory = gpu.allocate(Allocation::Malloc, BYTES).expect("memory");
        let host = gpu.pageable(BYTES).expect("memory");
        let pattern = Pattern::new(9);
        fill(&stream, &memory, BYTES, pattern).expect("filled");
        fill_host(&host, BYTES, pattern).expect("filled");
        let look = || {
            [
                by_kernel(&stream, &memory, BYTES, pattern).expect("compared"),
                by_engine(&stream, &memory, BYTES, pattern).expect("compared"),
                by_host(&host, BYTES, pattern).expect("compared"),
            ]
        };
        assert_eq!(look(), [None; 3]);
        for offset in [BYTES - 4, PIECE, PIECE - 4] {
            stream
                .write(&memory, offset, &[1, 0, 0, 0])
                .expect("written");
            host.write(offset, &[1, 0, 0, 0]).expect("written");
        }
        let wrong = Wrong {
            at: PIECE as u64 - 4,
            expected: pattern.word(PIECE as u64 / 4 - 1),
            found: 1,
            words: 3,
        };
        assert_eq!(look(), [Some(wrong); 3]);
        let words = wrong.to_string();
        assert!(
            words.starts_with("at offset 0xffffc 0x")
                && words.ends_with("0x00000001 found, 3 words are wrong"),
            "{words}"
        );
    }
}
