//! Backends of a program's queue pairs, and their selection.

mod mlx5;
mod proxy;

use std::fmt::Debug;
use std::ptr::NonNull;

use engine::hca::{QueuePair, Request};
use engine::wire::{self, AddressVector};
use engine::{Allocator, MemoryLocation};
use verbs::raw::{ibv_ah, ibv_cq, ibv_qp};
use verbs::{ProtectionDomain, QueuePairOptions, Transport};

use crate::call_error::CallError;
use crate::environment::{Hca, environment};
use crate::log::{self, Level};

/// Executes the work of a queue pair.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Passes all posted work to the device, if the queue pair's state accepts it.
    fn serve(&self);
    /// Announces that a stream was given work.
    fn wake(&self);

    /// The address vector of a program's address handle.
    ///
    /// # Safety
    ///
    /// The handle is live during the call and belongs to the queue pair's device.
    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, CallError>;
}

/// A queue pair created by a backend.
#[derive(Debug)]
pub(crate) struct BackendPair {
    /// The queues. Dropping them destroys the verbs objects.
    pub(crate) queues: QueuePair,
    pub(crate) backend: Box<dyn Backend>,
    /// The verbs queue pair, valid until the queues are dropped.
    pub(crate) raw: *mut ibv_qp,
    /// Its send and receive completion queues, valid as long.
    pub(crate) completions: [*mut ibv_cq; 2],
}

/// Parameters of a queue pair for verbs and for the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairOptions {
    pub(crate) verbs: QueuePairOptions,
    pub(crate) request: Request,
}

impl PairOptions {
    /// The transport for the engine.
    pub(crate) fn transport(&self) -> wire::Transport {
        match self.verbs.transport {
            Transport::Ud => wire::Transport::Datagram,
            Transport::Rc | Transport::Uc => wire::Transport::Connected,
        }
    }
}

/// Creates a queue pair on the selected backend.
///
/// # Safety
///
/// The program keeps the memory that its keys name registered, and does not destroy the verbs objects.
pub(crate) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    options: &PairOptions,
) -> Result<BackendPair, CallError> {
    debug_assert_eq!(
        options.request.queues,
        MemoryLocation::Host,
        "queues in GPU memory were rejected before"
    );
    let hca = choose(environment().hca, domain.context().is_mlx5());
    if hca == Hca::Proxy {
        // SAFETY: the caller's promise.
        return unsafe { proxy::create(domain, allocator, options) };
    }
    // SAFETY: the caller's promise.
    match unsafe { mlx5::create(domain, allocator, options) } {
        Err(error) if environment().hca == Hca::Auto && error.is_of_the_register() => {
            let text = format_args!("{}; using the proxy", gpu::sentence(&error));
            log::write(Level::Warning, "gds_create_qp", text);
            // SAFETY: the caller's promise.
            unsafe { proxy::create(domain, allocator, options) }
        }
        created => created,
    }
}

fn choose(requested: Hca, is_mlx5: bool) -> Hca {
    match requested {
        Hca::Auto if is_mlx5 => Hca::Mlx5,
        Hca::Auto => Hca::Proxy,
        hca => hca,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_backend() {
        for (requested, is_mlx5, expected) in [
            (Hca::Auto, true, Hca::Mlx5),
            (Hca::Auto, false, Hca::Proxy),
            (Hca::Proxy, true, Hca::Proxy),
            (Hca::Mlx5, false, Hca::Mlx5),
        ] {
            assert_eq!(
                choose(requested, is_mlx5),
                expected,
                "{requested:?} {is_mlx5}"
            );
        }
    }
}
