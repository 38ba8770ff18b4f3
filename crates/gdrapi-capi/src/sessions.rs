//! Open sessions by `gdr_t`. A pointer is looked up before it is dereferenced, so NULL, stale and
//! made-up values are rejected.
//!
//! A forked child creates its own registry at its first call: locks of the parent's may be held by
//! threads that the child does not have.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdr_sys::process::{PerProcess, Process};

use crate::abi;
use crate::buffer::Buffer;
use crate::call_error::CallError;
use crate::slots::Allocator;

/// The target of a `gdr_t` is never freed, because programs may still hold it. It is reused after
/// this many further sessions were closed.
const CLOSED_KEPT: usize = 4096;

/// Open sessions of a process.
pub(crate) struct Registry {
    sessions: Mutex<HashMap<usize, Arc<Session>>>,
    /// Targets of closed sessions, oldest first.
    closed: Mutex<VecDeque<&'static Outside>>,
    slots: Mutex<Allocator>,
}

static REGISTRY: PerProcess<Registry> = PerProcess::new(Registry::new);

/// Session of a `gdr_open`.
pub(crate) struct Session {
    gdr: gdrcopy::Gdr,
    outside: &'static Outside,
    registry: &'static Registry,
    /// By handle; `None` once the session is closed.
    buffers: Mutex<Option<HashMap<u64, Arc<Buffer>>>>,
}

/// Registers a session with an open backend.
pub(crate) fn admit(gdr: gdrcopy::Gdr, descriptor: i32) -> *mut abi::Gdr {
    let registry = REGISTRY.get();
    let outside = registry.outside(descriptor);
    let session = Session { gdr, outside, registry, buffers: Mutex::new(Some(HashMap::new())) };
    lock(&registry.sessions).insert(outside.address(), Arc::new(session));
    std::ptr::from_ref(&outside.shown).cast_mut()
}

/// Open session of `g`.
pub(crate) fn find(g: *mut abi::Gdr) -> Result<Arc<Session>, CallError> {
    let found = lock(&REGISTRY.get().sessions).get(&g.addr()).cloned();
    found.ok_or_else(|| Outside::call_error(g.addr()))
}

/// Ends the session of `g`; returns the errors of its cleanup, in order.
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

    /// Stores a pin and returns its handle.
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
            return Err(CallError::NoSession { address: self.outside.address() });
        };
        open.insert(handle, Arc::new(Buffer::new(handle, address, bytes, flags, pin)));
        Ok(handle)
    }

    pub(crate) fn buffer(&self, handle: u64) -> Result<Arc<Buffer>, CallError> {
        let buffers = lock(&self.buffers);
        let found = buffers.as_ref().and_then(|open| open.get(&handle)).cloned();
        found.ok_or(CallError::NoHandle { handle })
    }

    /// Removes a handle.
    pub(crate) fn forget(&self, handle: u64) -> Result<(), CallError> {
        let removed = lock(&self.buffers).as_mut().and_then(|open| open.remove(&handle));
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

    /// A new target for a `gdr_t`.
    fn outside(&self, descriptor: i32) -> &'static Outside {
        let mut closed = lock(&self.closed);
        let old = (closed.len() > CLOSED_KEPT).then(|| closed.pop_front()).flatten();
        drop(closed);
        let outside = old.unwrap_or_else(Outside::make);
        outside.shown.fd.store(descriptor, Ordering::Relaxed);
        outside.owner.store(Process::current().number(), Ordering::Release);
        outside
    }
}

/// Target of a `gdr_t`, and the process that opened it. Never freed.
struct Outside {
    shown: abi::Gdr,
    /// Process number; 0 if closed.
    owner: AtomicU64,
    /// Target created before this one.
    next: *const Outside,
}

// SAFETY: `next` is set before sharing, never changes, and points to a target that is never freed.
unsafe impl Sync for Outside {}

/// All targets, latest first. Lock-free, because a forked child looks up its parent's sessions
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
            // SAFETY: not shared yet.
            unsafe { (*fresh).next = latest };
            let shown =
                OUTSIDES.compare_exchange(latest, fresh, Ordering::AcqRel, Ordering::Relaxed);
            if shown.is_ok() {
                // SAFETY: never freed, and only shared from now on.
                return unsafe { &*fresh };
            }
        }
    }

    /// Why there is no session at `address`.
    fn call_error(address: usize) -> CallError {
        // SAFETY: targets in the list are never freed.
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

/// Ignores poisoning: see [`crate::guard`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
