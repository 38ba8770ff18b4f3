//! Kernel launches, with their argument checks. Memory of another GPU needs
//! [`PeerAccess`](crate::PeerAccess), which the stream holds until it is synchronised.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Stream;
use crate::backend::{Kernel, Perform, Work};
use crate::memory::{Held, Memory, aligned};
use crate::pattern::Mismatches;
use crate::{
    Allocation, Compare, DeviceMemory, DevicePtr, Error, HostMemory, MemOp, Pattern, peer,
};

/// Timeout of each ping-pong wait, so that a dead peer does not hang the GPU.
const PING_PONG_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes per load and store of `copy_words`.
const VECTOR: usize = 16;

impl Stream {
    /// Launches a kernel that writes the pattern from word `first` to `bytes` bytes. Offset and
    /// length are multiples of 4.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Peer`], [`Error::Kernel`],
    /// [`Error::Abandoned`].
    pub fn fill_pattern(
        &self,
        memory: &DeviceMemory,
        offset: usize,
        bytes: usize,
        pattern: Pattern,
        first: u64,
    ) -> Result<(), Error> {
        let to = memory.range(offset, bytes)?;
        aligned(to.get(), 4)?;
        aligned(bytes as u64, 4)?;
        let kernel = Kernel::FillPattern { to, words: bytes as u64 / 4, pattern, first };
        self.launch(&[memory.held()], Work::Launch(kernel))
    }

    /// Compares `bytes` bytes with the pattern from word `first` on the GPU, and waits. The result
    /// is copied on a separate path that simulated [faults](crate::sim::Fault) do not affect.
    ///
    /// # Errors
    ///
    /// As [`Self::fill_pattern`], and [`Error::Allocate`] for the 16 bytes of the result.
    pub fn check_pattern(
        &self,
        memory: &DeviceMemory,
        offset: usize,
        bytes: usize,
        pattern: Pattern,
        first: u64,
    ) -> Result<Mismatches, Error> {
        let result = self.gpu.allocate(Allocation::Malloc, Check::BYTES)?;
        let check = self.start_check(memory, (offset, bytes), (pattern, first), &result, 0)?;
        // All ones is never a valid result: a copy that does nothing must fail the check.
        let mut found = [0xff; Check::BYTES];
        let finding =
            Work::Finding { to: found.as_mut_ptr(), from: result.address(), bytes: found.len() };
        // SAFETY: `found` is ours, and this returns after the stream finished with it or failed.
        unsafe { self.enqueue_now(&[result.held()], finding) }?;
        check.finding(found)
    }

    /// Enqueues a comparison of the range (offset, bytes) with the pattern, without waiting. The
    /// stream writes its result to the [`Check::BYTES`] bytes at `at` of `results`: decode it with
    /// [`Check::finding`].
    ///
    /// # Errors
    ///
    /// As [`Self::fill_pattern`].
    pub fn start_check(
        &self,
        memory: &DeviceMemory,
        (offset, bytes): (usize, usize),
        (pattern, first): (Pattern, u64),
        results: &DeviceMemory,
        at: usize,
    ) -> Result<Check, Error> {
        let from = memory.range(offset, bytes)?;
        aligned(from.get(), 4)?;
        aligned(bytes as u64, 4)?;
        let result = results.range(at, Check::BYTES)?;
        aligned(result.get(), 8)?;
        let check = Check {
            words: bytes as u64 / 4,
            // Odd and below 2³¹: distinguishes this result from zeros and stale results.
            mark: MARK.fetch_add(2, Ordering::Relaxed) % (1 << 31),
        };
        let kernel = Kernel::CheckPattern {
            from,
            words: check.words,
            pattern,
            first,
            result,
            mark: check.mark,
        };
        self.launch(&[memory.held(), results.held()], Work::Launch(kernel))?;
        Ok(check)
    }

    /// Launches a copy kernel with 16-byte loads and stores: pull from or push to peer memory, or
    /// copy between GPU and pinned or registered host memory. Addresses and `bytes` are multiples
    /// of 16; overlapping ranges give undefined contents. One block of 512 threads runs on each
    /// multiprocessor, with twelve loads per thread in flight.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`], [`Error::Peer`],
    /// [`Error::Kernel`], [`Error::Abandoned`].
    pub fn copy_words(
        &self,
        to: &impl Memory,
        to_offset: usize,
        from: &impl Memory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let (to_address, from_address) =
            (to.range(to_offset, bytes)?, from.range(from_offset, bytes)?);
        for number in [to_address.get(), from_address.get(), bytes as u64] {
            aligned(number, VECTOR)?;
        }
        let held = [to.held(), from.held()];
        let work = Work::CopyWords {
            to: to_address,
            from: from_address,
            vectors: (bytes / VECTOR) as u64,
            keeper: &held[0],
        };
        self.launch(&held, work)
    }

