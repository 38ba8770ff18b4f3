//! A list of descriptors over places, executed by a stream or by the CPU.

use std::time::Duration;

use gpu::{Attribute, Compare, Gpu, MemoryOperation, Stream};

use crate::cpu::{self, Bounds, Reach, Undone};
use crate::descriptor::{Capabilities, Descriptor, Further, Step, steps};
use crate::queue::{self, Prepared, Wait};
use crate::{Error, Place};

/// A word of a program: the index of its place, and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    place: usize,
    offset: usize,
}

impl Further for At {
    fn further(self, bytes: usize) -> Self {
        Self {
            offset: self.offset + bytes,
            ..self
        }
    }
}

/// A list of descriptors. It keeps its places alive and may be posted any number of times.
///
/// ```
/// use gdsync::{MemoryLocation, Program, Allocator};
/// use gpu::{Compare, Gpu};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let allocator = Allocator::new(Gpu::sim(), None);
/// let words = allocator.place(MemoryLocation::Host, 64)?;
/// let mut program = Program::new();
/// program
///     .wait32(&words, 0, 1, Compare::Geq)
///     .write(&words, 16, &[1, 2, 3, 4, 5, 6, 7, 8])
///     .write32(&words, 4, 1);
/// let stream = allocator.gpu().stream()?;
/// program.post(&stream)?;
/// assert!(!stream.is_idle()?);
/// words.store_u32(0, 1)?;
/// stream.synchronize_within(Duration::from_secs(60))?;
/// assert_eq!(words.load_u32(20)?, u32::from_ne_bytes([5, 6, 7, 8]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Program {
    places: Vec<Place>,
    list: Vec<Descriptor<At>>,
}

impl Capabilities {
    /// Reads the stream capabilities of a GPU.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`].
    pub fn of(gpu: &Gpu) -> Result<Self, Error> {
        let has = |attribute| match gpu.attribute(attribute) {
            Ok(value) => Ok(value == Some(1)),
            Err(source) => Err(Error::Gpu {
                operation: "ask what the GPU's streams can do",
                source,
            }),
        };
        Ok(Self {
            words_of_64_bits: has(Attribute::CAN_USE_64_BIT_STREAM_MEM_OPS)?,
            nor: has(Attribute::CAN_USE_STREAM_WAIT_VALUE_NOR)?,
            flush: has(Attribute::CAN_FLUSH_REMOTE_WRITES)?,
        })
    }
}

impl Program {
    /// Creates an empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a 32-bit word.
    pub fn write32(&mut self, place: &Place, offset: usize, value: u32) -> &mut Self {
        let at = self.at(place, offset);
        self.push(Descriptor::Write32 {
            at,
            value,
            barrier: false,
        })
    }

    /// Writes a 64-bit word.
    pub fn write64(&mut self, place: &Place, offset: usize, value: u64) -> &mut Self {
        let at = self.at(place, offset);
        self.push(Descriptor::Write64 {
            at,
            value,
            barrier: false,
        })
    }

    /// Writes bytes, which are copied: 4 to 1024, a multiple of 4.
    pub fn write(&mut self, place: &Place, offset: usize, bytes: &[u8]) -> &mut Self {
        let at = self.at(place, offset);
        self.push(Descriptor::Write {
            at,
            bytes: bytes.to_vec(),
            before: false,
            after: false,
        })
    }

    /// Waits for a 32-bit word.
    pub fn wait32(
        &mut self,
        place: &Place,
        offset: usize,
        value: u32,
        compare: Compare,
    ) -> &mut Self {
        let at = self.at(place, offset);
        self.push(Descriptor::Wait32 {
            at,
            value,
            compare,
            flush: false,
        })
    }

    /// Makes earlier writes visible system-wide before later steps.
    pub fn barrier(&mut self) -> &mut Self {
        self.push(Descriptor::Barrier)
    }

    /// Makes remote PCIe writes visible to the GPU, on GPUs that support this flush.
    pub fn flush_remote_writes(&mut self) -> &mut Self {
        self.push(Descriptor::FlushRemoteWrites)
    }

    /// Rings the doorbell of a prepared WQE.
    pub fn ring(&mut self, prepared: &Prepared) -> &mut Self {
        for step in prepared.steps() {
            match step {
                queue::Step::Write32 { place, value } => self.write32(&place, 0, value),
                queue::Step::Barrier => self.barrier(),
                queue::Step::Write64 { place, value } => self.write64(&place, 0, value),
            };
        }
        self
    }

