//! Stream memory operations: writes and waits. A batch is checked when enqueued and rejected as a
//! whole.

use gpu::sim::execution::{Compare, Item, Operation, Span};

use crate::answer::{INVALID_VALUE, NOT_SUPPORTED, Return, answer_here};
use crate::machine;
use crate::memory::range;
use crate::stream::stream_of;

/// Maximum operations per call (driver 580).
const MAX: u32 = 255;

/// `CU_STREAM_WAIT_VALUE_FLUSH`.
const FLUSH: u32 = 1 << 30;

/// `CUstreamBatchMemOpParams`: a union; these fields cover all members.
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

/// CUDA's two sets of functions, which differ in their flags and attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

impl Version {
    /// `CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS` and `…_STREAM_WAIT_VALUE_NOR`.
    fn attributes(self) -> (u32, u32) {
        match self {
            Self::V1 => (93, 94),
            Self::V2 => (122, 123),
        }
    }
}

/// Word of this size at an address.
fn word(address: u64, bytes: u64) -> Result<Span, Return> {
    let is_word = address.is_multiple_of(bytes) && address != 0;
    let block = range(address, bytes as usize).filter(|_| is_word);
    block.map(|block| block.span(address)).ok_or(INVALID_VALUE)
}

/// Condition of a wait's flags.
fn condition(
    flags: u32,
    can: impl Fn(u32) -> Result<(), Return>,
    nor: u32,
) -> Result<Compare, Return> {
    let compare = match flags & !FLUSH {
        0 => Compare::Geq,
        1 => Compare::Eq,
        2 => Compare::And,
        3 => {
            can(nor)?;
            Compare::Nor
        }
        _ => return Err(INVALID_VALUE),
    };
    if flags & FLUSH != 0 {
        can(98)?;
    }
    Ok(compare)
}

/// One operation, or CUDA's error for it.
fn operation(given: &Parameters, gpu: usize, version: Version) -> Result<Operation, Return> {
    let has = |attribute| machine::attribute(gpu, attribute) == Some(1);
    let can = |attribute| has(attribute).then_some(()).ok_or(NOT_SUPPORTED);
    let (words, nor) = version.attributes();
    let word = |bytes| word(given.address, bytes);
    // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER exists in v1 only.
    let most = u32::from(version == Version::V1);
    let written = || (given.flags <= most).then_some(()).ok_or(INVALID_VALUE);
    let value = given.value;
    Ok(match given.operation {
        1 => Operation::Wait32 {
            on: word(4)?,
            value: value as u32,
            compare: condition(given.flags, can, nor)?,
        },
        2 => {
            written()?;
            Operation::Write32 { to: word(4)?, value: value as u32 }
        }
        3 => {
            can(98)?;
            Operation::Fence
        }
        4 => {
            can(words)?;
            Operation::Wait64 { on: word(8)?, value, compare: condition(given.flags, can, nor)? }
        }
        5 => {
            can(words)?;
            written()?;
            Operation::Write64 { to: word(8)?, value }
        }
        6 if version != Version::V1 && given.leading_flags <= 1 => Operation::Fence,
        _ => return Err(INVALID_VALUE),
    })
}

/// Checks and enqueues a batch.
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
    if flags != 0 || count > MAX || (list.is_null() && count > 0) {
        return Err(INVALID_VALUE);
    }
    let operations = (0..count as usize).map(|position| {
        // SAFETY: not null, and cuda.h's contract.
        let given = unsafe { list.add(position).read() };
        operation(&given, gpu, version)
    });
    let operations = operations.collect::<Result<_, _>>()?;
    stream.put(Item::Operations(operations));
    Ok(())
}

/// cuda.h's v1 function: disabled (801) unless a module option enables it, as attribute 92 shows.
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
        // SAFETY: cuda.h's contract.
        unsafe { batch(Version::V1, stream, (count, list), flags, gpu) }
    })
}
