//! Who is behind a program's queue pairs: what a backend must do, and which one a device gets.

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

/// What a queue pair's owner may ask of who is behind it.
pub(crate) trait Behind: Debug + Send + Sync {
    /// What was rung and posted is with the device when this returns, if its state is one in which it takes requests.
    fn serve(&self);
    /// A stream was given work: somebody looks soon.
    fn wake(&self);

    /// The way that a program's address handle has, for a datagram's entry.
    ///
    /// # Safety
    ///
    /// The handle is alive during the call, of the device that the queue pair is of.
    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, CallError>;
}

/// A queue pair as a backend made it.
#[derive(Debug)]
pub(crate) struct Made {
    /// Its queues. Dropped, the verbs objects are destroyed.
    pub(crate) queues: QueuePair,
    pub(crate) behind: Box<dyn Behind>,
    /// The verbs queue pair, until the queues are dropped.
    pub(crate) raw: *mut ibv_qp,
    /// Its verbs completion queues, likewise: of sends, of receives.
    pub(crate) completions: [*mut ibv_cq; 2],
}

/// What a queue pair is to be, in verbs' terms and in the engine's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) options: QueuePairOptions,
    pub(crate) request: Request,
}

impl Wanted {
    /// The same in the engine's terms.
    pub(crate) fn transport(&self) -> wire::Transport {
        match self.options.transport {
            Transport::Ud => wire::Transport::Datagram,
            Transport::Rc | Transport::Uc => wire::Transport::Connected,
        }
    }
}

/// What only a NIC does, whose doorbells the GPU rings itself.
const NO_DATAGRAMS: CallError = CallError::Unsupported {
    what: "IBV_QPT_UD",
    why: "the proxy sends no datagrams: take an mlx5 NIC without GDS_HCA=proxy, or connect queue pairs (IBV_QPT_RC)",
};

/// Makes a queue pair with who fits the device, or who was asked for. Datagrams are a NIC's alone.
///
/// # Safety
///
/// The program has the result's keys: it sees to the memory that it names by them, and destroys none of the verbs objects itself.
pub(crate) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    wanted: &Wanted,
) -> Result<Made, CallError> {
    debug_assert_eq!(
        wanted.request.queues,
        MemoryLocation::Host,
        "queues in GPU memory are refused before"
    );
    let hca = chosen(environment().hca, domain.context().is_mlx5());
    let is_connected = wanted.options.transport != Transport::Ud;
    if hca == Hca::Proxy && !is_connected {
        return Err(NO_DATAGRAMS);
    }
    if hca == Hca::Proxy {
        // SAFETY: the caller's promise.
        return unsafe { proxy::create(domain, allocator, wanted) };
    }
    // SAFETY: the caller's promise.
    match unsafe { mlx5::create(domain, allocator, wanted) } {
        Err(refused)
            if is_connected
                && environment().hca == Hca::Fitting
                && refused.is_of_the_register() =>
        {
            let words = format_args!("{}; a proxy rings for it", gpu::sentence(&refused));
            log::say(Level::Warning, "gds_create_qp", words);
            // SAFETY: the caller's promise.
            unsafe { proxy::create(domain, allocator, wanted) }
        }
        made => made,
    }
}

/// The NIC itself, or a proxy.
fn chosen(asked: Hca, is_mlx5: bool) -> Hca {
    match asked {
        Hca::Fitting if is_mlx5 => Hca::Mlx5,
        Hca::Fitting => Hca::Proxy,
        asked => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_mlx5_are_rung_by_the_gpu_unless_the_proxy_is_asked_for() {
        for (asked, is_mlx5, expected) in [
            (Hca::Fitting, true, Hca::Mlx5),
            (Hca::Fitting, false, Hca::Proxy),
            (Hca::Proxy, true, Hca::Proxy),
            (Hca::Mlx5, false, Hca::Mlx5),
        ] {
            assert_eq!(chosen(asked, is_mlx5), expected, "{asked:?} {is_mlx5}");
        }
    }
}
