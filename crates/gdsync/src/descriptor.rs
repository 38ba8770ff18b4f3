//! What is done in order: words that are written, words that are waited for, barriers. A list of descriptors becomes as few
//! steps as say the same, which a stream does in one batch, or the CPU one after the other.
//!
//! Everything here is pure: it knows neither streams nor memory. `A` is where a word is, in the terms of whoever does the steps.

use gpu::Compare;

/// The longest memory that is written by value: what CUDA's own descriptor carried at most.
pub const MOST_BYTES: usize = 1024;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descriptor<A> {
    /// Writes 32 bits, at a multiple of 4 bytes. With `barrier`, what the list wrote before is visible to the whole system first.
    Write32 {
        /// Where.
        at: A,
        /// What.
        value: u32,
        /// Whether a barrier comes first.
        barrier: bool,
    },
    /// Writes 64 bits, at a multiple of 8 bytes, likewise.
    Write64 {
        /// Where.
        at: A,
        /// What.
        value: u64,
        /// Whether a barrier comes first.
        barrier: bool,
    },
    /// Waits for a word of 32 bits. With `flush`, what third parties wrote over PCIe before is visible to the GPU afterwards.
    Wait32 {
        /// Where.
        at: A,
        /// What it is compared with.
        value: u32,
        /// How.
        compare: Compare,
        /// Whether remote writes are flushed afterwards.
        flush: bool,
    },
    /// Waits for a word of 64 bits, likewise.
    Wait64 {
        /// Where.
        at: A,
        /// What it is compared with.
        value: u64,
        /// How.
        compare: Compare,
        /// Whether remote writes are flushed afterwards.
        flush: bool,
    },
    /// Writes bytes that were there when the descriptor was made, at most [`MOST_BYTES`].
    Write {
        /// Where: at a multiple of 4 bytes.
        at: A,
        /// What: a multiple of 4 bytes.
        bytes: Vec<u8>,
        /// A barrier first.
        before: bool,
        /// A barrier afterwards.
        after: bool,
    },
    /// What the list wrote before is visible to the whole system before what it writes afterwards.
    Barrier,
    /// What third parties wrote over PCIe is visible to the GPU.
    FlushRemoteWrites,
}

/// What a GPU's streams can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Words of 64 bits.
    pub words_of_64_bits: bool,
    /// Waits by [`Compare::Nor`].
    pub nor: bool,
    /// Flushes of remote writes. Where there are none, a GPU orders them itself or offers no such order at all.
    pub flush: bool,
}

impl Capabilities {
    /// All of them: the CPU's.
    pub const ALL: Self = Self {
        words_of_64_bits: true,
        nor: true,
        flush: true,
    };
}

/// A step of a list that was made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<A> {
    /// Writes 32 bits.
    Write32(A, u32),
    /// Writes 64 bits.
    Write64(A, u64),
    /// Waits for 32 bits, and flushes.
    Wait32(A, u32, Compare, bool),
    /// Waits for 64 bits, and flushes.
    Wait64(A, u64, Compare, bool),
    /// A barrier of the whole system.
    Barrier,
    /// A flush of remote writes.
    Flush,
}

/// Why a list cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The GPU has no words of 64 bits for streams.
    #[error("descriptor {0}: this GPU's streams wait for no words of 64 bits")]
    Words(usize),
    /// The GPU cannot wait by NOR.
    #[error("descriptor {0}: this GPU's streams do not wait by NOR, which Volta and later do")]
    Nor(usize),
    /// Bytes are none, too many, or not whole words.
    #[error(
        "descriptor {position}: {bytes} bytes are written by value: 4 to 1024 are, in words of 4"
    )]
    Bytes {
        /// Which.
        position: usize,
        /// How many.
        bytes: usize,
    },
}

/// A place within words: `offset` bytes further on.
pub trait Further: Copy {
    /// The place so many bytes further on.
    #[must_use]
    fn further(self, bytes: usize) -> Self;
}

impl Further for gpu::DevicePtr {
    fn further(self, bytes: usize) -> Self {
        self.offset(bytes as u64)
    }
}