    /// Waits for a completion, which the CPU can poll afterwards. `flush` makes the NIC's earlier
    /// writes visible to the GPU.
    pub fn wait(&mut self, wait: &Wait, flush: bool) -> &mut Self {
        let (value, compare) = wait.condition();
        let at = self.at(wait.word(), 0);
        self.push(Descriptor::Wait32 {
            at,
            value,
            compare,
            flush,
        });
        self.write32(wait.busy(), 0, 0)
    }

    /// Number of descriptors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if the program has no descriptors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all descriptors and keeps the allocation.
    pub fn clear(&mut self) {
        self.places.clear();
        self.list.clear();
    }

    /// Posts the program to a stream, in as few calls as CUDA allows (255 steps each).
    ///
    /// # Errors
    ///
    /// [`Error::Impossible`] if the GPU lacks a capability: nothing is posted then.
    /// [`Error::Range`], [`Error::Gpu`].
    pub fn post(&self, stream: &Stream) -> Result<(), Error> {
        self.post_to(stream, Capabilities::of(stream.gpu())?)
    }

    /// Like [`Self::post`], with capabilities the caller already knows.
    ///
    /// # Errors
    ///
    /// As [`Self::post`].
    pub fn post_to(&self, stream: &Stream, can: Capabilities) -> Result<(), Error> {
        let batch = self.batch(can)?;
        stream.batch(&batch).map_err(|source| Error::Gpu {
            operation: "put descriptors into a stream",
            source,
        })
    }

    /// Returns the steps as stream operations.
    ///
    /// # Errors
    ///
    /// As [`Self::post`].
    pub fn batch(&self, can: Capabilities) -> Result<Vec<MemoryOperation>, Error> {
        let made = steps(&self.list, can)?;
        let operation = |step: Step<At>| {
            Ok(match step {
                Step::Write32(at, value) => self.of(at).write32(at.offset, value)?,
                Step::Write64(at, value) => self.of(at).write64(at.offset, value)?,
                Step::Wait32(at, value, compare, flush) => {
                    flushed(self.of(at).wait32(at.offset, value, compare)?, flush)
                }
                Step::Wait64(at, value, compare, flush) => {
                    flushed(self.of(at).wait64(at.offset, value, compare)?, flush)
                }
                Step::Barrier => MemoryOperation::barrier(),
                Step::Flush => MemoryOperation::flush_remote_writes(),
            })
        };
        made.into_iter().map(operation).collect()
    }

    /// Runs the program in the calling thread. Each wait may last up to `timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::Impossible`], [`Error::Late`].
    pub fn run(&self, timeout: Duration) -> Result<(), Error> {
        self.run_within(Bounds::of(timeout))
    }

    /// Like [`Self::run`], with waits that can be cancelled.
    ///
    /// # Errors
    ///
    /// [`Error::Impossible`], [`Error::Late`], [`Error::Cancelled`].
    pub fn run_within(&self, bounds: Bounds<'_>) -> Result<(), Error> {
        let made = steps(&self.list, Capabilities::ALL)?;
        cpu::run(&made, self, bounds).map_err(|undone| match undone {
            Undone::Cancelled { step } => Error::Cancelled { step },
            Undone::Word(error) => error,
            Undone::Late {
                step,
                seen,
                compare,
                value,
                waited,
            } => Error::Late {
                step,
                seen,
                compare,
                value,
                waited,
            },
        })
    }

    fn push(&mut self, descriptor: Descriptor<At>) -> &mut Self {
        self.list.push(descriptor);
        self
    }

    /// Returns the index of a place. Programs usually name one place several times in a row.
    fn at(&mut self, place: &Place, offset: usize) -> At {
        let known = self.places.iter().rposition(|known| known.is_same(place));
        let place = known.unwrap_or_else(|| {
            self.places.push(place.clone());
            self.places.len() - 1
        });
        At { place, offset }
    }

    fn of(&self, at: At) -> &Place {
        &self.places[at.place]
    }
}

fn flushed(operation: MemoryOperation, flush: bool) -> MemoryOperation {
    if flush {
        operation.flushed()
    } else {
        operation
    }
}

impl Reach<At> for Program {
    type Error = Error;

    fn load32(&self, at: At) -> Result<u32, Error> {
        self.of(at).load_u32(at.offset)
    }

    fn load64(&self, at: At) -> Result<u64, Error> {
        self.of(at).load_u64(at.offset)
    }

    fn store32(&self, at: At, value: u32) -> Result<(), Error> {
        self.of(at).store_u32(at.offset, value)
    }

    fn store64(&self, at: At, value: u64) -> Result<(), Error> {
        self.of(at).store_u64(at.offset, value)
    }

    fn barrier(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}
