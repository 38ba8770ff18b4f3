//! Who is behind a program's queue pairs: what a backend must do, and which one a device gets.

mod mlx5;
mod proxy;

use std::fmt::Debug;

use engine::hca::{QueuePair, Request};
use engine::{Home, Supply};
use verbs::raw::{ibv_cq, ibv_qp};
use verbs::{Domain, QueuePairOptions};

use crate::environment::{Hca, environment};
use crate::log::{self, Level};
use crate::refusal::Refusal;

/// What a queue pair's owner may ask of who is behind it.
pub(crate) trait Behind: Debug + Send + Sync {
    /// What was rung and posted is with the device when this returns, if its state is one in which it takes requests.
    fn serve(&self);
    /// A stream was given work: somebody looks soon.
    fn wake(&self);
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

/// Makes a queue pair with who fits the device, or who was asked for.
///
/// # Safety
///
/// The program has the result's keys: it sees to the memory that it names by them, and destroys none of the verbs objects itself.
pub(crate) unsafe fn create(domain: &Domain, supply: &Supply, wanted: &Wanted) -> Result<Made, Refusal> {
    debug_assert_eq!(
        wanted.request.queues,
        Home::Host,
        "queues in GPU memory are refused before"
    );
    let hca = chosen(environment().hca, domain.context().is_mlx5());
    if hca == Hca::Proxy {
        // SAFETY: the caller's promise.
        return unsafe { proxy::create(domain, supply, wanted) };
    }
    // SAFETY: the caller's promise.
    match unsafe { mlx5::create(domain, supply, wanted) } {
        Err(refused) if environment().hca == Hca::Fitting && refused.is_of_the_register() => {
            let words = format_args!("{}; a proxy rings for it", gpu::sentence(&refused));
            log::say(Level::Warning, "gds_create_qp", words);
            // SAFETY: the caller's promise.
            unsafe { proxy::create(domain, supply, wanted) }
        }
        made => made,
    }
}

/// The card itself, or a proxy.
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