/// The steps of a list, in its order.
///
/// - Bytes become words: there is no public descriptor of CUDA for them.
/// - A barrier is left out where nothing was written since the last one. A write implies one in front on CUDA's side
///   (cuda.h, `CU_STREAM_WRITE_VALUE_DEFAULT`), yet the step stands: the CPU and simulated streams need it.
/// - Where nothing of the list follows that a remote write could be ordered before, the flush is put on the last wait alone: of waits one
///   after the other, the flush after the last covers all.
/// - A flush that the GPU does not have is left out, as CUDA has it for GPUs that need none.
/// - A word of 64 bits that the GPU cannot write becomes two, the lower first.
///
/// # Errors
///
/// [`Impossible`], with the descriptor's position from 0.
pub fn steps<A: Further>(
    list: &[Descriptor<A>],
    can: Capabilities,
) -> Result<Vec<Step<A>>, Impossible> {
    let mut made = Vec::with_capacity(list.len());
    for (position, descriptor) in list.iter().enumerate() {
        one(&mut made, position, descriptor, can)?;
    }
    thin_flushes(&mut made);
    Ok(made)
}

/// The position of the descriptor that a step of [`steps`] came from; the last one's where there are fewer steps.
///
/// # Errors
///
/// As [`steps`].
pub fn origin<A: Further>(
    list: &[Descriptor<A>],
    can: Capabilities,
    step: usize,
) -> Result<usize, Impossible> {
    let mut made = Vec::with_capacity(list.len());
    for (position, descriptor) in list.iter().enumerate() {
        one(&mut made, position, descriptor, can)?;
        if made.len() > step {
            return Ok(position);
        }
    }
    Ok(list.len().saturating_sub(1))
}

fn one<A: Further>(
    made: &mut Vec<Step<A>>,
    position: usize,
    descriptor: &Descriptor<A>,
    can: Capabilities,
) -> Result<(), Impossible> {
    match descriptor {
        Descriptor::Write32 { at, value, barrier } => {
            barrier_if(made, *barrier);
            made.push(Step::Write32(*at, *value));
        }
        Descriptor::Write64 { at, value, barrier } => {
            barrier_if(made, *barrier);
            if can.words_of_64_bits {
                made.push(Step::Write64(*at, *value));
            } else {
                made.push(Step::Write32(*at, *value as u32));
                made.push(Step::Write32(at.further(4), (*value >> 32) as u32));
            }
        }
        Descriptor::Wait32 {
            at,
            value,
            compare,
            flush,
        } => {
            allowed(position, *compare, can)?;
            made.push(Step::Wait32(*at, *value, *compare, *flush && can.flush));
        }
        Descriptor::Wait64 {
            at,
            value,
            compare,
            flush,
        } => {
            allowed(position, *compare, can)?;
            if !can.words_of_64_bits {
                return Err(Impossible::Words(position));
            }
            made.push(Step::Wait64(*at, *value, *compare, *flush && can.flush));
        }
        Descriptor::Write {
            at,
            bytes,
            before,
            after,
        } => {
            let (words, rest) = bytes.as_chunks::<4>();
            if words.is_empty() || !rest.is_empty() || bytes.len() > MOST_BYTES {
                return Err(Impossible::Bytes {
                    position,
                    bytes: bytes.len(),
                });
            }
            barrier_if(made, *before);
            let words = words.iter().enumerate();
            made.extend(words.map(|(number, word)| {
                Step::Write32(at.further(number * 4), u32::from_ne_bytes(*word))
            }));
            barrier_if(made, *after);
        }
        Descriptor::Barrier => barrier_if(made, true),
        Descriptor::FlushRemoteWrites if can.flush => made.push(Step::Flush),
        Descriptor::FlushRemoteWrites => {}
    }
    Ok(())
}

fn allowed(position: usize, compare: Compare, can: Capabilities) -> Result<(), Impossible> {
    match compare == Compare::Nor && !can.nor {
        true => Err(Impossible::Nor(position)),
        false => Ok(()),
    }
}

/// A barrier, where something was written before it. What comes before the list may need one too: its first one stands.
fn barrier_if<A>(made: &mut Vec<Step<A>>, wanted: bool) {
    if wanted && !matches!(made.last(), Some(Step::Barrier)) {
        made.push(Step::Barrier);
    }
}

/// Of waits that follow each other directly, a flush after the last covers what all of them waited for.
fn thin_flushes<A>(made: &mut [Step<A>]) {
    let runs = made.chunk_by_mut(|one, next| flush_of(one).is_some() && flush_of(next).is_some());
    for run in runs {
        let mut wanted = false;
        for step in run.iter_mut() {
            if let Step::Wait32(.., flush) | Step::Wait64(.., flush) = step {
                wanted |= std::mem::take(flush);
            }
        }
        if let Some(Step::Wait32(.., flush) | Step::Wait64(.., flush)) = run.last_mut() {
            *flush = wanted;
        }
    }
}

