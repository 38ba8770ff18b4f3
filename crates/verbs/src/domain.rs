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
    /// Somebody else took it, and gives it back.
    is_foreign: bool,
}

// SAFETY: verbs are thread safe, and the domain is given back by this value alone.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Domain {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        // SAFETY: the context is open.
        let raw = context.made("ibv_alloc_pd", unsafe { raw::ibv_alloc_pd(context.as_raw()) })?;
        let (context, is_foreign) = (context.clone(), false);
        Ok(Self(Arc::new(Owned {
            raw,
            context,
            is_foreign,
        })))
    }

    /// A protection domain that the program has taken itself, and gives back itself.
    ///
    /// # Safety
    ///
    /// `raw` is one of this context's until the last clone of this and of what was made in it is dropped.
    #[must_use]
    pub unsafe fn foreign(context: &Context, raw: NonNull<raw::ibv_pd>) -> Self {
        let (context, is_foreign) = (context.clone(), true);
        Self(Arc::new(Owned {
            raw,
            context,
            is_foreign,
        }))
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
        if self.is_foreign {
            return;
        }
        // SAFETY: whatever was made in it held it, and is gone.
        unsafe { raw::ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}
