//! A C program's descriptors as memory operations: each is checked, and each word found, before anything is done.

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
/// `list` is NULL or has `count` descriptors, which nobody changes meanwhile, each with the member of its tag filled in.
pub(crate) unsafe fn given<'a>(
    count: usize,
    list: *const abi::Descriptor,
) -> Result<&'a [abi::Descriptor], CallError> {
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(CallError::Null { what: "descs" });
    }
    if !list.is_aligned() {
        return Err(CallError::Misaligned {
            what: "descs",
            address: list.addr(),
            alignment: align_of::<abi::Descriptor>(),
        });
    }
    if count
        .checked_mul(size_of::<abi::Descriptor>())
        .is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        return Err(CallError::Count { count });
    }
    // SAFETY: not NULL, aligned, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Memory operations, and the program's descriptor that each came from.
pub(crate) struct List<A> {
    pub(crate) ops: Vec<MemOp<A>>,
    from: Vec<usize>,
}

/// Finds the words of a list, as the GPU or the CPU reaches them.
pub(crate) trait Finds<A> {
    /// A word that the program named, or the first of `bytes` bytes.
    fn word(&mut self, address: usize, bytes: usize, memory: MemoryType) -> Result<A, CallError>;
    /// A word of a queue.
    fn place(&mut self, place: &engine::Place) -> A;
}

impl<A> List<A> {
    /// The position of the program's descriptor that an operation came from.
    pub(crate) fn descriptor(&self, op: usize) -> usize {
        self.from.get(op).copied().unwrap_or(op)
    }
}

/// Makes a list of the program's descriptors. Their requests are posted, and `claims` takes them back unless it keeps them.
///
/// # Safety
///
/// Of each descriptor the member of its tag is filled in, and what a write of memory copies can be read.
pub(crate) unsafe fn read<A: Offset>(
    given: &[abi::Descriptor],
    claims: &mut Claims,
    finds: &mut impl Finds<A>,
) -> Result<List<A>, CallError> {
    let mut list = List {
        ops: Vec::with_capacity(given.len()),
        from: Vec::with_capacity(given.len()),
    };
    for (position, given) in given.iter().enumerate() {
        claims.at(position);
        // SAFETY: the caller's promise.
        let read = unsafe { one(given, claims, finds, &mut list.ops) };
        read.map_err(|source| CallError::Descriptor {
            position,
            source: Box::new(source),
        })?;
        list.from.resize(list.ops.len(), position);
    }
    Ok(list)
}

/// # Safety
///
/// As [`read`].
unsafe fn one<A: Offset>(
    given: &abi::Descriptor,
    claims: &mut Claims,
    finds: &mut impl Finds<A>,
    ops: &mut Vec<MemOp<A>>,
) -> Result<(), CallError> {
    match given.tag {
        abi::TAG_WAIT_VALUE32 => {
            // SAFETY: the tag says which member it is.
            let wait = unsafe { given.what.wait32 };
            let memory = wait_memory(wait.flags)?;
            let compare = flags::compare(wait.cond_flags)?;
            ops.push(MemOp::Wait32 {
                at: finds.word(flags::word("ptr", wait.ptr.cast())?, 4, memory)?,
                value: wait.value,
                compare,
                flush: wait.flags & abi::WAIT_POST_FLUSH_REMOTE != 0,
            });
        }
        abi::TAG_WRITE_VALUE32 => {
            // SAFETY: as above.
            let write = unsafe { given.what.write32 };
            let memory = write_memory(write.flags)?;
            let at = finds.word(flags::word("ptr", write.ptr.cast())?, 4, memory)?;
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
            if write.src.is_null() {
                return Err(CallError::Null { what: "src" });
            }
            let at = finds.word(to, count, memory)?;
            // SAFETY: not NULL, at most 1024, and the caller promises that they can be read.
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
            ops.extend(doorbell.map(|op| op.map(|place| finds.place(&place))));
        }
        abi::TAG_WAIT => {
            // SAFETY: as above.
            let (wait, appended) = unsafe { claims.wait(given.what.request) }?;
            // What the NIC wrote before the completion is visible then.
            ops.extend(wait.ops(true).map(|op| op.map(|place| finds.place(&place))));
            for (word, value) in appended {
                let at = finds.word(word, 4, MemoryType::Gpu)?;
                ops.push(MemOp::Write32 { at, value });
            }
        }
        other => {
            return Err(CallError::Value {
                of: "gds_tag_t",
                value: other.into(),
            });
        }
    }
    Ok(())
}

/// The memory type of a wait's flags.
pub(crate) fn wait_memory(flags: i32) -> Result<MemoryType, CallError> {
    flags::memory_type(flags, abi::WAIT_POST_FLUSH_REMOTE)
}

/// Of those of the write of a word.
pub(crate) fn write_memory(flags: i32) -> Result<MemoryType, CallError> {
    flags::memory_type(flags, abi::WRITE_PRE_BARRIER_SYS)
}

/// Of those of a write of bytes.
pub(crate) fn bytes_memory(flags: i32) -> Result<MemoryType, CallError> {
    let others = abi::WRITE_MEMORY_PRE_BARRIER_SYS | abi::WRITE_MEMORY_POST_BARRIER_SYS;
    flags::memory_type(flags, others)
}
