//! The sessions that are open, by the pointers programs hold. A pointer is looked up before
//! anything behind it is believed, so a NULL, stale or made-up `gdr_t` is refused and never
//! followed.
//!
//! A forked child starts with a registry of its own, made at its first call. The parent's is not
//! looked at: its locks may be held by threads that the child does not have.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use process::{PerProcess, Process};

use crate::abi;
use crate::buffer::Buffer;
use crate::call_error::CallError;
use crate::slots::Allocator;

/// What a `gdr_t` points to is never freed, because programs may still hold it. After this many
/// further sessions were closed it serves a new one.
const CLOSED_KEPT: usize = 4096;

/// All that one process has open.
pub(crate) struct Registry {
    sessions: Mutex<HashMap<usize, Arc<Session>>>,
    /// What closed sessions leave behind, oldest first.
    closed: Mutex<VecDeque<&'static Outside>>,
    slots: Mutex<Allocator>,
}

static REGISTRY: PerProcess<Registry> = PerProcess::new(Registry::new);

/// One `gdr_open`.
pub(crate) struct Session {
    gdr: gdrcopy::Gdr,
    outside: &'static Outside,
    registry: &'static Registry,
    /// By handle; `None` once the session is closed.
    buffers: Mutex<Option<HashMap<u64, Arc<Buffer>>>>,
}

/// Puts an opened backend among the sessions.
pub(crate) fn admit(gdr: gdrcopy::Gdr, descriptor: i32) -> *mut abi::Gdr {
    let registry = REGISTRY.get();
    let outside = registry.outside(descriptor);
    let session = Session {
        gdr,
        outside,
        registry,
        buffers: Mutex::new(Some(HashMap::new())),
    };
    lock(&registry.sessions).insert(outside.address(), Arc::new(session));
    std::ptr::from_ref(&outside.shown).cast_mut()
}

/// The open session that `g` stands for.
pub(crate) fn find(g: *mut abi::Gdr) -> Result<Arc<Session>, CallError> {
    let found = lock(&REGISTRY.get().sessions).get(&g.addr()).cloned();
    found.ok_or_else(|| Outside::call_error(g.addr()))
}

/// Ends the session that `g` stands for; gives what of it could not be undone, in order.
pub(crate) fn close(g: *mut abi::Gdr) -> Result<Vec<CallError>, CallError> {
    let registry = REGISTRY.get();
    let session = lock(&registry.sessions).remove(&g.addr());
    let session = session.ok_or_else(|| Outside::call_error(g.addr()))?;
    let buffers = lock(&session.buffers).take().unwrap_or_default();
    let mut failed = Vec::new();
    for buffer in buffers.into_values() {
        failed.extend(buffer.release().err());
        lock(&registry.slots).give_back(buffer.handle());
    }
    let outside = session.outside;
    outside.owner.store(0, Ordering::Release);
    outside.shown.fd.store(-1, Ordering::Relaxed);
    drop(session);
    lock(&registry.closed).push_back(outside);
    Ok(failed)
}

impl Session {
    pub(crate) fn gdr(&self) -> &gdrcopy::Gdr {
        &self.gdr
    }

    /// Keeps a pin and gives its handle.
    pub(crate) fn keep(
        &self,
        address: u64,
        bytes: usize,
        flags: gdrcopy::PinFlags,
        pin: gdrcopy::Pin,
    ) -> Result<u64, CallError> {
        let handle = lock(&self.registry.slots).take()?;
        let mut buffers = lock(&self.buffers);
        let Some(open) = buffers.as_mut() else {
            drop(buffers);
            lock(&self.registry.slots).give_back(handle);
            return Err(CallError::NoSession {
                address: self.outside.address(),
            });
        };
        open.insert(
            handle,
            Arc::new(Buffer::new(handle, address, bytes, flags, pin)),
        );
        Ok(handle)
    }

    pub(crate) fn buffer(&self, handle: u64) -> Result<Arc<Buffer>, CallError> {
        let buffers = lock(&self.buffers);
        let found = buffers.as_ref().and_then(|open| open.get(&handle)).cloned();
        found.ok_or(CallError::NoHandle { handle })
    }

    /// Ends a handle, whatever is left of it.
    pub(crate) fn forget(&self, handle: u64) -> Result<(), CallError> {
        let removed = lock(&self.buffers)
            .as_mut()
            .and_then(|open| open.remove(&handle));
        let buffer = removed.ok_or(CallError::NoHandle { handle })?;
        let released = buffer.release();
        lock(&self.registry.slots).give_back(handle);
        released
    }
}

impl Registry {
    fn new() -> Self {
        Self {
            sessions: Mutex::new(HashMap::new()),
            closed: Mutex::new(VecDeque::new()),
            slots: Mutex::new(Allocator::new(std::process::id())),
        }
    }

    /// What a new `gdr_t` points to.
    fn outside(&self, descriptor: i32) -> &'static Outside {
        let mut closed = lock(&self.closed);
        let old = (closed.len() > CLOSED_KEPT)
            .then(|| closed.pop_front())
            .flatten();
        drop(closed);
        let outside = old.unwrap_or_else(Outside::make);
        outside.shown.fd.store(descriptor, Ordering::Relaxed);
        outside
            .owner
            .store(Process::current().number(), Ordering::Release);
        outside
    }
}

/// What a `gdr_t` points to, and which process has it open. Never freed.
struct Outside {
    shown: abi::Gdr,
    /// The number of a process; 0 where it is closed.
    owner: AtomicU64,
    /// The one made before this one.
    next: *const Outside,
}

// SAFETY: `next` is set before it is shared, never changed, and points to what is never freed.
unsafe impl Sync for Outside {}

/// All there are, the latest first. A list without a lock: a forked child looks for its parent's
/// here.
static OUTSIDES: AtomicPtr<Outside> = AtomicPtr::new(std::ptr::null_mut());

impl Outside {
    fn make() -> &'static Self {
        let fresh: &'static mut Self = Box::leak(Box::new(Self {
            shown: abi::Gdr::new(-1),
            owner: AtomicU64::new(0),
            next: std::ptr::null(),
        }));
        let fresh = std::ptr::from_mut(fresh);
        loop {
            let latest = OUTSIDES.load(Ordering::Acquire);
            // SAFETY: nobody else knows it yet.
            unsafe { (*fresh).next = latest };
            let shown =
                OUTSIDES.compare_exchange(latest, fresh, Ordering::AcqRel, Ordering::Relaxed);
            if shown.is_ok() {
                // SAFETY: it is never freed, and from now on only shared.
                return unsafe { &*fresh };
            }
        }
    }

    /// Why there is no session at `address`.
    fn call_error(address: usize) -> CallError {
        // SAFETY: what is in the list is never freed.
        let latest = unsafe { OUTSIDES.load(Ordering::Acquire).as_ref() };
        // SAFETY: as above.
        let mut all = std::iter::successors(latest, |outside| unsafe { outside.next.as_ref() });
        let found = all.find(|outside| outside.address() == address);
        let owner = found.map_or(0, |outside| outside.owner.load(Ordering::Acquire));
        match owner {
            0 => CallError::NoSession { address },
            owner if owner == Process::current().number() => CallError::NoSession { address },
            _ => CallError::Inherited { address },
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.shown).addr()
    }
}

/// A panic while the lock was held does not make its data unusable: see [`crate::guard`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
