//! The kernels a stream can launch, each a method with what it checks beforehand. Memory of another GPU needs
//! [`PeerAccess`](crate::PeerAccess), and the stream holds that too until it is synchronised.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Stream;
use crate::backend::{Kernel, Work};
use crate::memory::{Held, Memory, aligned};
use crate::pattern::Mismatches;
use crate::{Allocation, DeviceMemory, Error, HostMemory, Pattern, peer};

/// How long the ping-pong kernels wait for one word before they give up: the GPU is not to be hung by a partner who died.
const PING_PONG_TIMEOUT: Duration = Duration::from_secs(10);
/// What `copy_words` loads and stores at a time.
const VECTOR: usize = 16;

impl Stream {
    /// Starts a kernel that writes the pattern from its word `first` on to `bytes` bytes. Offset and length are multiples of 4.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Peer`], [`Error::Kernel`], [`Error::Abandoned`].
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
        let kernel = Kernel::FillPattern {
            to,
            words: bytes as u64 / 4,
            pattern,
            first,
        };
        self.launch(&[memory.held()], Work::Launch(kernel))
    }

    /// Compares `bytes` bytes with the pattern from its word `first` on, by the GPU's own eyes; done when it returns. What
    /// it finds comes over a way of its own, which the [faults](crate::sim::Fault) of a simulated GPU leave alone.
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
        // No result is all ones: a copy that does nothing must not pass.
        let mut found = [0xff; Check::BYTES];
        let finding = Work::Finding {
            to: found.as_mut_ptr(),
            from: result.address(),
            bytes: found.len(),
        };
        // SAFETY: `found` is ours, and this returns after the stream is done with it or gave up.
        unsafe { self.enqueue_now(&[result.held()], finding) }?;
        check.finding(found)
    }

    /// Starts the same comparison, of the range (offset, bytes) with a pattern from one of its words on, and waits for nothing. What
    /// it finds is in the [`Check::BYTES`] bytes at `at` of `results` once the stream has done it: hand them to [`Check::finding`].
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
            // Odd, and below 2³¹: zeros and stale results are told from this one's.
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

    /// Starts a kernel of this GPU that copies `bytes` bytes by loads and stores of its threads, 16 bytes each: a pull from a
    /// peer's memory, a push to it, or a copy between this GPU's memory and pinned or registered host memory. Addresses and
    /// `bytes` are multiples of 16; of two ranges that overlap, what is copied is not defined. One block of 512 threads runs on
    /// each multiprocessor, with twelve loads of each thread in progress at once.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`], [`Error::Peer`], [`Error::Kernel`], [`Error::Abandoned`].
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

    /// Starts a kernel of which one thread follows the 64-bit words of `list`: the word at `start_offset` holds the offset in bytes
    /// of the next, that of the one after it, and so on, `hops` times; the last offset is then in the first 8 bytes of `result`.
    /// Every look goes to memory, so the time over `hops` is the latency. The thread is the only one of block number `block`, of as
    /// many blocks as there are multiprocessors: each in turn has that multiprocessor measured.
    ///
    /// The list has a power of two of bytes. A word that is no offset in it, or no multiple of 8, leads somewhere in it all the
    /// same, and the result is `u64::MAX` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::List`], [`Error::Range`], [`Error::Misaligned`], [`Error::Block`], [`Error::Pageable`], [`Error::Peer`],
    /// [`Error::Kernel`], [`Error::Abandoned`].
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
        let mask = u32::try_from(bytes)
            .ok()
            .filter(|bytes| bytes.is_power_of_two());
        let mask = mask
            .and_then(|bytes| bytes.checked_sub(8))
            .ok_or(Error::List { bytes })?;
        let multiprocessors = self.gpu.multiprocessors()?;
        if block >= multiprocessors {
            return Err(Error::Block {
                block,
                multiprocessors,
            });
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

    /// Starts a kernel that waits until the first 32-bit word of `gate` is not 0, or `timeout` is over. A whole queue of work can be
    /// put in behind it before any of it runs. A driver takes about a thousand pieces; putting in more than it takes waits.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`], [`Error::Kernel`], [`Error::Abandoned`].
    pub fn hold(&self, gate: &HostMemory, timeout: Duration) -> Result<(), Error> {
        let kernel = Kernel::Hold {
            gate: gate.word(0, 4)?,
            limit: timeout,
        };
        self.launch(&[gate.held()], Work::Launch(kernel))
    }

    /// Starts the ping-pong kernel: for i = 1 to `rounds` it waits until the first 32-bit word of `flag` is i and then writes i
    /// to the first word of `reply`. A flag of `u32::MAX`, or ten seconds without the one awaited, ends it early; the reply is
    /// `u32::MAX` then.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Pageable`], [`Error::Peer`], [`Error::Kernel`], [`Error::Abandoned`].
    pub fn ping_pong(
        &self,
        flag: &impl Memory,
        reply: &impl Memory,
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

    /// Starts the other side of [`Self::ping_pong`]: for i = 1 to `rounds` it writes i to the first 32-bit word of `theirs` and then
    /// waits until the first word of `ours` is i. A word of `u32::MAX`, or ten seconds without the one awaited, ends it early, with
    /// `u32::MAX` in `theirs`. Both words are to be 0 before either side begins.
    ///
    /// # Errors
    ///
    /// As [`Self::ping_pong`].
    pub fn ping(&self, ours: &impl Memory, theirs: &impl Memory, rounds: u32) -> Result<(), Error> {
        let kernel = Kernel::Ping {
            ours: ours.word(0, 4)?,
            theirs: theirs.word(0, 4)?,
            rounds,
            limit: PING_PONG_TIMEOUT,
        };
        self.launch(&[ours.held(), theirs.held()], Work::Launch(kernel))
    }

    /// Puts a kernel in, and has the way to other GPUs' memory held like the memory itself.
    fn launch(&self, memory: &[Held], work: Work<'_>) -> Result<(), Error> {
        self.check_world(memory)?;
        let mut held = memory.to_vec();
        for memory in memory {
            held.extend(peer::needed(&self.gpu, memory)?);
        }
        self.enqueue(&held, work)
    }
}

/// A comparison that was started: it knows its own result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "nobody knows what it found until its result is read"]
pub struct Check {
    words: u64,
    mark: u32,
}

impl Check {
    /// Bytes of a result, at a multiple of 8.
    pub const BYTES: usize = 16;

    /// What a result says.
    ///
    /// # Errors
    ///
    /// [`Error::Finding`] for bytes that are not this comparison's result: it has not ended, or they did not come back.
    pub fn finding(self, result: [u8; Self::BYTES]) -> Result<Mismatches, Error> {
        finding_of(result, self.words, self.mark)
    }
}

/// A number for each check of the process.
static MARK: AtomicU32 = AtomicU32::new(1);

/// What the 16 bytes of a check's result say. With a wrong IOMMU setting a copy succeeds and brings zeros: these are no "all
/// words are right".
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
        return Err(Error::Finding {
            count,
            position,
            words,
        });
    }
    Ok(Mismatches {
        words: differing,
        first: (differing != 0).then_some(position),
    })
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
    fn a_result_that_did_not_come_back_is_no_success() {
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
            assert!(error.contains("did not come back"), "{error}");
        }
    }
}