    /// Launches a pointer-chase kernel: the word at `start_offset` of `list` holds the byte offset
    /// of the next word, and so on for `hops` hops; the last offset is written to the first 8 bytes
    /// of `result`. Every load goes to memory, so time over `hops` is the latency. One thread runs
    /// in block `block` of as many blocks as multiprocessors, to measure each multiprocessor in
    /// turn.
    ///
    /// The list size is a power of two. An invalid offset is wrapped into the list, and the result
    /// becomes `u64::MAX`.
    ///
    /// # Errors
    ///
    /// [`Error::List`], [`Error::Range`], [`Error::Misaligned`], [`Error::Block`],
    /// [`Error::Pageable`], [`Error::Peer`], [`Error::Kernel`], [`Error::Abandoned`].
    pub fn chase(
        &self,
        list: &impl Memory,
        start_offset: usize,
        hops: u32,
        block: u32,
        result: &DeviceMemory,
    ) -> Result<(), Error> {
        list.word(start_offset, 8)?;
        let first = list.word(0, 8)?;
        let bytes = list.size();
        let mask = u32::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two());
        let mask = mask.and_then(|bytes| bytes.checked_sub(8)).ok_or(Error::List { bytes })?;
        let multiprocessors = self.gpu.multiprocessors()?;
        if block >= multiprocessors {
            return Err(Error::Block { block, multiprocessors });
        }
        let kernel = Kernel::Chase {
            list: first,
            // The list is smaller than 4 GiB.
            start: start_offset as u32,
            hops,
            block,
            result: result.word(0, 8)?,
            mask,
        };
        self.launch(&[list.held(), result.held()], Work::Launch(kernel))
    }

    /// Launches a kernel that waits until the first 32-bit word of `gate` is nonzero or `timeout`
    /// expires, so that work can be queued behind it. A driver queues about a thousand operations;
    /// further enqueues block.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`], [`Error::Kernel`],
    /// [`Error::Abandoned`].
    pub fn hold(&self, gate: &HostMemory, timeout: Duration) -> Result<(), Error> {
        let kernel = Kernel::Hold { gate: gate.word(0, 4)?, limit: timeout };
        self.launch(&[gate.held()], Work::Launch(kernel))
    }

    /// Copies memory operations to the GPU for [`Self::perform`], and waits for that. A wait of more than `timeout` ends the kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] for a wait for 64 bits; [`Error::Allocate`], [`Error::Copy`], [`Error::Abandoned`].
    pub fn load(&self, operations: &[MemOp], timeout: Duration) -> Result<Operations, Error> {
        let mut held = Vec::new();
        let ops = operations.iter().map(|op| op.address(&mut held));
        let ops = ops.collect::<Result<Vec<_>, _>>()?;
        let bytes = ops.iter().map(encoded).collect::<Result<Vec<_>, _>>()?;
        let bytes = bytes.concat();
        let length = bytes.len().max(ENCODED);
        let list = self.gpu.allocate(Allocation::Malloc, length)?;
        self.write(&list, 0, &bytes)?;
        let result = self.gpu.pinned(4)?;
        held.extend([list.held(), result.held()]);
        Ok(Operations { ops, held, list, result, timeout })
    }

    /// Launches a kernel that performs memory operations in order, as a program's kernel that drives a NIC itself does. Barriers alone order
    /// writes; flushes are barriers.
    ///
    /// # Errors
    ///
    /// [`Error::Kernel`], [`Error::Abandoned`].
    pub fn perform(&self, operations: &Operations) -> Result<(), Error> {
        operations.result.store_u32(0, 0)?;
        let perform = Perform {
            ops: &operations.ops,
            list: operations.list.word(0, 8)?,
            result: operations.result.word(0, 4)?,
            limit: operations.timeout,
        };
        self.launch(&operations.held, Work::Perform(perform))
    }

    /// Launches the ping-pong kernel: for i = 1 to `rounds`, waits until the first 32-bit word of
    /// `flag` is i, then writes i to the first word of `reply`. A flag of `u32::MAX`, or a
    /// ten-second timeout, ends it early with `u32::MAX` in `reply`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`], [`Error::Peer`],
    /// [`Error::Kernel`], [`Error::Abandoned`].
    pub fn ping_pong(
        &self,
        flag: &(impl Memory + ?Sized),
        reply: &(impl Memory + ?Sized),
        rounds: u32,
    ) -> Result<(), Error> {
        let kernel = Kernel::PingPong {
            flag: flag.word(0, 4)?,
            reply: reply.word(0, 4)?,
            rounds,
            limit: PING_PONG_TIMEOUT,
        };
        self.launch(&[flag.held(), reply.held()], Work::Launch(kernel))
    }

    /// Launches [`Self::ping_pong`] with data, by blocks of threads: for i = 1 to `rounds`, block b
    /// waits until word b of `flags` is i, compares its share of `data` with [`data_word`]`(i)`, and
    /// writes i to word b of `replies`, or [`WRONG_DATA`]. There is one flag and one reply per block.
    /// A flag of `u32::MAX`, or a ten-second timeout, ends a block with `u32::MAX` as its reply.
    ///
    /// # Errors
    ///
    /// As [`Self::ping_pong`]; [`Error::Block`] for more blocks than multiprocessors, because blocks
    /// that wait for others to end would never answer; [`Error::Range`] if there are fewer flags or
    /// replies than blocks.
    pub fn ping_pong_data(
        &self,
        flags: &(impl Memory + ?Sized),
        replies: &(impl Memory + ?Sized),
        data: &(impl Memory + ?Sized),
        shape: Shape,
    ) -> Result<(), Error> {
        self.data_rounds((flags, replies, data), shape, false)
    }

    /// Launches [`Self::ping`] with data, by blocks of threads: for i = 1 to `rounds`, block b fills
    /// its share of `data` with [`data_word`]`(i)`, writes i to word b of `replies`, and waits until
    /// word b of `flags` is i. It ends early as [`Self::ping_pong_data`] does.
    ///
    /// # Errors
    ///
    /// As [`Self::ping_pong_data`].
    pub fn ping_data(
        &self,
        flags: &(impl Memory + ?Sized),
        replies: &(impl Memory + ?Sized),
        data: &(impl Memory + ?Sized),
        shape: Shape,
    ) -> Result<(), Error> {
        self.data_rounds((flags, replies, data), shape, true)
    }

    fn data_rounds(
        &self,
        (flags, replies, data): (
            &(impl Memory + ?Sized),
            &(impl Memory + ?Sized),
            &(impl Memory + ?Sized),
        ),
        shape: Shape,
        writes: bool,
    ) -> Result<(), Error> {
        let Shape { blocks, threads, rounds } = shape;
        let multiprocessors = self.gpu.multiprocessors()?;
        if blocks > multiprocessors {
            return Err(Error::Block { block: blocks - 1, multiprocessors });
        }
        let words = data.size() / 4;
        let kernel = Kernel::PingPongData {
            flags: aligned_range(flags, blocks as usize * 4)?,
            replies: aligned_range(replies, blocks as usize * 4)?,
            rounds,
            limit: PING_PONG_TIMEOUT,
            data: aligned_range(data, words * 4)?,
            words: words as u64,
            blocks,
            threads,
            writes,
        };
        let held = [flags.held(), replies.held(), data.held()];
        self.launch(&held, Work::Launch(kernel))
    }

    /// Launches the opposite end of [`Self::ping_pong`]: for i = 1 to `rounds`, writes i to the
    /// first 32-bit word of `theirs`, then waits until the first word of `ours` is i. `u32::MAX` in
    /// the word, or a ten-second timeout, ends it early with `u32::MAX` in `theirs`. Both words
    /// must be 0 at the start.
    ///
    /// # Errors
    ///
    /// As [`Self::ping_pong`].
    pub fn ping(
        &self,
        ours: &(impl Memory + ?Sized),
        theirs: &(impl Memory + ?Sized),
        rounds: u32,
    ) -> Result<(), Error> {
        let kernel = Kernel::Ping {
            ours: ours.word(0, 4)?,
            theirs: theirs.word(0, 4)?,
            rounds,
            limit: PING_PONG_TIMEOUT,
        };
        self.launch(&[ours.held(), theirs.held()], Work::Launch(kernel))
    }

    /// Enqueues a kernel and holds the peer access it needs.
    pub(super) fn launch(&self, memory: &[Held], work: Work<'_>) -> Result<(), Error> {
        self.check_world(memory)?;
        let mut held = memory.to_vec();
        for memory in memory {
            held.extend(peer::needed(&self.gpu, memory)?);
        }
        self.enqueue(&held, work)
    }
}

