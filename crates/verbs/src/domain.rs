//! Protection domains.

use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as raw;

use crate::{Context, Error};

/// A protection domain. Clones share it; it is freed with the last clone and the last object created in it.
#[derive(Debug, Clone)]
pub struct ProtectionDomain(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::ibv_pd>,
    context: Context,
    /// The program allocated it, and frees it.
    is_foreign: bool,
    /// For a parent domain: freed after it.
    _threads: Option<Threads>,
}

/// A thread domain and the protection domain it belongs to.
#[derive(Debug)]
pub(crate) struct Threads {
    raw: NonNull<raw::ibv_td>,
    _domain: ProtectionDomain,
}

// SAFETY: verbs are thread safe, and only this value frees the domain.
unsafe impl Send for Threads {}
// SAFETY: as above.
unsafe impl Sync for Threads {}

// SAFETY: verbs are thread safe, and only this value frees the domain.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl ProtectionDomain {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        // SAFETY: the context is open.
        let raw = context
            .check_pointer("ibv_alloc_pd", unsafe { raw::ibv_alloc_pd(context.as_raw()) })?;
        Ok(Self::of(raw, context, false, None))
    }

    /// Wraps a new parent domain.
    pub(crate) fn parent(raw: NonNull<raw::ibv_pd>, threads: Threads, context: &Context) -> Self {
        Self::of(raw, context, false, Some(threads))
    }

    /// Wraps a protection domain that the program allocated and frees itself.
    ///
    /// # Safety
    ///
    /// `raw` belongs to this context until the last clone of this and the last object created in it are dropped.
    #[must_use]
    pub unsafe fn foreign(context: &Context, raw: NonNull<raw::ibv_pd>) -> Self {
        Self::of(raw, context, true, None)
    }

    fn of(
        raw: NonNull<raw::ibv_pd>,
        context: &Context,
        is_foreign: bool,
        threads: Option<Threads>,
    ) -> Self {
        Self(Arc::new(Owned { raw, context: context.clone(), is_foreign, _threads: threads }))
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The C object, valid as long as this value.
    #[must_use]
    pub fn as_raw(&self) -> *mut raw::ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        // SAFETY: objects created in it hold it, so none is left.
        unsafe { raw::ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}

impl Threads {
    /// Wraps a new thread domain.
    pub(crate) fn new(raw: NonNull<raw::ibv_td>, domain: ProtectionDomain) -> Self {
        Self { raw, _domain: domain }
    }

    pub(crate) fn as_raw(&self) -> *mut raw::ibv_td {
        self.raw.as_ptr()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // SAFETY: the parent domain that used it is freed.
        unsafe { raw::ibv_dealloc_td(self.raw.as_ptr()) };
    }
}
