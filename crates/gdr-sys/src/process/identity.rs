//! Process identity: a number that no ancestor has.
//!
//! The number is in a page that the kernel wipes in a forked child (`MADV_WIPEONFORK`, Linux 4.14):
//! a child reads 0 and takes the next number, however it was created. Without that (before 4.14,
//! some sandboxes and emulators), the C library's `fork` handler or a changed process ID makes the
//! child take the next number. There a child of the bare `clone` system call with its parent's
//! process ID is not detected.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Process identity, equal in all threads of a process and different from every ancestor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process(u64);

impl Process {
    /// The calling process. Two loads, or a system call if the kernel does not wipe pages.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        Self(SOURCE.number())
    }

    /// 1 for the first process, larger in its children.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

static SOURCE: Source = Source::new();

/// Source of the numbers.
struct Source {
    /// Page wiped in children; null before the first call, or if unavailable.
    page: AtomicPtr<AtomicU64>,
    /// True if the page is unavailable.
    is_refused: AtomicBool,
    /// Last number taken by this process or an ancestor, inherited by children.
    last: AtomicU64,
    /// Without a page: process ID in the upper 24 bits, number below; 0 if a number must be taken.
    unwiped: AtomicU64,
}

const PID_SHIFT: u32 = 40;

impl Source {
    const fn new() -> Self {
        Self {
            page: AtomicPtr::new(null_mut()),
            is_refused: AtomicBool::new(false),
            last: AtomicU64::new(0),
            unwiped: AtomicU64::new(0),
        }
    }

    #[inline]
    fn number(&self) -> u64 {
        // SAFETY: null, or a page from `wiped_page` that is never unmapped; all zero is a valid
        // value.
        if let Some(page) = unsafe { self.page.load(Ordering::Acquire).as_ref() } {
            let number = page.load(Ordering::Relaxed);
            if number != 0 {
                return number;
            }
        }
        self.take_number()
    }

    #[cold]
    fn take_number(&self) -> u64 {
        match self.page() {
            Some(page) => {
                let next = self.next();
                // Another thread may have set it first.
                let taken = page.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
                taken.map_or_else(|theirs| theirs, |_| next)
            }
            None => self.without_page(),
        }
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn page(&self) -> Option<&'static AtomicU64> {
        let known = self.page.load(Ordering::Acquire);
        // SAFETY: as in `number`.
        if let Some(known) = unsafe { known.as_ref() } {
            return Some(known);
        }
        if self.is_refused.load(Ordering::Acquire) {
            return None;
        }
        let Some(fresh) = wiped_page() else {
            // Permanent: mixing both kinds of numbers would make a process's own objects look
            // inherited.
            self.is_refused.store(true, Ordering::Release);
            return None;
        };
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let shown = match self.page.compare_exchange(null_mut(), fresh.as_ptr(), success, failure) {
            Ok(_) => fresh.as_ptr(),
            Err(theirs) => {
                // SAFETY: the page made above, not shared.
                unsafe { libc::munmap(fresh.as_ptr().cast(), BYTES) };
                theirs
            }
        };
        // SAFETY: as in `number`.
        unsafe { shown.as_ref() }
    }

    fn without_page(&self) -> u64 {
        forget_in_children();
        let pid = u64::from(std::process::id()) << PID_SHIFT;
        let of_word = |word: u64| word & ((1 << PID_SHIFT) - 1);
        let mut known = self.unwiped.load(Ordering::Acquire);
        loop {
            if known != 0 && known & !((1 << PID_SHIFT) - 1) == pid {
                return of_word(known);
            }
            let fresh = pid | of_word(self.next());
            match self.unwiped.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return of_word(fresh),
                Err(theirs) => known = theirs,
            }
        }
    }
}

/// Mapping size for a number; the kernel maps and wipes whole pages.
const BYTES: usize = size_of::<AtomicU64>();

/// Maps a zeroed page that is zeroed again in forked children.
fn wiped_page() -> Option<NonNull<AtomicU64>> {
    // Miri does not support the advice, and no process forks there.
    if cfg!(miri) {
        return None;
    }
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a kernel-chosen address replaces nothing.
    let page = unsafe { libc::mmap(null_mut(), BYTES, rights, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page made above; the advice changes nothing in this process.
    if unsafe { libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above, not shared.
        unsafe { libc::munmap(page, BYTES) };
        return None;
    }
    NonNull::new(page.cast())
}

/// Registers a `fork` handler that clears the number in the child.
fn forget_in_children() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    // Miri does not support fork handlers.
    if !cfg!(miri) && !ASKED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler stores to a static. If registration runs out of memory, the process
        // ID still distinguishes children.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    }
}

extern "C" fn forget() {
    SOURCE.unwiped.store(0, Ordering::Release);
    #[cfg(test)]
    tests::UNWIPED.unwiped.store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaves as on a kernel that does not wipe pages.
    pub(super) static UNWIPED: Source =
        Source { is_refused: AtomicBool::new(true), ..Source::new() };

    /// Exit code of a forked child that runs this.
    #[cfg(not(miri))]
    fn in_child(does: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child calls only lock-free code and ends by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(does());
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status
    }

    #[test]
    fn threads_share_number() {
        for source in [&Source::new(), &UNWIPED] {
            let numbers = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| source.number())).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            assert!(
                numbers[0] != 0 && numbers.iter().all(|number| *number == numbers[0]),
                "{numbers:?}"
            );
            assert_eq!(source.number(), numbers[0]);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn children_and_grandchildren_differ() {
        static WIPED: Source = Source::new();
        for source in [&WIPED, &UNWIPED] {
            let mine = source.number();
            assert_eq!(
                source.page.load(Ordering::Relaxed).is_null(),
                std::ptr::eq(source, &UNWIPED)
            );
            let differs = || {
                let child = source.number();
                let grandchild = || ![mine, child].contains(&source.number());
                child != mine && child == source.number() && in_child(grandchild) == 1 << 8
            };
            assert_eq!(in_child(differs), 1 << 8);
            assert_eq!(source.number(), mine);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn child_of_raw_clone_differs() {
        let mine = Process::current();
        // SAFETY: as fork, without the handlers; the child only loads, stores and exits.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(Process::current() != mine)) };
        }
        let mut status = 0;
        assert_eq!(
            // SAFETY: `status` lives through the call.
            unsafe { libc::waitpid(child as i32, &raw mut status, 0) },
            child as i32
        );
        assert_eq!(status, 1 << 8);
    }
}