/// Whether a wait flushes; none of what is no wait.
fn flush_of<A>(step: &Step<A>) -> Option<bool> {
    match step {
        Step::Wait32(.., flush) | Step::Wait64(.., flush) => Some(*flush),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gpu::DevicePtr;

    use super::*;

    fn at(offset: u64) -> DevicePtr {
        DevicePtr::new(0x1000 + offset)
    }

    fn wait(offset: u64, flush: bool) -> Descriptor<DevicePtr> {
        Descriptor::Wait32 {
            at: at(offset),
            value: 7,
            compare: Compare::Geq,
            flush,
        }
    }

    fn waits(offset: u64, flush: bool) -> Step<DevicePtr> {
        Step::Wait32(at(offset), 7, Compare::Geq, flush)
    }

    fn write(offset: u64, barrier: bool) -> Descriptor<DevicePtr> {
        Descriptor::Write32 {
            at: at(offset),
            value: 1,
            barrier,
        }
    }

    #[test]
    fn waits_in_a_row_flush_once_and_a_write_ends_the_row() {
        let list = [
            wait(0, true),
            wait(4, false),
            write(8, false),
            wait(0, true),
            wait(4, true),
        ];
        let made = steps(&list, Capabilities::ALL).expect("possible");
        let write = Step::Write32(at(8), 1);
        assert_eq!(
            made,
            [
                waits(0, false),
                waits(4, true),
                write,
                waits(0, false),
                waits(4, true)
            ]
        );
        let none = Capabilities {
            flush: false,
            ..Capabilities::ALL
        };
        let made = steps(&list, none).expect("possible");
        assert!(made.iter().all(|step| flush_of(step) != Some(true)));
    }

    #[test]
    fn barriers_in_a_row_are_one() {
        let list = [
            Descriptor::Barrier,
            write(0, true),
            Descriptor::Barrier,
            Descriptor::Barrier,
        ];
        let made = steps(&list, Capabilities::ALL).expect("possible");
        assert_eq!(
            made,
            [Step::Barrier, Step::Write32(at(0), 1), Step::Barrier]
        );
    }

    #[test]
    fn bytes_are_words_and_no_others_than_whole_ones() {
        let bytes = |bytes: Vec<u8>| Descriptor::Write {
            at: at(0),
            bytes,
            before: false,
            after: true,
        };
        let word = |value: [u8; 4]| u32::from_ne_bytes(value);
        let made = steps(&[bytes(vec![1, 2, 3, 4, 5, 6, 7, 8])], Capabilities::ALL);
        let wanted = [
            Step::Write32(at(0), word([1, 2, 3, 4])),
            Step::Write32(at(4), word([5, 6, 7, 8])),
            Step::Barrier,
        ];
        assert_eq!(made.expect("possible"), wanted);
        for count in [0, 3, MOST_BYTES + 4] {
            let refused = Impossible::Bytes {
                position: 1,
                bytes: count,
            };
            assert_eq!(
                steps(&[write(0, false), bytes(vec![0; count])], Capabilities::ALL),
                Err(refused)
            );
        }
    }

    #[test]
    fn what_a_gpu_lacks_is_done_otherwise_or_refused() {
        let little = Capabilities {
            words_of_64_bits: false,
            nor: false,
            flush: false,
        };
        let write = Descriptor::Write64 {
            at: at(0),
            value: 0x1122_3344_5566_7788,
            barrier: false,
        };
        let halves = [
            Step::Write32(at(0), 0x5566_7788),
            Step::Write32(at(4), 0x1122_3344),
        ];
        assert_eq!(steps(&[write], little).expect("possible"), halves);
        let wait = Descriptor::Wait64 {
            at: at(0),
            value: 1,
            compare: Compare::Eq,
            flush: false,
        };
        assert_eq!(steps(&[wait], little), Err(Impossible::Words(0)));
        let nor = Descriptor::Wait32 {
            at: at(0),
            value: 1,
            compare: Compare::Nor,
            flush: false,
        };
        assert_eq!(
            steps(&[Descriptor::Barrier, nor], little),
            Err(Impossible::Nor(1))
        );
    }
}
