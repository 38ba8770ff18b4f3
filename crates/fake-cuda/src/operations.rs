//! Stream memory operations: words that a stream writes, and words it waits for. They are looked through when they are put in,
//! and refused as a whole.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use crate::answer::{INVALID_VALUE, NOT_SUPPORTED, Return, answer_here, whole};
use crate::machine;
use crate::memory::{Block, pointer, range};
use crate::stream::{Work, stream_of};

/// More in one call are refused (seen with driver 580).
const MOST: u32 = 255;
/// A wait that lasts longer lets others go first between its looks, one that lasts much longer sleeps.
const SPIN: Duration = Duration::from_millis(5);
const NAP_AFTER: Duration = Duration::from_millis(100);

/// `CU_STREAM_WAIT_VALUE_FLUSH`.
const FLUSH: u32 = 1 << 30;

/// `CUstreamBatchMemOpParams`: a union, of which these fields serve all members.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Parameters {
    operation: u32,
    leading_flags: u32,
    address: u64,
    value: u64,
    flags: u32,
    rest: [u32; 5],
}

/// Which of CUDA's two sets of functions is called: they differ in what they allow, and in the attributes that say so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    #[cfg(not(feature = "old"))]
    V2,
}

impl Version {
    /// `CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS` and `…_STREAM_WAIT_VALUE_NOR`.
    fn attributes(self) -> (u32, u32) {
        match self {
            Self::V1 => (93, 94),
            #[cfg(not(feature = "old"))]
            Self::V2 => (122, 123),
        }
    }
}

/// A word of a block, which stays while the operation does.
struct Word {
    address: u64,
    _block: Block,
}

impl Word {
    fn of(address: u64, bytes: u64) -> Result<Self, Return> {
        let is_word = address.is_multiple_of(bytes) && address != 0;
        let block = range(address, bytes as usize).filter(|_| is_word);
        block
            .map(|_block| Self { address, _block })
            .ok_or(INVALID_VALUE)
    }

    fn half(&self) -> &AtomicU32 {
        // SAFETY: aligned, within a block, and that is held here.
        unsafe { AtomicU32::from_ptr(pointer(self.address)) }
    }

    fn whole(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(pointer(self.address)) }
    }
}

/// One that was looked through; of a wait, the condition comes last.
enum Operation {
    Write32(Word, u32),
    Write64(Word, u64),
    Wait32(Word, u32, u32),
    Wait64(Word, u64, u32),
    Barrier,
}

impl Operation {
    fn of(given: &Parameters, gpu: usize, version: Version) -> Result<Self, Return> {
        let has = |attribute| machine::attribute(gpu, attribute) == Some(1);
        let can = |attribute| has(attribute).then_some(()).ok_or(NOT_SUPPORTED);
        let (words, nor) = version.attributes();
        let word = |bytes| Word::of(given.address, bytes);
        let condition = || {
            match given.flags & !FLUSH {
                0..=2 => {}
                3 => can(nor)?,
                _ => return Err(INVALID_VALUE),
            }
            if given.flags & FLUSH != 0 {
                can(98)?;
            }
            Ok(given.flags & !FLUSH)
        };
        // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is of v1 alone.
        let most = u32::from(version == Version::V1);
        let written = || (given.flags <= most).then_some(()).ok_or(INVALID_VALUE);
        let value = given.value;
        Ok(match given.operation {
            1 => Self::Wait32(word(4)?, value as u32, condition()?),
            2 => {
                written()?;
                Self::Write32(word(4)?, value as u32)
            }
            3 => {
                can(98)?;
                Self::Barrier
            }
            4 => {
                can(words)?;
                Self::Wait64(word(8)?, value, condition()?)
            }
            5 => {
                can(words)?;
                written()?;
                Self::Write64(word(8)?, value)
            }
            6 if version != Version::V1 && given.leading_flags <= 1 => Self::Barrier,
            _ => return Err(INVALID_VALUE),
        })
    }

    fn waits(&self) -> bool {
        matches!(self, Self::Wait32(..) | Self::Wait64(..))
    }

    fn run(&self, gpu: usize) -> Result<(), Return> {
        match *self {
            // A fence comes before a write, whatever it is asked for.
            Self::Write32(ref word, value) => {
                fence(Ordering::SeqCst);
                word.half().store(value, Ordering::Release);
            }
            Self::Write64(ref word, value) => {
                fence(Ordering::SeqCst);
                word.whole().store(value, Ordering::Release);
            }
            Self::Wait32(ref word, value, condition) => wait(gpu, || {
                let seen = word.half().load(Ordering::Acquire);
                let reached = seen.wrapping_sub(value).cast_signed() >= 0;
                holds(
                    condition,
                    reached,
                    seen.into(),
                    value.into(),
                    u32::MAX.into(),
                )
            })?,
            Self::Wait64(ref word, value, condition) => wait(gpu, || {
                let seen = word.whole().load(Ordering::Acquire);
                let reached = seen.wrapping_sub(value).cast_signed() >= 0;
                holds(condition, reached, seen, value, u64::MAX)
            })?,
            Self::Barrier => fence(Ordering::SeqCst),
        }
        Ok(())
    }
}

/// cuda.h's formulas: GEQ, EQ, AND, NOR.
fn holds(condition: u32, reached: bool, seen: u64, value: u64, all: u64) -> bool {
    match condition {
        0 => reached,
        1 => seen == value,
        2 => seen & value != 0,
        _ => (seen | value) != all,
    }
}

/// Until it holds, or the context breaks.
fn wait(gpu: usize, holds: impl Fn() -> bool) -> Result<(), Return> {
    let begun = Instant::now();
    while !holds() {
        match begun.elapsed() {
            waited if waited > NAP_AFTER => {
                whole(gpu)?;
                std::thread::sleep(Duration::from_micros(20));
            }
            waited if waited > SPIN => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
    Ok(())
}

/// Looks through a batch and puts it in.
///
/// # Safety
///
/// `list` is null or has `count` elements.
pub unsafe fn batch(
    version: Version,
    stream: usize,
    (count, list): (u32, *const Parameters),
    flags: u32,
    gpu: usize,
) -> Result<(), Return> {
    let stream = stream_of(stream, gpu)?;
    if flags != 0 || count > MOST || (list.is_null() && count > 0) {
        return Err(INVALID_VALUE);
    }
    let operations = (0..count as usize).map(|position| {
        // SAFETY: not null, and this function's own condition.
        let given = unsafe { list.add(position).read() };
        Operation::of(&given, gpu, version)
    });
    let operations: Vec<Operation> = operations.collect::<Result<_, _>>()?;
    let waits = operations.iter().any(Operation::waits);
    let body = Box::new(move || {
        operations
            .iter()
            .try_for_each(|operation| operation.run(gpu))
    });
    stream.put(match waits {
        true => Work::Waiting(body),
        false => Work::Now(body),
    });
    Ok(())
}

/// cuda.h's function of old: off (801) unless the module was told otherwise, which attribute 92 says.
///
/// # Safety
///
/// `list` is null or has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBatchMemOp(
    stream: usize,
    count: u32,
    list: *const Parameters,
    flags: u32,
) -> Return {
    answer_here("cuStreamBatchMemOp", |gpu| {
        if machine::attribute(gpu, 92) != Some(1) {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: this function's own condition.
        unsafe { batch(Version::V1, stream, (count, list), flags, gpu) }
    })
}
