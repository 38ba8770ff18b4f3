//! The table of live handles: what a copy needs to know of a handle, found without a lock. It owns
//! no mapping: who maps writes the window here, who unmaps takes it out first.
//!
//! A handle is `generation << 16 | slot`. Generations only rise, in a forked child above its
//! parent's, and they begin with the process id, so that neither an old handle nor one of another
//! process is taken for a live one. The table's memory is wiped in a forked child
//! (`MADV_WIPEONFORK`, Linux 4.14): there every handle of the parent is unknown, at no cost to a
//! copy. On a kernel without it a child that copies through its parent's handle gets the same
//! SIGSEGV as with gdrdrv.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use gdrcopy::copy::Copier;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// The process may hold this many handles at a time; `vm.max_map_count`, 65530 as it comes, lets it
/// map no more. 8 MiB of addresses, which programs that lock all their memory get as memory.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;
const INDEX: u64 = (SLOTS - 1) as u64;
/// A process id has at most 22 bits (`PID_MAX_LIMIT`); 16 + 26 + 22 make a handle.
const PIN_BITS: u32 = 26;

/// What one copy reads: two cache lines, of which a small copy needs the first.
#[repr(C, align(64))]
struct Slot {
    /// The live handle, or 0. Written last when a slot is taken and first when it is given back.
    handle: AtomicU64,
    /// Where the mapping begins in this process, or 0 while there is none.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Written while `start` is 0; a value while it is not.
    copier: UnsafeCell<MaybeUninit<Copier>>,
}

/// All slots, once the first buffer is pinned; never unmapped.
static TABLE: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// The part of this process's memory that a handle maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// What copies in and out of it, for as long as it is mapped.
    pub(crate) copier: NonNull<Copier>,
}

/// The window behind `handle`; `None` if the handle is not live or not mapped, which [`refusal`]
/// tells apart.
#[inline]
pub(crate) fn window(handle: u64) -> Option<Window> {
    let slot = slot(handle)?;
    let window = Window {
        start: slot.start.load(Ordering::Acquire),
        bytes: slot.bytes.load(Ordering::Relaxed),
        copier: NonNull::new(slot.copier.get())?.cast(),
    };
    // The slot was not given to somebody else between the first look and the last.
    fence(Ordering::Acquire);
    (window.start != 0 && slot.handle.load(Ordering::Relaxed) == handle).then_some(window)
}

/// Why [`window`] found nothing.
#[cold]
pub(crate) fn call_error(handle: u64) -> CallError {
    match slot(handle) {
        None => CallError::NoHandle { handle },
        Some(_) => CallError::NotMapped { handle },
    }
}

/// Lets copies through `handle` into the `bytes` bytes at `start`.
///
/// # Safety
///
/// No window of the handle is open, and no copy that found one still runs.
pub(crate) unsafe fn open(
    handle: u64,
    start: usize,
    bytes: usize,
    copier: Copier,
) -> Result<(), CallError> {
    let slot = slot(handle).ok_or(CallError::NoHandle { handle })?;
    // SAFETY: nobody reads the copier while `start` is 0, and nobody else writes it: the caller's
    // promise.
    unsafe { slot.copier.get().write(MaybeUninit::new(copier)) };
    slot.bytes.store(bytes, Ordering::Relaxed);
    slot.start.store(start, Ordering::Release);
    Ok(())
}

/// Lets no further copy through `handle`.
pub(crate) fn shut(handle: u64) {
    if let Some(slot) = slot(handle) {
        slot.start.store(0, Ordering::Release);
        slot.bytes.store(0, Ordering::Release);
    }
}

/// The generation of the last handle, of this process or before the fork that made it.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Hands out slots; one for a process.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Slots below this number have been used.
    used: u32,
    /// Those of them that are free, oldest first.
    free: std::collections::VecDeque<u32>,
}

impl Allocator {
    pub(crate) fn new(pid: u32) -> Self {
        // A child in a PID namespace of its own may have its parent's process id, and any a smaller
        // one.
        GENERATION.fetch_max(u64::from(pid) << PIN_BITS, Ordering::AcqRel);
        Self {
            used: 0,
            free: std::collections::VecDeque::new(),
        }
    }

    /// A handle that no one has had before.
    pub(crate) fn take(&mut self) -> Result<u64, CallError> {
        let table = table().map_err(|source| CallError::Table { source })?;
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if (self.used as usize) < SLOTS => {
                self.used += 1;
                self.used - 1
            }
            None => return Err(CallError::TooMany { handles: SLOTS }),
        };
        let generation = GENERATION.fetch_add(1, Ordering::AcqRel) + 1;
        let handle = generation << SLOT_BITS | u64::from(index);
        // SAFETY: `index` is below SLOTS, and `table` points to that many slots, which live as long
        // as the process.
        let slot = unsafe { table.add(index as usize).as_ref() };
        slot.start.store(0, Ordering::Relaxed);
        slot.handle.store(handle, Ordering::Release);
        Ok(handle)
    }

    pub(crate) fn give_back(&mut self, handle: u64) {
        if let Some(slot) = slot(handle) {
            slot.handle.store(0, Ordering::Release);
            // A copy that saw the handle alive sees it gone before it sees the next owner's window.
            fence(Ordering::SeqCst);
            slot.start.store(0, Ordering::Relaxed);
            self.free.push_back((handle & INDEX) as u32);
        }
    }
}

