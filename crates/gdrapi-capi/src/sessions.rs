//! The sessions that are open, by the pointers programs hold. A pointer is looked up before anything behind it is
//! believed, so a NULL, stale or made-up `gdr_t` is refused and never followed.
//!
//! A forked child starts with a registry of its own, made at its first call. The parent's is only asked whether a pointer
//! came from there: its locks may be held by threads that the child does not have.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi;
use crate::buffer::Buffer;
use crate::refusal::Refusal;
use crate::slots::Allocator;

/// What a `gdr_t` points to is never freed, because programs may still hold it. After this many further sessions were
/// closed it serves a new one.
const CLOSED_KEPT: usize = 4096;

/// All that one process has open.
pub(crate) struct Registry {
    pid: u32,
    /// The parent's, in a forked child.
    inherited: Option<&'static Registry>,
    sessions: Mutex<HashMap<usize, Arc<Session>>>,
    /// What closed sessions leave behind, oldest first.
    closed: Mutex<VecDeque<&'static abi::Gdr>>,
    slots: Mutex<Allocator>,
}

static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

/// One `gdr_open`.
pub(crate) struct Session {
    gdr: gdrcopy::Gdr,
    outside: &'static abi::Gdr,
    registry: &'static Registry,
    /// By handle; `None` once the session is closed.
    buffers: Mutex<Option<HashMap<u64, Arc<Buffer>>>>,
}

/// Puts an opened backend among the sessions.
pub(crate) fn admit(gdr: gdrcopy::Gdr, descriptor: i32) -> *mut abi::Gdr {
    let registry = registry();
    let outside = registry.outside(descriptor);
    let session = Session {
        gdr,
        outside,
        registry,
        buffers: Mutex::new(Some(HashMap::new())),
    };
    let address = std::ptr::from_ref(outside);
    lock(&registry.sessions).insert(address.addr(), Arc::new(session));
    address.cast_mut()
}

/// The open session that `g` stands for.
pub(crate) fn find(g: *mut abi::Gdr) -> Result<Arc<Session>, Refusal> {
    let registry = registry();
    let found = lock(&registry.sessions).get(&g.addr()).cloned();
    found.ok_or_else(|| registry.unknown(g.addr()))
}

/// Ends the session that `g` stands for; gives what of it could not be undone, in order.
pub(crate) fn close(g: *mut abi::Gdr) -> Result<Vec<Refusal>, Refusal> {
    let registry = registry();
    let session = lock(&registry.sessions).remove(&g.addr());
    let session = session.ok_or_else(|| registry.unknown(g.addr()))?;
    let buffers = lock(&session.buffers).take().unwrap_or_default();
    let mut failed = Vec::new();
    for buffer in buffers.into_values() {
        failed.extend(buffer.release().err());
        lock(&registry.slots).give_back(buffer.handle());
    }
    let outside = session.outside;
    outside.fd.store(-1, Ordering::Relaxed);
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
    ) -> Result<u64, Refusal> {
        let handle = lock(&self.registry.slots).take()?;
        let mut buffers = lock(&self.buffers);
        let Some(open) = buffers.as_mut() else {
            drop(buffers);
            lock(&self.registry.slots).give_back(handle);
            return Err(Refusal::NoSession {
                address: std::ptr::from_ref(self.outside).addr(),
            });
        };
        open.insert(handle, Arc::new(Buffer::new(handle, address, bytes, flags, pin)));
        Ok(handle)
    }

    pub(crate) fn buffer(&self, handle: u64) -> Result<Arc<Buffer>, Refusal> {
        let buffers = lock(&self.buffers);
        let found = buffers.as_ref().and_then(|open| open.get(&handle)).cloned();
        found.ok_or(Refusal::NoHandle { handle })
    }

    /// Ends a handle, whatever is left of it.
    pub(crate) fn forget(&self, handle: u64) -> Result<(), Refusal> {
        let removed = lock(&self.buffers).as_mut().and_then(|open| open.remove(&handle));
        let buffer = removed.ok_or(Refusal::NoHandle { handle })?;
        let released = buffer.release();
        lock(&self.registry.slots).give_back(handle);
        released
    }
}

impl Registry {
    fn new(pid: u32, inherited: Option<&'static Registry>) -> Self {
        Self {
            pid,
            inherited,
            sessions: Mutex::new(HashMap::new()),
            closed: Mutex::new(VecDeque::new()),
            slots: Mutex::new(Allocator::new(pid)),
        }
    }

    /// What a new `gdr_t` points to.
    fn outside(&self, descriptor: i32) -> &'static abi::Gdr {
        let mut closed = lock(&self.closed);
        let old = (closed.len() > CLOSED_KEPT).then(|| closed.pop_front()).flatten();
        drop(closed);
        let outside = old.unwrap_or_else(|| Box::leak(Box::new(abi::Gdr::new(descriptor))));
        outside.fd.store(descriptor, Ordering::Relaxed);
        outside
    }

    /// Why there is no session at `address`.
    fn unknown(&self, address: usize) -> Refusal {
        let mut ancestor = self.inherited;
        while let Some(registry) = ancestor {
            let sessions = match registry.sessions.try_lock() {
                Ok(sessions) => Some(sessions),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => None,
            };
            if sessions.is_some_and(|sessions| sessions.contains_key(&address)) {
                return Refusal::Inherited { address };
            }
            ancestor = registry.inherited;
        }
        Refusal::NoSession { address }
    }
}

/// This process's registry.
fn registry() -> &'static Registry {
    let pid = std::process::id();
    loop {
        let present = REGISTRY.load(Ordering::Acquire);
        // SAFETY: REGISTRY is null or points to a registry that was leaked below and so lives as long as the process.
        let inherited = unsafe { present.as_ref() };
        if let Some(registry) = inherited
            && registry.pid == pid
        {
            return registry;
        }
        let fresh = Box::into_raw(Box::new(Registry::new(pid, inherited)));
        match REGISTRY.compare_exchange(present, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `fresh` came from a box that is not freed any more.
            Ok(_) => return unsafe { &*fresh },
            // SAFETY: `fresh` came from a box two lines up and was shown to nobody.
            Err(_) => drop(unsafe { Box::from_raw(fresh) }),
        }
    }
}

/// A panic while the lock was held does not make its data unusable: see [`crate::guard`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
