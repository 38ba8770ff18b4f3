//! Lock-free table of live handles for copies. It owns no mapping: mapping writes the window here,
//! unmapping removes it first.
//!
//! A handle is `generation << 16 | slot`. Generations increase, also from parent to forked child,
//! and start with the process id, so that no old or foreign handle matches a live one. The kernel
//! wipes the table in a forked child (`MADV_WIPEONFORK`, Linux 4.14), so that all handles of the
//! parent are unknown there without cost to a copy. On older kernels, a child that copies through
//! its parent's handle gets SIGSEGV, as with gdrdrv.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use gdrcopy::copy::Copier;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Maximum live handles; the default `vm.max_map_count`, 65530, allows no more mappings. Reserves 8
/// MiB of addresses, which become memory in programs that lock all their memory.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;
const INDEX: u64 = (SLOTS - 1) as u64;
/// A process id has at most 22 bits (`PID_MAX_LIMIT`); 16 + 26 + 22 bits form a handle.
const PIN_BITS: u32 = 26;

/// Slot of a handle: two cache lines, of which a small copy needs the first.
#[repr(C, align(64))]
struct Slot {
    /// Live handle, or 0. Written last when a slot is taken and first when it is released.
    handle: AtomicU64,
    /// CPU address of the mapping, or 0 if unmapped.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Written while `start` is 0; initialised while it is not.
    copier: UnsafeCell<MaybeUninit<Copier>>,
}

/// What every copy reads of the process, in one cache line.
#[repr(align(64))]
pub(crate) struct Process {
    /// All slots, allocated with the first pinned buffer; never unmapped.
    table: AtomicPtr<Slot>,
    /// Live mappings by type.
    pub(crate) alive: AtomicU64,
}

pub(crate) static PROCESS: Process =
    Process { table: AtomicPtr::new(std::ptr::null_mut()), alive: AtomicU64::new(0) };

/// Mapped memory of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// Copier of the mapping, valid while mapped.
    pub(crate) copier: NonNull<Copier>,
}

/// Window of `handle`; `None` if the handle is not live or not mapped, which [`call_error`]
/// distinguishes.
#[inline]
pub(crate) fn window(handle: u64) -> Option<Window> {
    let slot = slot(handle)?;
    let window = Window {
        start: slot.start.load(Ordering::Acquire),
        bytes: slot.bytes.load(Ordering::Relaxed),
        copier: NonNull::new(slot.copier.get())?.cast(),
    };
    // The slot was not reused between the first and the last look.
    fence(Ordering::Acquire);
    (window.start != 0 && slot.handle.load(Ordering::Relaxed) == handle).then_some(window)
}

/// Why [`window`] returned `None`.
#[cold]
pub(crate) fn call_error(handle: u64) -> CallError {
    match slot(handle) {
        None => CallError::NoHandle { handle },
        Some(_) => CallError::NotMapped { handle },
    }
}

/// Allows copies through `handle` into the `bytes` bytes at `start`.
///
/// # Safety
///
/// The handle has no open window, and no copy through an earlier one still runs.
pub(crate) unsafe fn open(
    handle: u64,
    start: usize,
    bytes: usize,
    copier: Copier,
) -> Result<(), CallError> {
    let slot = slot(handle).ok_or(CallError::NoHandle { handle })?;
    // SAFETY: nothing reads the copier while `start` is 0, and the caller is its only writer.
    unsafe { slot.copier.get().write(MaybeUninit::new(copier)) };
    slot.bytes.store(bytes, Ordering::Relaxed);
    slot.start.store(start, Ordering::Release);
    Ok(())
}

/// Stops further copies through `handle`.
pub(crate) fn shut(handle: u64) {
    if let Some(slot) = slot(handle) {
        slot.start.store(0, Ordering::Release);
        slot.bytes.store(0, Ordering::Release);
    }
}

/// Generation of the last handle, in this process or its ancestors.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Slot allocator of a process.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Slots below this number have been used.
    used: u32,
    /// Free slots among them, oldest first.
    free: std::collections::VecDeque<u32>,
}

impl Allocator {
    pub(crate) fn new(pid: u32) -> Self {
        // A child in its own PID namespace may have the same or a smaller process id.
        GENERATION.fetch_max(u64::from(pid) << PIN_BITS, Ordering::AcqRel);
        Self { used: 0, free: std::collections::VecDeque::new() }
    }

