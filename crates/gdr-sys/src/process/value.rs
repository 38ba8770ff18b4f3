//! Lock-free values: created by each process for itself, or set once.

use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Process;

/// Per-process value, created at first use. A forked child creates a new one and leaks the
/// parent's: its locks may be held, and dropping it would release the parent's resources.
///
/// Threads that race to create it each make one; one of these is kept.
pub struct PerProcess<T> {
    value: AtomicPtr<Owned<T>>,
    make: fn() -> T,
}

struct Owned<T> {
    process: Process,
    value: T,
}

// SAFETY: the value is shared with all threads that share this, and dropped by the thread that
// drops it.
unsafe impl<T: Send + Sync> Send for PerProcess<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

impl<T> PerProcess<T> {
    /// Creates values with `make`, which must not wait for another thread.
    #[must_use]
    pub const fn new(make: fn() -> T) -> Self {
        let value = AtomicPtr::new(null_mut());
        Self { value, make }
    }

    #[inline]
    pub fn get(&self) -> &T {
        let process = Process::current();
        let present = self.value.load(Ordering::Acquire);
        // SAFETY: null, or a box leaked below; only the drop of `self` frees this process's value.
        match unsafe { present.as_ref() } {
            Some(owned) if owned.process == process => &owned.value,
            _ => self.make(present, process),
        }
    }

    #[cold]
    fn make(&self, mut present: *mut Owned<T>, process: Process) -> &T {
        let value = (self.make)();
        let fresh = Box::into_raw(Box::new(Owned { process, value }));
        loop {
            match self.value.compare_exchange(present, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: just leaked from a box, and freed only by the drop of `self`.
                Ok(_) => return unsafe { &(*fresh).value },
                Err(other) => present = other,
            }
            // SAFETY: as in `get`.
            if let Some(owned) = unsafe { present.as_ref() }
                && owned.process == process
            {
                // SAFETY: allocated above and not shared.
                drop(unsafe { Box::from_raw(fresh) });
                return &owned.value;
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let value = *self.value.get_mut();
        // SAFETY: null or a leaked box, and drop has exclusive access to it.
        let is_ours =
            unsafe { value.as_ref() }.is_some_and(|owned| owned.process == Process::current());
        if is_ours {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerProcess").field(self.get()).finish()
    }
}

/// Value set once by the first caller and then constant, in children too.
pub struct SetOnce<T>(AtomicPtr<T>);

// SAFETY: the value is shared with all threads that share this, and dropped by the thread that
// drops it.
unsafe impl<T: Send + Sync> Send for SetOnce<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// Unset value.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The value, if set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: null, or a box leaked in `set`, freed only by the drop of `self`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the value if unset.
    ///
    /// # Errors
    ///
    /// The existing value.
    pub fn set(&self, value: T) -> Result<&T, &T> {
        let fresh = Box::into_raw(Box::new(value));
        match self.0.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just leaked from a box, and freed only by the drop of `self`.
            Ok(_) => Ok(unsafe { &*fresh }),
            Err(first) => {
                // SAFETY: allocated above and not shared.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as in `get`.
                Err(unsafe { &*first })
            }
        }
    }

    /// Returns the value, creating it if unset. Threads that race each create one.
    pub fn get_or_set(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.set(make()).unwrap_or_else(|first| first),
        }
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: a box leaked in `set`, and drop has exclusive access to it.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetOnce").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn threads_share_value_dropped_once() {
        static MADE: AtomicU32 = AtomicU32::new(0);
        static DROPPED: AtomicU32 = AtomicU32::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        let value = PerProcess::new(|| {
            MADE.fetch_add(1, Ordering::SeqCst);
            Counted
        });
        let addresses = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| scope.spawn(|| std::ptr::from_ref(value.get()).addr())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(addresses.iter().all(|address| *address == addresses[0]));
        // The losing values are dropped, the kept one is not.
        assert_eq!(MADE.load(Ordering::SeqCst), DROPPED.load(Ordering::SeqCst) + 1);
        drop(value);
        assert_eq!(MADE.load(Ordering::SeqCst), DROPPED.load(Ordering::SeqCst));
    }

    #[test]
    fn first_value_is_kept() {
        let once = SetOnce::new();
        assert_eq!(once.get(), None);
        let kept = Arc::new(1);
        assert_eq!(once.set(Arc::clone(&kept)).map(|set| **set), Ok(1));
        assert_eq!(once.set(Arc::new(2)).map_err(|first| **first), Err(1));
        assert_eq!(**once.get_or_set(|| Arc::new(3)), 1);
        drop(once);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    /// The lock is held at the fork: a child that inherited it would wait forever.
    #[test]
    #[cfg(not(miri))]
    fn child_has_unlocked_value() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(|| Mutex::new(0));
        let mut held = VALUE.get().lock().unwrap();
        *held = 7;
        // SAFETY: the child's checks take no inherited lock, and it ends by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: sets an alarm that kills a hanging child.
            unsafe { libc::alarm(60) };
            let mine = VALUE.get().try_lock().is_ok_and(|value| *value == 0);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!mine)) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(held);
        assert_eq!(*VALUE.get().lock().unwrap(), 7);
    }
}
