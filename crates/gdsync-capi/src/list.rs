//! A C program's descriptors made into the core's: each is looked at, and each word found, before anything is done.

use engine::descriptor::Descriptor;

use crate::abi;
use crate::flags::{self, MemoryType};
use crate::refusal::Refusal;

/// The descriptors of an array.
///
/// # Safety
///
/// `list` is NULL or has `count` descriptors, which nobody changes meanwhile, each with the member of its tag filled in.
pub(crate) unsafe fn given<'a>(count: usize, list: *const abi::Descriptor) -> Result<&'a [abi::Descriptor], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Refusal::Null { what: "descs" });
    }
    if !list.is_aligned() {
        return Err(Refusal::Misaligned {
            what: "descs",
            address: list.addr(),
            alignment: align_of::<abi::Descriptor>(),
        });
    }
    if count
        .checked_mul(size_of::<abi::Descriptor>())
        .is_none_or(|bytes| bytes > isize::MAX as usize)
    {
        return Err(Refusal::Count { count });
    }
    // SAFETY: not NULL, aligned, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Makes the core's list; `find` gives where a word is, or the first of as many bytes, in the terms of whoever does the list.
///
/// # Safety
///
/// Of each descriptor the member of its tag is filled in, and what a write of memory copies can be read.
pub(crate) unsafe fn read<A>(
    given: &[abi::Descriptor],
    mut find: impl FnMut(usize, usize, MemoryType) -> Result<A, Refusal>,
) -> Result<Vec<Descriptor<A>>, Refusal> {
    let each = given.iter().enumerate().map(|(position, given)| {
        // SAFETY: the caller's promise.
        unsafe { one(given, &mut find) }.map_err(|source| Refusal::Descriptor {
            position,
            source: Box::new(source),
        })
    });
    each.collect()
}

/// # Safety
///
/// As [`read`].
unsafe fn one<A>(
    given: &abi::Descriptor,
    find: &mut impl FnMut(usize, usize, MemoryType) -> Result<A, Refusal>,
) -> Result<Descriptor<A>, Refusal> {
    match given.tag {
        abi::TAG_WAIT_VALUE32 => {
            // SAFETY: the tag says which member it is.
            let wait = unsafe { given.what.wait32 };
            let memory = wait_memory(wait.flags)?;
            let compare = flags::compare(wait.cond_flags)?;
            Ok(Descriptor::Wait32 {
                at: find(flags::word("ptr", wait.ptr.cast())?, 4, memory)?,
                value: wait.value,
                compare,
                flush: wait.flags & abi::WAIT_POST_FLUSH_REMOTE != 0,
            })
        }
        abi::TAG_WRITE_VALUE32 => {
            // SAFETY: as above.
            let write = unsafe { given.what.write32 };
            let memory = write_memory(write.flags)?;
            Ok(Descriptor::Write32 {
                at: find(flags::word("ptr", write.ptr.cast())?, 4, memory)?,
                value: write.value,
                barrier: write.flags & abi::WRITE_PRE_BARRIER_SYS != 0,
            })
        }
        abi::TAG_WRITE_MEMORY => {
            // SAFETY: as above.
            let write = unsafe { given.what.writemem };
            let memory = bytes_memory(write.flags)?;
            let to = flags::word("dest", write.dest)?;
            let count = flags::bytes(write.count)?;
            if write.src.is_null() {
                return Err(Refusal::Null { what: "src" });
            }
            let at = find(to, count, memory)?;
            // SAFETY: not NULL, at most 1024, and the caller promises that they can be read.
            let bytes = unsafe { std::slice::from_raw_parts(write.src, count) };
            Ok(Descriptor::Write {
                at,
                bytes: bytes.to_vec(),
                before: write.flags & abi::WRITE_MEMORY_PRE_BARRIER_SYS != 0,
                after: write.flags & abi::WRITE_MEMORY_POST_BARRIER_SYS != 0,
            })
        }
        tag @ (abi::TAG_SEND | abi::TAG_WAIT) => Err(Refusal::NotYet { tag }),
        other => Err(Refusal::Value {
            of: "gds_tag_t",
            value: other.into(),
        }),
    }
}

/// The memory type of a wait's flags.
pub(crate) fn wait_memory(flags: i32) -> Result<MemoryType, Refusal> {
    flags::memory_type(flags, abi::WAIT_POST_FLUSH_REMOTE)
}

/// Of those of the write of a word.
pub(crate) fn write_memory(flags: i32) -> Result<MemoryType, Refusal> {
    flags::memory_type(flags, abi::WRITE_PRE_BARRIER_SYS)
}

/// Of those of a write of bytes.
pub(crate) fn bytes_memory(flags: i32) -> Result<MemoryType, Refusal> {
    let others = abi::WRITE_MEMORY_PRE_BARRIER_SYS | abi::WRITE_MEMORY_POST_BARRIER_SYS;
    flags::memory_type(flags, others)
}
