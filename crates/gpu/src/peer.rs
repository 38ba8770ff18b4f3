//! Peer access, counted per process because the driver only knows on and off.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdr_sys::cuda::CuResult;
use gdr_sys::process::PerProcess;

use crate::backend::Context;
use crate::memory::Held;
use crate::{Allocation, Error, Failure, Gpu};

/// Direct access of one GPU to another's memory. Stays enabled while the process holds it here, in
/// another value for the pair, or in an unsynchronised stream. Keeps both GPUs open.
///
/// Covers all present and future `cuMemAlloc` memory. Managed memory needs no access. `cuMemCreate`
/// and pool memory have their own access lists, which this does not change: kernels on other GPUs
/// are rejected. Access already enabled elsewhere in the process (CUDA error 704) stays enabled.
///
/// A kernel that needs missing access is rejected with [`Error::Peer`]
/// (`CUDA_ERROR_PEER_ACCESS_NOT_ENABLED`, 705): on the GPU it would fault and lose the context.
/// Copies need no access.
///
/// ```
/// use gpu::{Allocation, Gpu};
///
/// let (near, far) = (Gpu::sim(), Gpu::sim());
/// let (to, from) = (near.allocate(Allocation::Malloc, 4096)?, far.allocate(Allocation::Malloc, 4096)?);
/// let stream = near.stream()?;
/// assert!(stream.copy_words(&to, 0, &from, 0, 4096).is_err());
/// let access = near.access(&far)?;
/// stream.copy_words(&to, 0, &from, 0, 4096)?;
/// stream.synchronize()?;
/// # Ok::<(), gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct PeerAccess {
    from: Gpu,
    to: Gpu,
}

/// Holders of an access.
struct Holders {
    count: usize,
    /// True if we enabled it and must disable it.
    ours: bool,
}

type ContextPair = (Context, Context);

/// Per process: CUDA does not survive a fork.
static ON: PerProcess<Mutex<BTreeMap<ContextPair, Holders>>> = PerProcess::new(Mutex::default);

impl PeerAccess {
    pub(crate) fn new(from: Gpu, to: Gpu) -> Result<Self, Error> {
        let pair = (from.context(), to.context());
        // Locked during the driver call, so that concurrent enables and disables cannot race.
        let mut on = lock();
        match on.get_mut(&pair) {
            Some(holders) => holders.count += 1,
            None => {
                let ours = from.backend().enable_access(to.peer())?;
                on.insert(pair, Holders { count: 1, ours });
            }
        }
        Ok(Self { from, to })
    }

    /// GPU that accesses.
    #[must_use]
    pub fn from(&self) -> &Gpu {
        &self.from
    }

    /// GPU that owns the memory.
    #[must_use]
    pub fn to(&self) -> &Gpu {
        &self.to
    }

    /// Adds a holder if access is already held.
    pub(crate) fn held(from: &Gpu, to: &Gpu) -> Option<Self> {
        lock().get_mut(&(from.context(), to.context()))?.count += 1;
        Some(Self { from: from.clone(), to: to.clone() })
    }

    pub(crate) fn key(&self) -> (u64, u64) {
        (self.from.context().0, self.to.context().0)
    }
}

impl Clone for PeerAccess {
    fn clone(&self) -> Self {
        if let Some(holders) = lock().get_mut(&(self.from.context(), self.to.context())) {
            holders.count += 1;
        }
        Self { from: self.from.clone(), to: self.to.clone() }
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        let pair = (self.from.context(), self.to.context());
        let mut on = lock();
        let Some(holders) = on.get_mut(&pair) else {
            return;
        };
        holders.count -= 1;
        if holders.count == 0 {
            let ours = holders.ours;
            on.remove(&pair);
            if ours {
                self.from.backend().disable_access(self.to.peer());
            }
        }
    }
}

/// Access that a kernel on `gpu` needs for `memory`; `None` for local and host memory.
pub(crate) fn needed(gpu: &Gpu, memory: &Held) -> Result<Option<Held>, Error> {
    let Held::Device(memory) = memory else {
        return Ok(None);
    };
    let owner = memory.gpu();
    if owner.context() == gpu.context() || memory.kind() == Allocation::Managed {
        return Ok(None);
    }
    let peer_error = |result| Error::Peer {
        from: gpu.device().ordinal,
        to: owner.device().ordinal,
        source: Failure::Returned { function: "cuLaunchKernel", result },
    };
    if memory.kind() != Allocation::Malloc {
        return Err(peer_error(CuResult::PEER_ACCESS_UNSUPPORTED));
    }
    match PeerAccess::held(gpu, owner) {
        Some(access) => Ok(Some(Held::Peer(access))),
        None => Err(peer_error(CuResult::PEER_ACCESS_NOT_ENABLED)),
    }
}

/// Each map update is atomic, so a poisoned lock still holds valid data.
fn lock() -> MutexGuard<'static, BTreeMap<ContextPair, Holders>> {
    ON.get().lock().unwrap_or_else(PoisonError::into_inner)
}
