//! A list of memory operations on places, executed by a stream or by the CPU.

use std::time::Duration;

use gpu::{Compare, MemOp, Stream, StreamCapabilities};

use crate::cpu::{self, Bounds, CpuWord};
use crate::lower::{self, Offset};
use crate::queue::{Prepared, Wait};
use crate::{Error, MappedMemory};

/// A word of a program. Its range is checked on use.
#[derive(Debug, Clone)]
struct At {
    place: MappedMemory,
    offset: usize,
}

impl Offset for At {
    fn offset(&self, bytes: usize) -> Self {
        let (place, offset) = (self.place.clone(), self.offset + bytes);
        Self { place, offset }
    }
}

/// A list of memory operations. It keeps its places alive and can be posted repeatedly.
///
/// ```
/// use gdsync::{Allocator, MemoryLocation, Program};
/// use gpu::{Compare, Gpu};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let allocator = Allocator::new(Gpu::sim(), None);
/// let words = allocator.place(MemoryLocation::Host, 64)?;
/// let mut program = Program::new();
/// program
///     .wait32(&words, 0, 1, Compare::Geq)
///     .write(&words, 16, &[1, 2, 3, 4, 5, 6, 7, 8])?
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
    ops: Vec<MemOp<At>>,
}

impl Program {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a 32-bit word.
    pub fn write32(&mut self, place: &MappedMemory, offset: usize, value: u32) -> &mut Self {
        let at = at(place, offset);
        self.push(MemOp::Write32 { at, value })
    }

    /// Writes a 64-bit word.
    pub fn write64(&mut self, place: &MappedMemory, offset: usize, value: u64) -> &mut Self {
        let at = at(place, offset);
        self.push(MemOp::Write64 { at, value })
    }

    /// Writes a copy of `bytes`: 4 to 1024, a multiple of 4.
    ///
    /// # Errors
    ///
    /// [`Error::Bytes`] for another length; the program is unchanged.
    pub fn write(
        &mut self,
        place: &MappedMemory,
        offset: usize,
        bytes: &[u8],
    ) -> Result<&mut Self, Error> {
        let count = bytes.len();
        let words = lower::words(at(place, offset), bytes).ok_or(Error::Bytes { count })?;
        self.ops.extend(words);
        Ok(self)
    }

    /// Waits for a 32-bit word.
    pub fn wait32(
        &mut self,
        place: &MappedMemory,
        offset: usize,
        value: u32,
        compare: Compare,
    ) -> &mut Self {
        self.push(MemOp::Wait32 { at: at(place, offset), value, compare, flush: false })
    }

    /// Makes earlier writes visible to the whole system before later ones.
    pub fn barrier(&mut self) -> &mut Self {
        self.push(MemOp::Barrier)
    }

    /// Makes other devices' PCIe writes visible to the GPU, on GPUs that have such a flush.
    pub fn flush_remote_writes(&mut self) -> &mut Self {
        self.push(MemOp::FlushRemoteWrites)
    }

    /// Rings the doorbell of a prepared WQE.
    pub fn ring(&mut self, prepared: &Prepared) -> &mut Self {
        self.extend(prepared.ops())
    }

    /// Waits for a completion, then lets the CPU poll it. `flush` makes the NIC's earlier writes visible to the GPU.
    pub fn wait(&mut self, wait: &Wait, flush: bool) -> &mut Self {
        self.until(wait, flush).release(wait)
    }

    /// [`Self::wait`] without letting the CPU poll: operations that are urgent come before [`Self::release`].
    pub fn until(&mut self, wait: &Wait, flush: bool) -> &mut Self {
        let [op, _] = wait.ops(flush);
        self.extend([op])
    }

    /// Lets the CPU poll the completion of an earlier [`Self::until`].
    pub fn release(&mut self, wait: &Wait) -> &mut Self {
        let [_, busy] = wait.ops(false);
        self.extend([busy])
    }

    /// The number of memory operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Removes all operations but keeps the capacity.
    pub fn clear(&mut self) {
        self.ops.clear();
    }

    /// Enqueues all operations on a stream, in as few calls as CUDA allows (255 operations each).
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for operations that the GPU lacks: nothing was enqueued. [`Error::Range`], [`Error::Gpu`].
    pub fn post(&self, stream: &Stream) -> Result<(), Error> {
        let can = StreamCapabilities::of(stream.gpu()).map_err(|source| Error::Gpu {
            operation: "read what the GPU's streams support",
            source,
        })?;
        self.post_to(stream, can)
    }

    /// [`Self::post`] with known capabilities.
    ///
    /// # Errors
    ///
    /// As [`Self::post`].
    pub fn post_to(&self, stream: &Stream, can: StreamCapabilities) -> Result<(), Error> {
        stream.batch(&self.lowered(can)?).map_err(|source| Error::Gpu {
            operation: "enqueue memory operations on a stream",
            source,
        })
    }

    /// The operations for streams with these capabilities.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`], [`Error::Range`]; [`Error::Gpu`] for places that the GPU cannot access.
    pub fn lowered(&self, can: StreamCapabilities) -> Result<Vec<MemOp>, Error> {
        let ops = lower::lower(&self.ops, can)?.into_owned().into_iter();
        ops.map(|op| op.try_map(|at, bytes| at.place.word(at.offset, bytes))).collect()
    }

    /// Executes all operations on the CPU, in the calling thread. `timeout` limits each wait.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`], [`Error::Range`].
    pub fn run(&self, timeout: Duration) -> Result<(), Error> {
        self.run_within(Bounds::of(timeout))
    }

    /// [`Self::run`] with waits that can be cancelled.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_within(&self, bounds: Bounds<'_>) -> Result<(), Error> {
        cpu::run(&self.ops, bounds)
    }

    fn push(&mut self, op: MemOp<At>) -> &mut Self {
        self.ops.push(op);
        self
    }

    fn extend(&mut self, ops: impl IntoIterator<Item = MemOp<MappedMemory>>) -> &mut Self {
        let ops = ops.into_iter();
        self.ops.extend(ops.map(|op| op.map(|place| At { place, offset: 0 })));
        self
    }
}

fn at(place: &MappedMemory, offset: usize) -> At {
    let place = place.clone();
    At { place, offset }
}

impl CpuWord for At {
    type Error = Error;

    fn load32(&self) -> Result<u32, Error> {
        self.place.load_u32(self.offset)
    }

    fn load64(&self) -> Result<u64, Error> {
        self.place.load_u64(self.offset)
    }

    fn store32(&self, value: u32) -> Result<(), Error> {
        self.place.store_u32(self.offset, value)
    }

    fn store64(&self, value: u64) -> Result<(), Error> {
        self.place.store_u64(self.offset, value)
    }

    fn barrier() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}
