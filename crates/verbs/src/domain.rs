//! Protection domains: what belongs together.

use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as raw;

use crate::{Context, Error};

/// A protection domain. Clones are the same; it is given back when the last of them, and of what was made in it, is dropped.
#[derive(Debug, Clone)]
pub struct Domain(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    raw: NonNull<raw::ibv_pd>,
    context: Context,
}

// SAFETY: verbs are thread safe, and the domain is given back by this value alone.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Domain {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        // SAFETY: the context is open.
        let raw = context.made("ibv_alloc_pd", unsafe { raw::ibv_alloc_pd(context.as_raw()) })?;
        let context = context.clone();
        Ok(Self(Arc::new(Owned { raw, context })))
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    pub(crate) fn as_raw(&self) -> *mut raw::ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: whatever was made in it held it, and is gone.
        unsafe { raw::ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}
