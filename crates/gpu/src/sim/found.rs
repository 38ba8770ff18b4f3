//! Resolves the device addresses of stream work; an unknown address is CUDA's error.

use std::sync::Arc;
use std::time::Duration;

use gdr_sys::cuda::CuResult;

use super::execution::{
    FaultInjector, Item, Keeper, Kernel as SimKernel, Operation, PingPongData, Post, Resolver, Span,
};
use super::machine::driver_error;
use super::space;
use crate::backend::{Kernel, Perform, Work};
use crate::memory::Held;
use crate::{Batches, DevicePtr, Error, Failure, MemOp};

/// Resolves the addresses of `work`; an address without memory is CUDA's error for it.
pub(super) fn item(work: Work<'_>, injector: Option<&FaultInjector>) -> Result<Item, Error> {
    let copy = |to, from, bytes, keeper: Option<&Held>| Item::Copy {
        to,
        from,
        bytes,
        flaw: injector.and_then(|injector| {
            injector.next(bytes, keeper.map(|keeper| Arc::new(keeper.clone()) as Keeper))
        }),
    };
    Ok(match work {
        Work::HostToDevice { to, from, bytes, keeper } => {
            let from = host(from.cast_mut());
            copy(copied(to, bytes)?, from, bytes, Some(keeper))
        }
        Work::DeviceToHost { to, from, bytes, keeper } => {
            copy(host(to), copied(from, bytes)?, bytes, keeper)
        }
        Work::Finding { to, from, bytes } => {
            Item::Copy { from: copied(from, bytes)?, to: host(to), bytes, flaw: None }
        }
        Work::DeviceToDevice { to, from, bytes, keeper }
        | Work::PeerToPeer { to, from, bytes, keeper, .. } => {
            let (to, from) = (copied(to, bytes)?, copied(from, bytes)?);
            copy(to, from, bytes, Some(keeper))
        }
        Work::CopyWords { to, from, vectors, keeper } => {
            let bytes = vectors as usize * 16;
            let span = |address| find(address, bytes).map_err(failed("copy_words"));
            copy(span(to)?, span(from)?, bytes, Some(keeper))
        }
        Work::FillBytes { to, value, bytes } => {
            Item::FillBytes { to: filled(to, bytes)?, value, bytes }
        }
        Work::FillWords { to, value, words } => {
            Item::FillWords { to: filled(to, words * 4)?, value, words }
        }
        Work::Operations(ops) => operations(ops)?,
        Work::Perform(Perform { ops, result, limit, .. }) => {
            Item::Launch(perform(ops, result, limit).map_err(failed("perform"))?)
        }
        Work::Launch(kernel) => Item::Launch(sim_kernel(kernel).map_err(failed(kernel.name()))?),
        // The caller handles these.
        Work::Record(_) | Work::Wait(_) => Item::Operations(Vec::new()),
    })
}

fn copied(address: DevicePtr, bytes: usize) -> Result<Span, Error> {
    find(address, bytes).map_err(|source| Error::Copy { address, bytes, source })
}

fn filled(address: DevicePtr, bytes: usize) -> Result<Span, Error> {
    find(address, bytes).map_err(|source| Error::Fill { address, bytes, source })
}

fn failed(name: &'static str) -> impl Fn(Failure) -> Error {
    move |source| Error::Kernel { name, source }
}

fn operations(ops: &[MemOp<DevicePtr>]) -> Result<Item, Error> {
    let items: Result<_, _> = ops.iter().map(|&op| operation(op)).collect();
    items
        .map(Item::Operations)
        .map_err(|source| Error::MemoryOperations { count: ops.len(), source })
}

fn operation(op: MemOp<DevicePtr>) -> Result<Operation, Failure> {
    let op = op.try_map(|address, bytes| {
        if address.get().is_multiple_of(bytes as u64) {
            find(address, bytes)
        } else {
            Err(driver_error("memory operation", CuResult::INVALID_VALUE))
        }
    })?;
    Ok(match op {
        MemOp::Write32 { at: to, value } => Operation::Write32 { to, value },
        MemOp::Write64 { at: to, value } => Operation::Write64 { to, value },
        MemOp::Wait32 { at: on, value, compare, flush: _ } => {
            Operation::Wait32 { on, value, compare }
        }
        MemOp::Wait64 { at: on, value, compare, flush: _ } => {
            Operation::Wait64 { on, value, compare }
        }
        MemOp::Barrier | MemOp::FlushRemoteWrites => Operation::Fence,
    })
}

fn perform(
    ops: &[MemOp<DevicePtr>],
    result: DevicePtr,
    limit: Duration,
) -> Result<SimKernel, Failure> {
    let operations: Result<_, _> = ops.iter().map(|&op| operation(op)).collect();
    Ok(SimKernel::Perform { operations: operations?, result: find(result, 4)?, limit })
}

fn post(queues: DevicePtr, count: usize, batches: Batches) -> Result<Post, Failure> {
    Ok(Post {
        queues: find(queues, count * 256)?,
        count,
        rounds: batches.rounds,
        batch: batches.batch,
        ahead: batches.ahead,
        words: batches.words as usize,
        limit: batches.timeout,
        memory: Resolver::new(|address, bytes| space::resolve(DevicePtr::new(address), bytes)),
    })
}

fn sim_kernel(kernel: Kernel) -> Result<SimKernel, Failure> {
    Ok(match kernel {
        Kernel::PingPong { flag, reply, rounds, limit } => {
            SimKernel::PingPong { flag: find(flag, 4)?, reply: find(reply, 4)?, rounds, limit }
        }
        Kernel::PingPongData {
            flags,
            replies,
            rounds,
            limit,
            data,
            words,
            blocks,
            threads: _,
            writes,
        } => SimKernel::PingPongData(PingPongData {
            flags: find(flags, blocks as usize * 4)?,
            replies: find(replies, blocks as usize * 4)?,
            rounds,
            limit,
            data: find(data, words as usize * 4)?,
            words: words as usize,
            blocks: blocks as usize,
            writes,
        }),
        Kernel::FillPattern { to, words, pattern, first } => SimKernel::FillPattern {
            to: find(to, words as usize * 4)?,
            words: words as usize,
            key: pattern.key(),
            first,
        },
        Kernel::CheckPattern { from, words, pattern, first, result, mark } => {
            SimKernel::CheckPattern {
                from: find(from, words as usize * 4)?,
                words: words as usize,
                key: pattern.key(),
                first,
                result: find(result, 16)?,
                start: Some((u64::from(mark) << 32, u64::MAX)),
            }
        }
        Kernel::Chase { list, start, hops, block: _, result, mask } => SimKernel::Chase {
            list: find(list, mask as usize + 8)?,
            start,
            hops,
            result: find(result, 8)?,
            mask,
        },
        Kernel::Post { queues, count, batches } => {
            SimKernel::Post(post(queues, count as usize, batches)?)
        }
        Kernel::Hold { gate, limit } => SimKernel::Hold { gate: find(gate, 4)?, limit },
        Kernel::Ping { ours, theirs, rounds, limit } => {
            SimKernel::Ping { ours: find(ours, 4)?, theirs: find(theirs, 4)?, rounds, limit }
        }
    })
}

fn host(start: *mut u8) -> Span {
    // SAFETY: `Backend::enqueue`'s condition: the work's memory stays valid until the stream is
    // done with it.
    unsafe { Span::new(start, None) }
}

fn find(address: DevicePtr, bytes: usize) -> Result<Span, Failure> {
    space::resolve(address, bytes).ok_or_else(|| driver_error("address", CuResult::INVALID_VALUE))
}