/// Blocks, threads per block and rounds of [`Stream::ping_pong_data`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of blocks, at most one per multiprocessor.
    pub blocks: u32,
    /// Threads per block, 1 to 1024.
    pub threads: u32,
    /// Number of rounds.
    pub rounds: u32,
}

/// Reply of [`Stream::ping_pong_data`] to data that is not that of the round.
pub const WRONG_DATA: u32 = u32::MAX - 1;

/// Every word of the data of a round of [`Stream::ping_pong_data`]. It differs from the round before.
#[must_use]
pub fn data_word(round: u32) -> u32 {
    match round % 2 {
        1 => 0x5a5a_5a5a,
        _ => 0xa5a5_a5a5,
    }
}

/// Memory operations for a kernel, in GPU memory.
#[derive(Debug)]
pub struct Operations {
    ops: Vec<MemOp<DevicePtr>>,
    held: Vec<Held>,
    list: DeviceMemory,
    result: HostMemory,
    timeout: Duration,
}

impl Operations {
    /// The position of the wait that took too long, in the last run, which has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Finding`] if no run has ended.
    pub fn late(&self) -> Result<Option<usize>, Error> {
        const LATE: u32 = 1 << 31;
        let (seen, count) = (self.result.load_u32(0)?, self.ops.len());
        match seen {
            seen if seen as usize == count => Ok(None),
            seen if seen & LATE != 0 => Ok(Some((seen & !LATE) as usize)),
            seen => Err(Error::Finding { count: seen.into(), position: 0, words: count as u64 }),
        }
    }
}

