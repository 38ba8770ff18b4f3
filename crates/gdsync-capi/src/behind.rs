//! Who is behind a program's queue pairs: what a backend must do, and which one a device gets.

mod mlx5;
mod proxy;

use std::fmt::Debug;

use engine::hca::{QueuePair, Request};
use engine::{Home, Supply};
use verbs::raw::{ibv_cq, ibv_qp};
use verbs::{Domain, QueuePairOptions};

use crate::environment::{Hca, environment};
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
    let device = domain.context().name();
    match chosen(environment().hca, driver(device).as_deref()) {
        Hca::Mlx5 => mlx5::create(domain, supply, wanted),
        // SAFETY: the caller's promise.
        Hca::Proxy | Hca::Fitting => unsafe { proxy::create(domain, supply, wanted) },
    }
}

fn chosen(asked: Hca, driver: Option<&str>) -> Hca {
    match (asked, driver) {
        (Hca::Fitting, Some("mlx5_core")) => Hca::Mlx5,
        (Hca::Fitting, _) => Hca::Proxy,
        (asked, _) => asked,
    }
}

/// The kernel's driver of a device.
fn driver(device: &str) -> Option<String> {
    let link = std::fs::read_link(format!("/sys/class/infiniband/{device}/device/driver")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_mlx5_are_rung_by_the_gpu_unless_the_proxy_is_asked_for() {
        for (asked, driver, expected) in [
            (Hca::Fitting, Some("mlx5_core"), Hca::Mlx5),
            (Hca::Fitting, Some("irdma"), Hca::Proxy),
            // Soft-RoCE has no device, and so no driver.
            (Hca::Fitting, None, Hca::Proxy),
            (Hca::Proxy, Some("mlx5_core"), Hca::Proxy),
            (Hca::Mlx5, Some("irdma"), Hca::Mlx5),
        ] {
            assert_eq!(chosen(asked, driver), expected, "{asked:?} {driver:?}");
        }
    }
}
