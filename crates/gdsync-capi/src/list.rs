//! A C program's descriptors made into the core's: each is looked at, and each word found, before anything is done.

use engine::descriptor::{self, Capabilities, Descriptor, Further, Impossible, Step};
use engine::queue::{Step as Ring, Wait};

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

/// The core's list, and which of the program's descriptors each of it came from.
pub(crate) struct List<A> {
    pub(crate) made: Vec<Descriptor<A>>,
    from: Vec<usize>,
}

/// Where things are, in the terms of whoever does a list.
pub(crate) trait Finds<A> {
    /// A word that the program named, or the first of as many bytes.
    fn word(&mut self, address: usize, bytes: usize, memory: MemoryType) -> Result<A, CallError>;
    /// A word of a queue.
    fn place(&mut self, place: &engine::Place) -> A;
}

/// Makes the core's list. Requests are given away to `claims`.
///
/// # Safety
///
/// Of each descriptor the member of its tag is filled in, and what a write of memory copies can be read.
pub(crate) unsafe fn read<A>(
    given: &[abi::Descriptor],
    claims: &mut Claims,
    finds: &mut impl Finds<A>,
) -> Result<List<A>, CallError> {
    let mut list = List {
        made: Vec::with_capacity(given.len()),
        from: Vec::with_capacity(given.len()),
    };
    for (position, given) in given.iter().enumerate() {
        claims.at(position);
        // SAFETY: the caller's promise.
        let read = unsafe { one(given, claims, finds, &mut list.made) };
        read.map_err(|source| CallError::Descriptor {
            position,
            source: Box::new(source),
        })?;
        list.from.resize(list.made.len(), position);
    }
    Ok(list)
}

impl<A: Further> List<A> {
    /// Which of the program's descriptors a step came from.
    pub(crate) fn origin(&self, can: Capabilities, step: usize) -> usize {
        let made = descriptor::origin(&self.made, can, step).unwrap_or(0);
        self.from.get(made).copied().unwrap_or(0)
    }

    /// The steps that say the same.
    pub(crate) fn steps(&self, can: Capabilities) -> Result<Vec<Step<A>>, CallError> {
        descriptor::steps(&self.made, can).map_err(|impossible| {
            let of = |position: usize| self.from.get(position).copied().unwrap_or(position);
            let source = match impossible {
                Impossible::Words(position) => Impossible::Words(of(position)),
                Impossible::Nor(position) => Impossible::Nor(of(position)),
                Impossible::Bytes { position, bytes } => Impossible::Bytes {
                    position: of(position),
                    bytes,
                },
            };
            CallError::Impossible { source }
        })
    }
}

/// # Safety
///
/// As [`read`].
unsafe fn one<A>(
    given: &abi::Descriptor,
    claims: &mut Claims,
    finds: &mut impl Finds<A>,
    made: &mut Vec<Descriptor<A>>,
) -> Result<(), CallError> {
    made.push(match given.tag {
        abi::TAG_WAIT_VALUE32 => {
            // SAFETY: the tag says which member it is.
            let wait = unsafe { given.what.wait32 };
            let memory = wait_memory(wait.flags)?;
            let compare = flags::compare(wait.cond_flags)?;
            Descriptor::Wait32 {
                at: finds.word(flags::word("ptr", wait.ptr.cast())?, 4, memory)?,
                value: wait.value,
                compare,
                flush: wait.flags & abi::WAIT_POST_FLUSH_REMOTE != 0,
            }
        }
        abi::TAG_WRITE_VALUE32 => {
            // SAFETY: as above.
            let write = unsafe { given.what.write32 };
            let memory = write_memory(write.flags)?;
            Descriptor::Write32 {
                at: finds.word(flags::word("ptr", write.ptr.cast())?, 4, memory)?,
                value: write.value,
                barrier: write.flags & abi::WRITE_PRE_BARRIER_SYS != 0,
            }
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
            Descriptor::Write {
                at,
                bytes: bytes.to_vec(),
                before: write.flags & abi::WRITE_MEMORY_PRE_BARRIER_SYS != 0,
                after: write.flags & abi::WRITE_MEMORY_POST_BARRIER_SYS != 0,
            }
        }
        abi::TAG_SEND => {
            // SAFETY: as above.
            let steps = unsafe { claims.send(given.what.request) }?;
            made.extend(steps.iter().map(|step| rings(step, finds)));
            return Ok(());
        }
        abi::TAG_WAIT => {
            // SAFETY: as above.
            let (wait, appended) = unsafe { claims.wait(given.what.request) }?;
            return waits(&wait, &appended, finds, made);
        }
        other => {
            return Err(CallError::Value {
                of: "gds_tag_t",
                value: other.into(),
            });
        }
    });
    Ok(())
}

/// A step that rings a doorbell.
fn rings<A>(step: &Ring, finds: &mut impl Finds<A>) -> Descriptor<A> {
    let barrier = false;
    match step {
        Ring::Write32 { place, value } => Descriptor::Write32 {
            at: finds.place(place),
            value: *value,
            barrier,
        },
        Ring::Barrier => Descriptor::Barrier,
        Ring::Write64 { place, value } => Descriptor::Write64 {
            at: finds.place(place),
            value: *value,
            barrier,
        },
    }
}

/// The wait for a completion, the word that lets the CPU poll it, and what the program appended, at addresses of the GPU. What the
/// NIC wrote before the completion is visible then.
fn waits<A>(
    wait: &Wait,
    appended: &[(usize, u32)],
    finds: &mut impl Finds<A>,
    made: &mut Vec<Descriptor<A>>,
) -> Result<(), CallError> {
    let (value, compare) = wait.condition();
    made.push(Descriptor::Wait32 {
        at: finds.place(wait.word()),
        value,
        compare,
        flush: true,
    });
    made.push(Descriptor::Write32 {
        at: finds.place(wait.busy()),
        value: 0,
        barrier: false,
    });
    for &(word, value) in appended {
        made.push(Descriptor::Write32 {
            at: finds.word(word, 4, MemoryType::Gpu)?,
            value,
            barrier: false,
        });
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
