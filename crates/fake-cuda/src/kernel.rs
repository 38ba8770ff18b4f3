//! The kernels of `crates/gpu/src/kernels.ptx` by their names and parameters, as CUDA passes them; the engine (crate `gpu-sim`) does
//! what they do. An address that the GPU cannot reach is CUDA's 700, one that is not a multiple of what is read there 716.

use std::ffi::c_void;
use std::time::Duration;

use gpu_sim::{Item, Kernel as Work};

use crate::answer::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, Return};
use crate::context::reaches;
use crate::memory::{Block, Kind, range};
use crate::stream::Stream;
use crate::{copy, delivery};

/// The kernels that this library knows.
pub const NAMES: [&str; 7] = [
    "ping_pong",
    "ping",
    "fill_pattern",
    "check_pattern",
    "copy_words",
    "chase",
    "hold",
];

/// A launch: the kernel and its parameters.
pub enum Kernel {
    PingPong {
        flag: u64,
        reply: u64,
        rounds: u32,
        limit: u64,
    },
    Ping {
        ours: u64,
        theirs: u64,
        rounds: u32,
        limit: u64,
    },
    FillPattern {
        to: u64,
        words: u64,
        key: u64,
        first: u64,
    },
    CheckPattern {
        from: u64,
        words: u64,
        key: u64,
        first: u64,
        result: u64,
    },
    CopyWords {
        to: u64,
        from: u64,
        vectors: u64,
    },
    Chase {
        list: u64,
        start: u32,
        hops: u32,
        block: u32,
        result: u64,
        mask: u32,
    },
    Hold {
        gate: u64,
        limit: u64,
    },
}

impl Kernel {
    /// The parameters of a launch.
    ///
    /// # Safety
    ///
    /// `parameters` has a pointer for each of the kernel's parameters, to a value of its type.
    pub unsafe fn read(name: &str, parameters: *const *mut c_void) -> Option<Self> {
        // SAFETY: asked for the parameters that the kernel has, by their types (this function's own condition).
        let word =
            |position: usize| unsafe { parameters.add(position).read().cast::<u64>().read() };
        // SAFETY: as above.
        let half =
            |position: usize| unsafe { parameters.add(position).read().cast::<u32>().read() };
        Some(match name {
            "ping_pong" => Self::PingPong {
                flag: word(0),
                reply: word(1),
                rounds: half(2),
                limit: word(3),
            },
            "ping" => Self::Ping {
                ours: word(0),
                theirs: word(1),
                rounds: half(2),
                limit: word(3),
            },
            "fill_pattern" => Self::FillPattern {
                to: word(0),
                words: word(1),
                key: word(2),
                first: word(3),
            },
            "check_pattern" => Self::CheckPattern {
                from: word(0),
                words: word(1),
                key: word(2),
                first: word(3),
                result: word(4),
            },
            "copy_words" => Self::CopyWords {
                to: word(0),
                from: word(1),
                vectors: word(2),
            },
            "chase" => Self::Chase {
                list: word(0),
                start: half(1),
                hops: half(2),
                block: half(3),
                result: word(4),
                mask: half(5),
            },
            "hold" => Self::Hold {
                gate: word(0),
                limit: word(1),
            },
            _ => return None,
        })
    }

    /// Puts the kernel into a stream of its GPU's. What it may not touch breaks the context when the stream comes to it.
    pub fn launch(self, stream: &Stream, blocks: u64) {
        match self.item(stream.gpu, blocks) {
            Ok(Some(item)) => stream.put(item),
            Ok(None) => {}
            Err(code) => stream.put_fault(code),
        }
    }

    /// The work on the memory that the kernel names; none where it does nothing.
    fn item(self, gpu: usize, blocks: u64) -> Result<Option<Item>, Return> {
        let find = |address, count, size| {
            reached(gpu, address, count, size).map(|block| block.span(address))
        };
        let kernel = match self {
            Self::PingPong {
                flag,
                reply,
                rounds,
                limit,
            } => Work::PingPong {
                flag: find(flag, 1, 4)?,
                reply: find(reply, 1, 4)?,
                rounds,
                limit: Duration::from_nanos(limit),
            },
            Self::Ping {
                ours,
                theirs,
                rounds,
                limit,
            } => Work::Ping {
                ours: find(ours, 1, 4)?,
                theirs: find(theirs, 1, 4)?,
                rounds,
                limit: Duration::from_nanos(limit),
            },
            Self::FillPattern {
                to,
                words,
                key,
                first,
            } => Work::FillPattern {
                to: find(to, words, 4)?,
                words: words as usize,
                key,
                first,
            },
            Self::CheckPattern {
                from,
                words,
                key,
                first,
                result,
            } => Work::CheckPattern {
                from: find(from, words, 4)?,
                words: words as usize,
                key,
                first,
                result: find(result, 2, 8)?,
                start: None,
            },
            Self::CopyWords { vectors: 0, .. } => return Ok(None),
            Self::CopyWords { to, from, vectors } => {
                let target = reached(gpu, to, vectors, 16)?;
                let source = reached(gpu, from, vectors, 16)?;
                let bytes = vectors as usize * 16;
                let flaw = delivery::of_kernel(&source, &target, bytes);
                return Ok(Some(copy::between(&source, from, &target, to, bytes, flaw)));
            }
            Self::Chase { block, .. } if u64::from(block) >= blocks => return Ok(None),
            Self::Chase {
                list,
                start,
                hops,
                block: _,
                result,
                mask,
            } => Work::Chase {
                list: find(list, u64::from(mask.max(start)) / 8 + 1, 8)?,
                start,
                hops,
                result: find(result, 1, 8)?,
                mask,
            },
            Self::Hold { gate, limit } => Work::Hold {
                gate: find(gate, 1, 4)?,
                limit: Duration::from_nanos(limit),
            },
        };
        Ok(Some(Item::Launch(kernel)))
    }
}

/// The block of a range of `count` times `size` bytes that a kernel of this GPU may touch, `size` at a time.
fn reached(gpu: usize, address: u64, count: u64, size: usize) -> Result<Block, Return> {
    let bytes = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(size));
    let block = range(address, bytes.ok_or(ILLEGAL_ADDRESS)?).ok_or(ILLEGAL_ADDRESS)?;
    if block.kind == Kind::Device && !reaches(gpu, block.gpu) {
        return Err(ILLEGAL_ADDRESS);
    }
    match address % size as u64 {
        0 => Ok(block),
        _ => Err(MISALIGNED_ADDRESS),
    }
}