#[inline]
fn slot(handle: u64) -> Option<&'static Slot> {
    let table = NonNull::new(TABLE.load(Ordering::Acquire))?;
    // SAFETY: a non-null TABLE points to SLOTS slots that live as long as the process, and the
    // index is below SLOTS. Zeroed pages are a value of its fields, and shared use is sound: all
    // but `copier` are atomics, and that one is written and read in turns that `start` marks.
    let slot = unsafe { table.add((handle & INDEX) as usize).as_ref() };
    (handle != 0 && slot.handle.load(Ordering::Acquire) == handle).then_some(slot)
}

/// The table; reserved at the first call. Its pages cost memory once a slot in them is used.
fn table() -> Result<NonNull<Slot>, rustix::io::Errno> {
    if let Some(table) = NonNull::new(TABLE.load(Ordering::Acquire)) {
        return Ok(table);
    }
    let bytes = SLOTS * size_of::<Slot>();
    // Miri knows plain mappings alone, and no advice.
    let flags = match cfg!(miri) {
        true => MapFlags::PRIVATE,
        false => MapFlags::PRIVATE | MapFlags::NORESERVE,
    };
    let advices: &[Advice] = match cfg!(miri) {
        true => &[],
        false => &[Advice::LinuxWipeOnFork, Advice::LinuxNoHugepage],
    };
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of
    // anybody's.
    let fresh = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )?
    };
    for &advice in advices {
        // SAFETY: the range is the mapping just made, that nobody else knows yet, and neither
        // advice changes in this process what is in it.
        if let Err(refused) = unsafe { rustix::mm::madvise(fresh, bytes, advice) } {
            // Works without either: see the heading for what is lost.
            log::say(
                Level::Warning,
                format_args!("madvise({advice:?}): {}", gpu::sentence(&refused)),
            );
        }
    }
    match TABLE.compare_exchange(
        std::ptr::null_mut(),
        fresh.cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => NonNull::new(fresh.cast()).ok_or(rustix::io::Errno::NOMEM),
        Err(other) => {
            // SAFETY: somebody else's table is in place; this mapping was never shown to anybody.
            let _ = unsafe { rustix::mm::munmap(fresh, bytes) };
            NonNull::new(other).ok_or(rustix::io::Errno::NOMEM)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_from_take_to_give_back_and_never_again() {
        let mut slots = Allocator::new(7);
        let first = slots.take().unwrap();
        // Above 7 << 26, then 16 bits of slot number.
        assert!(first >> 16 > 7 << 26);
        assert_eq!(window(first), None);
        assert!(matches!(call_error(first), CallError::NotMapped { .. }));
        let copier = Copier::for_caching(gdrcopy::copy::Caching::Cached).unwrap();
        // SAFETY: this test alone has the handle.
        unsafe { open(first, 0x1000, 64, copier).unwrap() };
        let seen = window(first).unwrap();
        assert_eq!((seen.start, seen.bytes), (0x1000, 64));
        shut(first);
        assert!(matches!(call_error(first), CallError::NotMapped { .. }));
        slots.give_back(first);
        assert_eq!(window(first), None);
        assert!(matches!(call_error(first), CallError::NoHandle { .. }));
        let second = slots.take().unwrap();
        assert_eq!(first & INDEX, second & INDEX, "the slot is used again");
        assert_ne!(first, second);
        assert!(matches!(call_error(first), CallError::NoHandle { .. }));
        slots.give_back(second);
        slots.give_back(second);
        assert_eq!(slots.free.len(), 1, "a slot given back twice is free once");
    }

    #[test]
    fn no_handle_is_given_out_again_to_a_process_of_the_same_id() {
        let of_parent = Allocator {
            used: 200,
            ..Allocator::new(7)
        }
        .take()
        .unwrap();
        let of_child = Allocator {
            used: 200,
            ..Allocator::new(7)
        }
        .take()
        .unwrap();
        assert_eq!(of_parent & INDEX, of_child & INDEX);
        assert!(of_child > of_parent);
    }

    #[test]
    fn made_up_handles_are_unknown() {
        // The table is the process's: slot 0 belongs to the other test.
        let mut slots = Allocator {
            used: 100,
            ..Allocator::new(9)
        };
        let live = slots.take().unwrap();
        for handle in [0, 1, u64::MAX, live ^ 1, live ^ (1 << 63), INDEX, !INDEX] {
            assert!(
                matches!(call_error(handle), CallError::NoHandle { .. }),
                "{handle:#x}"
            );
        }
        slots.give_back(live);
    }
}
