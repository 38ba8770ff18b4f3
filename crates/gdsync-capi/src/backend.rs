//! Backends of a program's queue pairs, and their selection.

mod firmware;
mod mlx5;
mod proxy;

use std::ffi::c_int;
use std::fmt::Debug;
use std::io;
use std::ptr::NonNull;

use engine::hca::{QueuePair, Request};
use engine::wire::AddressVector;
use engine::{Allocator, MemoryLocation};
use verbs::raw::{ibv_ah, ibv_cq, ibv_modify_qp, ibv_qp, ibv_qp_attr};
use verbs::{ProtectionDomain, QueuePairOptions};

use crate::call_error::CallError;
use crate::environment::{Hca, environment};
use crate::log::{self, Level};

/// Executes the work of a queue pair.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Passes all posted work to the device, if the queue pair's state accepts it.
    fn serve(&self);
    /// Announces that a stream was given work.
    fn wake(&self);

    /// Changes the state of the queue pair, `raw`.
    ///
    /// # Safety
    ///
    /// It is live, and the attributes are readable.
    unsafe fn modify(
        &self,
        raw: *mut ibv_qp,
        attributes: *mut ibv_qp_attr,
        what: c_int,
    ) -> Result<(), CallError> {
        // SAFETY: the caller's promise.
        let source = match unsafe { ibv_modify_qp(raw, attributes, what) } {
            0 => return Ok(()),
            -1 => io::Error::last_os_error(),
            errno => io::Error::from_raw_os_error(errno),
        };
        Err(CallError::Change { source })
    }

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
    /// The program's queue pair, valid until the queues are dropped.
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

/// Creates a queue pair on the selected backend.
///
/// As in libgdsync, completion queues and doorbell records that cannot be in GPU memory are in host memory, and work queues that cannot
/// be there are an error.
///
/// # Safety
///
/// The program keeps the memory that its keys name registered, and does not destroy the verbs objects.
pub(crate) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    options: &PairOptions,
) -> Result<BackendPair, CallError> {
    let hca = choose(environment().hca, domain.context().is_mlx5());
    // SAFETY: the caller's promise.
    unsafe { create_on(hca, domain, allocator, options) }
}

/// # Safety
///
/// As [`create`].
unsafe fn create_on(
    hca: Hca,
    domain: &ProtectionDomain,
    allocator: &Allocator,
    options: &PairOptions,
) -> Result<BackendPair, CallError> {
    let request = &options.request;
    let optional = [request.records, request.completions[0], request.completions[1]];
    let has_optional = optional.contains(&MemoryLocation::Gpu);
    let on_gpu = has_optional || request.queues == MemoryLocation::Gpu;
    // SAFETY: the caller's promise.
    let created = unsafe {
        match hca {
            Hca::Proxy => proxy::create(domain, allocator, options),
            Hca::Auto | Hca::Mlx5 if on_gpu => firmware::create(domain, allocator, options),
            Hca::Auto | Hca::Mlx5 => mlx5::create(domain, allocator, options),
        }
    };
    let warn = |error: &CallError, then: &str| {
        let text = format_args!("{}; {then}", gpu::sentence(error));
        log::write(Level::Warning, "gds_create_qp", text);
    };
    match created {
        Err(error)
            if hca != Hca::Proxy
                && environment().hca == Hca::Auto
                && error.is_of_the_register() =>
        {
            warn(&error, "using the proxy");
            // SAFETY: as above.
            unsafe { create_on(Hca::Proxy, domain, allocator, options) }
        }
        Err(error) if has_optional && request.queues == MemoryLocation::Host => {
            warn(&error, "completion queues and doorbell records are in host memory");
            let options = PairOptions {
                request: Request {
                    records: MemoryLocation::Host,
                    completions: [MemoryLocation::Host; 2],
                    ..*request
                },
                ..*options
            };
            // SAFETY: as above.
            unsafe { create_on(hca, domain, allocator, &options) }
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
            assert_eq!(choose(requested, is_mlx5), expected, "{requested:?} {is_mlx5}");
        }
    }
}