/// Bytes of an operation.
const ENCODED: usize = 24;

/// An operation as `perform` in `kernels.ptx` reads it.
fn encoded(op: &MemOp<DevicePtr>) -> Result<[u8; ENCODED], Error> {
    let (code, value, address) = match *op {
        MemOp::Write32 { at, value } => (0, value.into(), at.get()),
        MemOp::Write64 { at, value } => (1, value, at.get()),
        MemOp::Wait32 { at, value, compare, .. } => {
            let code = match compare {
                Compare::Geq => 2,
                Compare::Eq => 3,
                Compare::And => 4,
                Compare::Nor => 5,
            };
            (code, value.into(), at.get())
        }
        MemOp::Wait64 { .. } => {
            return Err(Error::Range { offset: 0, bytes: 8, size: 4 });
        }
        MemOp::Barrier | MemOp::FlushRemoteWrites => (6_u64, 0_u64, 0),
    };
    let mut bytes = [0; ENCODED];
    let words = [code, value, address].map(u64::to_le_bytes);
    bytes.copy_from_slice(words.as_flattened());
    Ok(bytes)
}

/// Address of the first `bytes` bytes, of aligned words.
fn aligned_range(memory: &(impl Memory + ?Sized), bytes: usize) -> Result<DevicePtr, Error> {
    let address = memory.range(0, bytes)?;
    aligned(address.get(), 4)?;
    Ok(address)
}

/// A comparison in progress, which recognises its own result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "its result must be read"]
pub struct Check {
    words: u64,
    mark: u32,
}

impl Check {
    /// Result size in bytes; results are aligned to 8.
    pub const BYTES: usize = 16;

    /// Decodes a result.
    ///
    /// # Errors
    ///
    /// [`Error::Finding`] if the bytes are not this comparison's result: it is unfinished, or the
    /// copy lost them.
    pub fn finding(self, result: [u8; Self::BYTES]) -> Result<Mismatches, Error> {
        finding_of(result, self.words, self.mark)
    }
}

/// Distinct mark for each check of the process.
static MARK: AtomicU32 = AtomicU32::new(1);

/// Decodes a check's 16-byte result. With a wrong IOMMU setting a copy succeeds but returns zeros,
/// which must not mean "all words match".
fn finding_of(found: [u8; 16], words: u64, mark: u32) -> Result<Mismatches, Error> {
    let [count, position] = [&found[..8], &found[8..]].map(|half| {
        let mut word = [0; 8];
        word.copy_from_slice(half);
        u64::from_le_bytes(word)
    });
    let differing = count.wrapping_sub(u64::from(mark) << 32);
    let is_whole = match differing {
        0 => position == u64::MAX,
        _ => differing <= words && position < words,
    };
    if !is_whole {
        return Err(Error::Finding { count, position, words });
    }
    Ok(Mismatches { words: differing, first: (differing != 0).then_some(position) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(count: u64, position: u64) -> Result<(u64, Option<u64>), String> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        bytes[8..].copy_from_slice(&position.to_le_bytes());
        let found = finding_of(bytes, 100, 7).map_err(|error| error.to_string())?;
        Ok((found.words, found.first))
    }

    #[test]
    fn invalid_result_is_an_error() {
        assert_eq!(finding(7 << 32, u64::MAX), Ok((0, None)));
        assert_eq!(finding((7 << 32) + 100, 0), Ok((100, Some(0))));
        assert_eq!(finding((7 << 32) + 1, 99), Ok((1, Some(99))));
        for (count, position) in [
            (0, 0),
            (0, u64::MAX),
            (6 << 32, u64::MAX),
            (7 << 32, 0),
            ((7 << 32) + 101, 0),
            ((7 << 32) + 1, 100),
            (u64::MAX, u64::MAX),
        ] {
            let error = finding(count, position).expect_err("no result");
            assert!(error.contains("invalid kernel result"), "{error}");
        }
    }
}
