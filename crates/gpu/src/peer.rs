//! One GPU's access to another's memory: who has it, counted for the whole process, because the driver knows only on and off.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdr_sys::cuda::CuResult;
use process::PerProcess;

use crate::backend::Context;
use crate::memory::Held;
use crate::{Allocation, Error, Failure, Gpu};

/// One GPU's access to the memory of another, on for as long as anybody in the process holds it: this, another of the same pair,
/// or a stream that was not synchronised since it used it. It keeps both GPUs open.
///
/// It is of `cuMemAlloc` memory, all that there is and will be. Managed memory needs none. `cuMemCreate` and pool memory have
/// lists of their own of the GPUs that may reach them, which nothing here adds to: a kernel of another GPU is refused there.
/// Access that somebody else in the process turned on (CUDA's error 704) is left on at the end.
///
/// A kernel of a stream that is to touch a peer's memory without it is refused with [`Error::Peer`], of
/// `CUDA_ERROR_PEER_ACCESS_NOT_ENABLED` (705): a GPU would run into an illegal address, and the context be lost. Copies need none.
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

/// Who holds an access.
struct Holders {
    count: usize,
    /// We turned it on, and are to turn it off.
    ours: bool,
}

type Pair = (Context, Context);

/// Of this process: CUDA does not survive a fork.
static ON: PerProcess<Mutex<BTreeMap<Pair, Holders>>> = PerProcess::new(Mutex::default);

impl PeerAccess {
    pub(crate) fn new(from: Gpu, to: Gpu) -> Result<Self, Error> {
        let pair = (from.context(), to.context());
        // Locked while the driver is asked: nobody may take it for on, or turn it off, meanwhile.
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

    /// The GPU that reaches.
    #[must_use]
    pub fn from(&self) -> &Gpu {
        &self.from
    }

    /// The GPU whose memory it is.
    #[must_use]
    pub fn to(&self) -> &Gpu {
        &self.to
    }

    /// One more holder, if somebody has it.
    pub(crate) fn held(from: &Gpu, to: &Gpu) -> Option<Self> {
        lock().get_mut(&(from.context(), to.context()))?.count += 1;
        Some(Self {
            from: from.clone(),
            to: to.clone(),
        })
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
        Self {
            from: self.from.clone(),
            to: self.to.clone(),
        }
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

/// What a kernel of `gpu` needs besides the memory itself to touch it; nothing for its own and the host's.
pub(crate) fn needed(gpu: &Gpu, memory: &Held) -> Result<Option<Held>, Error> {
    let Held::Device(memory) = memory else {
        return Ok(None);
    };
    let owner = memory.gpu();
    if owner.context() == gpu.context() || memory.kind() == Allocation::Managed {
        return Ok(None);
    }
    let refused = |result| Error::Peer {
        from: gpu.device().ordinal,
        to: owner.device().ordinal,
        source: Failure::Returned {
            function: "cuLaunchKernel",
            result,
        },
    };
    if memory.kind() != Allocation::Malloc {
        return Err(refused(CuResult::PEER_ACCESS_UNSUPPORTED));
    }
    match PeerAccess::held(gpu, owner) {
        Some(access) => Ok(Some(Held::Peer(access))),
        None => Err(refused(CuResult::PEER_ACCESS_NOT_ENABLED)),
    }
}

/// A change of the map is one operation: a panic elsewhere leaves nothing half-done in it.
fn lock() -> MutexGuard<'static, BTreeMap<Pair, Holders>> {
    ON.get().lock().unwrap_or_else(PoisonError::into_inner)
}
