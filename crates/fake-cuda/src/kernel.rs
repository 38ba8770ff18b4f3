//! The kernels of `crates/gpu/src/kernels.ptx`, written once more in Rust. An address that the GPU cannot reach is CUDA's 700,
//! one that is not a multiple of what is read there 716; both break the context.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use crate::answer::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, Return, whole};
use crate::context::reaches;
use crate::delivery::Delivery;
use crate::memory::{Block, Kind, pointer, range};

/// What this engine knows.
pub const NAMES: [&str; 7] = [
    "ping_pong",
    "ping",
    "fill_pattern",
    "check_pattern",
    "copy_words",
    "chase",
    "hold",
];

/// What ends a ping-pong.
const STOP: u32 = u32::MAX;

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
    Hold,
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
            "hold" => Self::Hold,
            _ => return None,
        })
    }

    /// Whether it may have to wait for another.
    pub fn waits(&self) -> bool {
        matches!(self, Self::PingPong { .. } | Self::Ping { .. })
    }

    pub fn run(self, gpu: usize, blocks: u64) -> Result<(), Return> {
        match self {
            Self::PingPong {
                flag,
                reply,
                rounds,
                limit,
            } => {
                let (flag, reply) = (Flag::at(gpu, flag)?, Flag::at(gpu, reply)?);
                for round in 1..=rounds {
                    if !flag.becomes(round, limit) {
                        reply.set(STOP);
                        break;
                    }
                    reply.set(round);
                }
                Ok(())
            }
            Self::Ping {
                ours,
                theirs,
                rounds,
                limit,
            } => {
                let (ours, theirs) = (Flag::at(gpu, ours)?, Flag::at(gpu, theirs)?);
                for round in 1..=rounds {
                    theirs.set(round);
                    if !ours.becomes(round, limit) {
                        theirs.set(STOP);
                        break;
                    }
                }
                Ok(())
            }
            Self::FillPattern {
                to,
                words,
                key,
                first,
            } => {
                let _target = reached(gpu, to, words, 4)?;
                let (mut at, mut index) = (pointer::<u32>(to), 0);
                while index < words {
                    // SAFETY: within what was reached, which is held; nobody else touches it before the stream is done.
                    unsafe { *at = pattern(key, first.wrapping_add(index)) };
                    at = at.wrapping_add(1);
                    index += 1;
                }
                Ok(())
            }
            Self::CheckPattern {
                from,
                words,
                key,
                first,
                result,
            } => {
                let _source = reached(gpu, from, words, 4)?;
                let _result = reached(gpu, result, 2, 8)?;
                let (mut at, mut index) = (pointer::<u32>(from), 0);
                let (mut count, mut lowest) = (0, u64::MAX);
                while index < words {
                    // SAFETY: as above.
                    if unsafe { *at } != pattern(key, first.wrapping_add(index)) {
                        count += 1;
                        lowest = lowest.min(index);
                    }
                    at = at.wrapping_add(1);
                    index += 1;
                }
                // SAFETY: as above, of the result.
                unsafe {
                    let (differ, least) = (pointer::<u64>(result), pointer::<u64>(result + 8));
                    *differ = (*differ).wrapping_add(count);
                    *least = (*least).min(lowest);
                }
                Ok(())
            }
            Self::CopyWords { to, from, vectors } => {
                if vectors == 0 {
                    return Ok(());
                }
                let target = reached(gpu, to, vectors, 16)?;
                let source = reached(gpu, from, vectors, 16)?;
                // SAFETY: both ranges were reached, and are held.
                unsafe {
                    Delivery::of_kernel(&source, &target).carry(to, from, vectors as usize * 16)
                };
                Ok(())
            }
            Self::Chase {
                list,
                start,
                hops,
                block,
                result,
                mask,
            } => {
                if u64::from(block) >= blocks {
                    return Ok(());
                }
                let end = chase(gpu, list, start, hops, mask)?;
                let _result = reached(gpu, result, 1, 8)?;
                // SAFETY: reached, aligned and held.
                unsafe { pointer::<u64>(result).write_volatile(end) };
                Ok(())
            }
            Self::Hold => Ok(()),
        }
    }
}

/// The pattern's word at an index: the upper half of one xorshift step (13, 7, 17). This library is built without optimisation,
/// and memory has many words: hence this, and the plain loops over them.
#[inline(always)]
fn pattern(key: u64, index: u64) -> u32 {
    let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    (x >> 32) as u32
}

fn chase(gpu: usize, list: u64, start: u32, hops: u32, mask: u32) -> Result<u64, Return> {
    let (mut at, mut astray) = (u64::from(start), 0);
    let mut block: Option<Block> = None;
    for _ in 0..hops {
        let place = list.wrapping_add(at);
        let is_known =
            |block: &Block| place >= block.start && place + 8 <= block.start + block.bytes as u64;
        if !block.as_ref().is_some_and(is_known) {
            block = Some(reached(gpu, place, 1, 8)?);
        }
        // SAFETY: aligned, and in a block that this GPU reaches and that is held.
        let next = unsafe { pointer::<u64>(place).read_volatile() };
        astray |= next & !u64::from(mask);
        at = next & u64::from(mask);
    }
    Ok(if astray == 0 { at } else { u64::MAX })
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

/// A word that two sides pass to each other.
struct Flag {
    gpu: usize,
    address: u64,
    _block: Block,
}

impl Flag {
    fn at(gpu: usize, address: u64) -> Result<Self, Return> {
        let block = reached(gpu, address, 1, 4)?;
        Ok(Self {
            gpu,
            address,
            _block: block,
        })
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: aligned, and in a block that is held as long as this; both sides treat it as one word.
        unsafe { AtomicU32::from_ptr(pointer::<u32>(self.address)) }
    }

    fn set(&self, value: u32) {
        fence(Ordering::SeqCst);
        self.word().store(value, Ordering::SeqCst);
    }

    /// Waits until the word is this; false if it says stop, or for `limit` nanoseconds was not, or the context broke.
    fn becomes(&self, value: u32, limit: u64) -> bool {
        let begun = Instant::now();
        for looks in 1_u64.. {
            match self.word().load(Ordering::SeqCst) {
                seen if seen == value => return true,
                STOP => return false,
                _ => {}
            }
            if looks.is_multiple_of(256) {
                if begun.elapsed() >= Duration::from_nanos(limit) || whole(self.gpu).is_err() {
                    return false;
                }
                // The other side may need this core, and sleepers get one back sooner than those who spin.
                std::thread::sleep(Duration::from_micros(10));
            }
        }
        false
    }
}
