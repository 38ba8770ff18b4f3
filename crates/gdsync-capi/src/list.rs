//! Converts a program's descriptors to memory operations. The whole list is checked before any operation is executed.

use engine::lower::{self, Offset};
use gpu::MemOp;

use crate::abi;
use crate::call_error::CallError;
use crate::claims::Claims;
use crate::flags::{self, MemoryType};

/// The descriptors of an array.
///
/// # Safety
///
/// `list` is NULL or has `count` descriptors, which do not change during `'a`, each with the member of its tag initialised.
pub(crate) unsafe fn descriptors<'a>(
    count: usize,
    list: *const abi::Descriptor,
) -> Result<&'a [abi::Descriptor], CallError> {
    if count == 0 {
        return Ok(&[]);
    }
    flags::check("descs", list)?;
    if count
        .checked_mul(size_of::<abi::Descriptor>())
        .is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        return Err(CallError::Count { count });
    }
    // SAFETY: not NULL and aligned; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Memory operations with the positions of their descriptors.
pub(crate) struct List<A> {
    pub(crate) ops: Vec<MemOp<A>>,
    positions: Vec<usize>,
}

/// Translates addresses for the GPU or the CPU.
pub(crate) trait Resolve<A> {
    /// A word of the program, or the first of `bytes` bytes.
    fn word(&mut self, address: usize, bytes: usize, memory: MemoryType) -> Result<A, CallError>;
    /// A word of a queue.
    fn place(&mut self, place: &engine::MappedMemory) -> A;
}

impl<A> List<A> {
    /// The position of an operation's descriptor.
    pub(crate) fn descriptor(&self, op: usize) -> usize {
        self.positions.get(op).copied().unwrap_or(op)
    }
}

/// Converts descriptors. Claims their requests.
///
/// # Safety
///
/// The member of each descriptor's tag is initialised, and the sources of memory writes are readable.
pub(crate) unsafe fn read<A: Offset>(
    given: &[abi::Descriptor],
    claims: &mut Claims,
    resolver: &mut impl Resolve<A>,
) -> Result<List<A>, CallError> {
    let mut list =
        List { ops: Vec::with_capacity(given.len()), positions: Vec::with_capacity(given.len()) };
    for (position, given) in given.iter().enumerate() {
        claims.at(position);
        // SAFETY: the caller's promise.
        let read = unsafe { one(given, claims, resolver, &mut list.ops) };
        read.map_err(|source| CallError::Descriptor { position, source: Box::new(source) })?;
        list.positions.resize(list.ops.len(), position);
    }
    Ok(list)
}

/// # Safety
///
/// As [`read`].
unsafe fn one<A: Offset>(
    given: &abi::Descriptor,
    claims: &mut Claims,
    resolver: &mut impl Resolve<A>,
    ops: &mut Vec<MemOp<A>>,
) -> Result<(), CallError> {
    match given.tag {
        abi::TAG_WAIT_VALUE32 => {
            // SAFETY: the tag selects this member.
            let wait = unsafe { given.what.wait32 };
            let memory = wait_memory(wait.flags)?;
            let compare = flags::compare(wait.cond_flags)?;
            ops.push(MemOp::Wait32 {
                at: resolver.word(flags::word("ptr", wait.ptr.cast())?, 4, memory)?,
                value: wait.value,
                compare,
                flush: wait.flags & abi::WAIT_POST_FLUSH_REMOTE != 0,
            });
        }
        abi::TAG_WRITE_VALUE32 => {
            // SAFETY: as above.
            let write = unsafe { given.what.write32 };
            let memory = write_memory(write.flags)?;
            let at = resolver.word(flags::word("ptr", write.ptr.cast())?, 4, memory)?;
            if write.flags & abi::WRITE_PRE_BARRIER_SYS != 0 {
                ops.push(MemOp::Barrier);
            }
            let value = write.value;
            ops.push(MemOp::Write32 { at, value });
        }
        abi::TAG_WRITE_MEMORY => {
            // SAFETY: as above.
            let write = unsafe { given.what.writemem };
            let memory = bytes_memory(write.flags)?;
            let to = flags::word("dest", write.dest)?;
            let count = flags::bytes(write.count)?;
            flags::not_null("src", write.src)?;
            let at = resolver.word(to, count, memory)?;
            // SAFETY: not NULL, at most 1024 bytes; the caller promises that they are readable.
            let bytes = unsafe { std::slice::from_raw_parts(write.src, count) };
            if write.flags & abi::WRITE_MEMORY_PRE_BARRIER_SYS != 0 {
                ops.push(MemOp::Barrier);
            }
            ops.extend(lower::words(at, bytes).ok_or(CallError::Bytes { count })?);
            if write.flags & abi::WRITE_MEMORY_POST_BARRIER_SYS != 0 {
                ops.push(MemOp::Barrier);
            }
        }
        abi::TAG_SEND => {
            // SAFETY: as above.
            let doorbell = unsafe { claims.send(given.what.request) }?;
            ops.extend(doorbell.map(|op| op.map(|place| resolver.place(&place))));
        }
        abi::TAG_WAIT => {
            // SAFETY: as above.
            let (wait, appended) = unsafe { claims.wait(given.what.request) }?;
            // With a flush, to make the NIC's earlier writes visible.
            ops.extend(wait.ops(true).map(|op| op.map(|place| resolver.place(&place))));
            for (word, value) in appended {
                let at = resolver.word(word, 4, MemoryType::Gpu)?;
                ops.push(MemOp::Write32 { at, value });
            }
        }
        other => {
            return Err(CallError::Value { of: "gds_tag_t", value: other.into() });
        }
    }
    Ok(())
}

/// The memory type of a wait's flags.
pub(crate) fn wait_memory(flags: i32) -> Result<MemoryType, CallError> {
    flags::memory_type(flags, abi::WAIT_POST_FLUSH_REMOTE)
}

/// The memory type of a word write's flags.
pub(crate) fn write_memory(flags: i32) -> Result<MemoryType, CallError> {
    flags::memory_type(flags, abi::WRITE_PRE_BARRIER_SYS)
}

/// The memory type of a memory write's flags.
pub(crate) fn bytes_memory(flags: i32) -> Result<MemoryType, CallError> {
    let others = abi::WRITE_MEMORY_PRE_BARRIER_SYS | abi::WRITE_MEMORY_POST_BARRIER_SYS;
    flags::memory_type(flags, others)
}