    /// New handle, never used before.
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
            // A copy that saw the handle live sees it gone before the next owner's window.
            fence(Ordering::SeqCst);
            slot.start.store(0, Ordering::Relaxed);
            self.free.push_back((handle & INDEX) as u32);
        }
    }
}

#[inline]
fn slot(handle: u64) -> Option<&'static Slot> {
    let table = NonNull::new(PROCESS.table.load(Ordering::Acquire))?;
    // SAFETY: a non-null table points to SLOTS slots that live as long as the process, and the
    // index is below SLOTS. Zeroed pages are valid slots. All fields but `copier` are atomics;
    // `start` orders reads and writes of `copier`.
    let slot = unsafe { table.add((handle & INDEX) as usize).as_ref() };
    (handle != 0 && slot.handle.load(Ordering::Acquire) == handle).then_some(slot)
}

/// The table, reserved at the first call. A page uses memory once one of its slots is used.
fn table() -> Result<NonNull<Slot>, rustix::io::Errno> {
    if let Some(table) = NonNull::new(PROCESS.table.load(Ordering::Acquire)) {
        return Ok(table);
    }
    let bytes = SLOTS * size_of::<Slot>();
    // Miri supports only plain mappings without advice.
    let flags =
        if cfg!(miri) { MapFlags::PRIVATE } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
    let advices: &[Advice] =
        if cfg!(miri) { &[] } else { &[Advice::LinuxWipeOnFork, Advice::LinuxNoHugepage] };
    // SAFETY: a new anonymous mapping at an address that the kernel chooses.
    let fresh = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )?
    };
    for &advice in advices {
        // SAFETY: the range was mapped above and is not shared yet; neither advice changes its
        // contents in this process.
        if let Err(error) = unsafe { rustix::mm::madvise(fresh, bytes, advice) } {
            // Works without either; the module documentation describes the consequences.
            log::write(
                Level::Warning,
                format_args!("madvise({advice:?}): {}", gpu::sentence(&error)),
            );
        }
    }
    match PROCESS.table.compare_exchange(
        std::ptr::null_mut(),
        fresh.cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => NonNull::new(fresh.cast()).ok_or(rustix::io::Errno::NOMEM),
        Err(other) => {
            // SAFETY: another thread's table is in use; this mapping was never shared.
            let _ = unsafe { rustix::mm::munmap(fresh, bytes) };
            NonNull::new(other).ok_or(rustix::io::Errno::NOMEM)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_lifetime() {
        let mut slots = Allocator::new(7);
        let first = slots.take().unwrap();
        // Above 7 << 26, then 16 bits of slot number.
        assert!(first >> 16 > 7 << 26);
        assert_eq!(window(first), None);
        assert!(matches!(call_error(first), CallError::NotMapped { .. }));
        let copier = Copier::for_caching(gdrcopy::copy::Caching::Cached).unwrap();
        // SAFETY: only this test has the handle.
        unsafe { open(first, 0x1000, 64, copier).unwrap() };
        let seen = window(first).unwrap();
        assert_eq!((seen.start, seen.bytes), (0x1000, 64));
        shut(first);
        assert!(matches!(call_error(first), CallError::NotMapped { .. }));
        slots.give_back(first);
        assert_eq!(window(first), None);
        assert!(matches!(call_error(first), CallError::NoHandle { .. }));
        let second = slots.take().unwrap();
        assert_eq!(first & INDEX, second & INDEX, "the slot is reused");
        assert_ne!(first, second);
        assert!(matches!(call_error(first), CallError::NoHandle { .. }));
        slots.give_back(second);
        slots.give_back(second);
        assert_eq!(slots.free.len(), 1, "a slot released twice is free once");
    }

    #[test]
    fn same_pid_gets_new_handles() {
        let of_parent = Allocator { used: 200, ..Allocator::new(7) }.take().unwrap();
        let of_child = Allocator { used: 200, ..Allocator::new(7) }.take().unwrap();
        assert_eq!(of_parent & INDEX, of_child & INDEX);
        assert!(of_child > of_parent);
    }

    #[test]
    fn rejects_made_up_handles() {
        // The table belongs to the process: slot 0 is used by the other test.
        let mut slots = Allocator { used: 100, ..Allocator::new(9) };
        let live = slots.take().unwrap();
        for handle in [0, 1, u64::MAX, live ^ 1, live ^ (1 << 63), INDEX, !INDEX] {
            assert!(matches!(call_error(handle), CallError::NoHandle { .. }), "{handle:#x}");
        }
        slots.give_back(live);
    }
}
