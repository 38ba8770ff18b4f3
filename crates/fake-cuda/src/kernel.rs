//! The kernels of `crates/gpu/src/kernels.ptx` and `post.ptx` by name and parameters; `gpu::sim::execution` runs them.
//! An address that the GPU cannot reach is CUDA's error 700, a misaligned one 716.

use std::ffi::c_void;
use std::time::Duration;

use gpu::sim::execution::{Compare, Item, Kernel, Operation, PingPongData, Post, Resolver};

use crate::answer::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, NOT_FOUND, Return};
use crate::context::reaches;
use crate::copy;
use crate::memory::{Block, Kind, pointer, range};
use crate::stream::Stream;

/// Known kernels.
pub const NAMES: [&str; 11] = [
    "ping_pong",
    "ping_pong_data",
    "ping_data",
    "ping",
    "fill_pattern",
    "check_pattern",
    "copy_words",
    "chase",
    "hold",
    "perform",
    "post_requests",
];

/// Parameters of a launch.
pub struct Parameters(*const *mut c_void);

impl Parameters {
    /// # Safety
    ///
    /// `parameters` has a pointer for each of the kernel's parameters, to a value of its type.
    pub unsafe fn new(parameters: *const *mut c_void) -> Self {
        Self(parameters)
    }

    fn word(&self, position: usize) -> u64 {
        // SAFETY: `launch` reads each kernel's parameters by their types, and `new`'s condition.
        unsafe { self.0.add(position).read().cast::<u64>().read() }
    }

    fn half(&self, position: usize) -> u32 {
        // SAFETY: as above.
        unsafe { self.0.add(position).read().cast::<u32>().read() }
    }

    fn nanoseconds(&self, position: usize) -> Duration {
        Duration::from_nanos(self.word(position))
    }
}

/// Adds the kernel to a stream. A memory fault breaks the context when the stream reaches it.
pub fn launch(
    name: &str,
    parameters: &Parameters,
    stream: &Stream,
    blocks: u64,
) -> Result<(), Return> {
    if !NAMES.contains(&name) {
        return Err(NOT_FOUND);
    }
    match item(name, parameters, stream.gpu, blocks) {
        Ok(Some(item)) => stream.put(item),
        Ok(None) => {}
        Err(code) => stream.put_fault(code),
    }
    Ok(())
}

/// The kernel's work on its memory; `None` if it does nothing.
fn item(name: &str, given: &Parameters, gpu: usize, blocks: u64) -> Result<Option<Item>, Return> {
    let find =
        |address, count, size| reached(gpu, address, count, size).map(|block| block.span(address));
    let kernel = match name {
        "ping_pong" => Kernel::PingPong {
            flag: find(given.word(0), 1, 4)?,
            reply: find(given.word(1), 1, 4)?,
            rounds: given.half(2),
            limit: given.nanoseconds(3),
        },
        "ping_pong_data" | "ping_data" => Kernel::PingPongData(PingPongData {
            flags: find(given.word(0), blocks, 4)?,
            replies: find(given.word(1), blocks, 4)?,
            rounds: given.half(2),
            limit: given.nanoseconds(3),
            data: find(given.word(4), given.word(5), 4)?,
            words: given.word(5) as usize,
            blocks: blocks as usize,
            writes: name == "ping_data",
        }),
        "ping" => Kernel::Ping {
            ours: find(given.word(0), 1, 4)?,
            theirs: find(given.word(1), 1, 4)?,
            rounds: given.half(2),
            limit: given.nanoseconds(3),
        },
        "fill_pattern" => Kernel::FillPattern {
            to: find(given.word(0), given.word(1), 4)?,
            words: given.word(1) as usize,
            key: given.word(2),
            first: given.word(3),
        },
        "check_pattern" => Kernel::CheckPattern {
            from: find(given.word(0), given.word(1), 4)?,
            words: given.word(1) as usize,
            key: given.word(2),
            first: given.word(3),
            result: find(given.word(4), 2, 8)?,
            start: None,
        },
        "copy_words" => {
            let (to, from, vectors) = (given.word(0), given.word(1), given.word(2));
            if vectors == 0 {
                return Ok(None);
            }
            let target = reached(gpu, to, vectors, 16)?;
            let source = reached(gpu, from, vectors, 16)?;
            let bytes = vectors as usize * 16;
            return Ok(Some(copy::between(&source, from, &target, to, bytes, None)));
        }
        "chase" => {
            let (start, block, mask) = (given.half(1), given.half(3), given.half(5));
            if u64::from(block) >= blocks {
                return Ok(None);
            }
            Kernel::Chase {
                list: find(given.word(0), u64::from(mask.max(start)) / 8 + 1, 8)?,
                start,
                hops: given.half(2),
                result: find(given.word(4), 1, 8)?,
                mask,
            }
        }
        "hold" => Kernel::Hold { gate: find(given.word(0), 1, 4)?, limit: given.nanoseconds(1) },
        "perform" => {
            let (start, count) = (given.word(0), given.half(1));
            reached(gpu, start, 3 * u64::from(count), 8)?;
            Kernel::Perform {
                operations: (0..count as usize)
                    .map(|position| operation(gpu, start, position))
                    .collect::<Result<_, _>>()?,
                result: find(given.word(2), 1, 4)?,
                limit: given.nanoseconds(3),
            }
        }
        "post_requests" => Kernel::Post(Post {
            // 256 bytes for each queue.
            queues: find(given.word(0), blocks * 32, 8)?,
            count: blocks as usize,
            rounds: given.half(1),
            batch: given.half(2),
            ahead: given.half(3),
            words: given.half(4) as usize,
            limit: given.nanoseconds(5),
            memory: Resolver::new(move |address, bytes| {
                let block = reached(gpu, address, bytes as u64, 1).ok()?;
                Some(block.span(address))
            }),
        }),
        _ => return Ok(None),
    };
    Ok(Some(Item::Launch(kernel)))
}

/// Bytes of an operation of `perform`.
const OPERATION: usize = 24;

/// An operation of `perform`. The list is read at the launch: the program has written it before.
fn operation(gpu: usize, list: u64, position: usize) -> Result<Operation, Return> {
    let start = pointer::<u8>(list).wrapping_add(position * OPERATION);
    // SAFETY: the caller has checked the list, whose words are aligned.
    let word = |at: usize| unsafe { start.add(at).cast::<u64>().read() };
    let (code, value, address) = (word(0), word(8), word(16));
    let find = |size| reached(gpu, address, 1, size).map(|block| block.span(address));
    let wait = |compare| {
        let value = value as u32;
        find(4).map(|on| Operation::Wait32 { on, value, compare })
    };
    match code {
        0 => find(4).map(|to| Operation::Write32 { to, value: value as u32 }),
        1 => find(8).map(|to| Operation::Write64 { to, value }),
        2 => wait(Compare::Geq),
        3 => wait(Compare::Eq),
        4 => wait(Compare::And),
        5 => wait(Compare::Nor),
        _ => Ok(Operation::Fence),
    }
}

/// The block that holds `count` times `size` bytes, if a kernel of this GPU may access it.
fn reached(gpu: usize, address: u64, count: u64, size: usize) -> Result<Block, Return> {
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size));
    let block = range(address, bytes.ok_or(ILLEGAL_ADDRESS)?).ok_or(ILLEGAL_ADDRESS)?;
    if block.kind == Kind::Device && !reaches(gpu, block.gpu) {
        return Err(ILLEGAL_ADDRESS);
    }
    match address % size as u64 {
        0 => Ok(block),
        _ => Err(MISALIGNED_ADDRESS),
    }
}
