//! Errors of a NIC end waits, the watchdog ends the others, and invalid requests fail.

use std::time::{Duration, Instant};

use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::{Error as PortError, Options};
use gdsync::hca::{Endpoint, Hca as _, Request, RetryPolicy};
use gdsync::wire::Wqe;
use gdsync::{Allocator, Error, MemoryLocation, Watchdog, Watched};
use gpu::Gpu;

use crate::inside::inside;
use crate::sides::{SMALL, TIMEOUT, errors, failure};
use crate::{NIC, connected_pair, side};

/// The syndrome of retries that ran out, by mlx5dv.h.
const RETRIES: u8 = 0x15;

#[test]
#[ignore = "needs libmlx5"]
fn of_every_hca() {
    inside("errors::of_every_hca", &NIC, || {
        for port in [1, 2] {
            errors::all(&|policy| connected_pair(port, &SMALL(), policy));
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn no_answer_is_an_error() {
    inside("errors::no_answer_is_an_error", &NIC, || {
        let (mut local, peer) = connected_pair(2, &SMALL(), RetryPolicy::default());
        let remote = peer.region.remote(0);
        drop(peer);
        local.ring(&Wqe::write(remote, &[]).inline(b"nowhere").signalled());
        local.wait_sent();
        local.synchronize();
        assert_eq!(local.next_failed().0, RETRIES);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_vendor_syndrome() {
    // The second request of the first queue pair fails with these syndromes.
    let variables = [NIC[0], ("FAKE_UVERBS_FAIL", "0:1:0x14:0x9d")];
    inside("errors::reports_vendor_syndrome", &variables, || {
        let (mut local, peer) = connected_pair(1, &SMALL(), RetryPolicy::default());
        local.sent(&Wqe::write(peer.region.remote(0), &[]).inline(b"well").signalled());
        local.ring(&Wqe::write(peer.region.remote(0), &[]).inline(b"not").signalled());
        local.wait_sent();
        local.synchronize();
        let completion = local.next_sent();
        assert_eq!(failure(&completion), (0x14, 0x9d));
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn watchdog_releases_lost_completion() {
    let variables = [NIC[0], ("FAKE_UVERBS_DROP", "0:0")];
    inside("errors::watchdog_releases_lost_completion", &variables, || {
        let (mut local, peer) = connected_pair(1, &SMALL(), RetryPolicy::default());
        let dog = Watchdog::start().unwrap();
        let start = Instant::now();
        local.ring(&Wqe::write(peer.region.remote(0), &[]).inline(b"lost").signalled());
        let wait = local.pair.send_completions.take_wait().unwrap();
        let guard = dog.watch(vec![Watched::completion(&wait)], Duration::from_millis(500));
        local.stream.batch(&wait.operations(false).unwrap()).unwrap();
        local.synchronize();
        let released = guard.finish();
        assert_eq!(released.len(), 1, "{released:?}");
        assert!(start.elapsed() >= Duration::from_millis(500) && start.elapsed() < TIMEOUT);
        assert_ne!(
            local
                .pair
                .send_completions
                .poll()
                .ok()
                .flatten()
                .map(|done| done.event.failed().is_none()),
            Some(true)
        );
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn rejects_invalid_requests() {
    inside("errors::rejects_invalid_requests", &NIC, || {
        let side = side(1, &SMALL());
        let largest = side.hca.create(&Request { send_blocks: 1 << 15, ..Request::default() });
        // The device's limit is accepted.
        largest.unwrap();
        for wrong in [
            Request { send_blocks: 3, ..SMALL() },
            Request { send_blocks: 1 << 16, ..SMALL() },
            Request { receives: 0, ..SMALL() },
            Request { send_completions: 1 << 24, ..SMALL() },
        ] {
            assert!(matches!(side.hca.create(&wrong), Err(Error::Wire(_))), "{wrong:?}");
        }
        let unknown =
            side.hca.connect(Endpoint::new(1, 0x77), side.pair.endpoint, RetryPolicy::default());
        assert!(matches!(unknown, Err(Error::NoQueuePair { qpn: 0x77 })), "{unknown:?}");
        let lacking =
            side.hca.connect(side.pair.endpoint, Endpoint::new(1, 1), RetryPolicy::default());
        assert!(
            matches!(lacking, Err(Error::Device(PortError::Address { lacks: "path", .. }))),
            "{lacking:?}"
        );
        let own = side.pair.endpoint;
        side.hca.connect(own, own, RetryPolicy::default()).unwrap();
        let again = side.hca.connect(own, own, RetryPolicy::default());
        assert!(matches!(again, Err(Error::Device(PortError::Spent { .. }))), "{again:?}");
        let context = verbs::Context::open("mlx5_0").unwrap();
        let options = Options { port: 7, ..Options::default() };
        let none = Mlx5Hca::open(Allocator::new(Gpu::sim(), None), &context, options);
        assert!(matches!(none, Err(Error::Device(PortError::Verbs { .. }))), "{none:?}");
        let on_gpu = side.hca.create(&Request { completions: [MemoryLocation::Gpu; 2], ..SMALL() });
        assert!(matches!(on_gpu, Err(Error::Device(PortError::Verbs { .. }))), "{on_gpu:?}");
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn rejects_128_byte_cqes_and_down_ports() {
    let test = "errors::rejects_128_byte_cqes_and_down_ports";
    let variables = [NIC[0], ("MLX5_CQE_SIZE", "128"), ("FAKE_UVERBS_PORT_DOWN", "2")];
    inside(test, &variables, || {
        let allocator = Allocator::new(Gpu::sim(), None);
        let context = verbs::Context::open("mlx5_0").unwrap();
        let hca = Mlx5Hca::open(allocator.clone(), &context, Options::default()).unwrap();
        match hca.create(&SMALL()) {
            Err(Error::Device(PortError::Shape { bytes: 128, need, .. })) => {
                assert!(need.contains("MLX5_CQE_SIZE=64"))
            }
            other => panic!("{other:?}"),
        }
        let options = Options { port: 2, ..Options::default() };
        let down = Mlx5Hca::open(allocator, &context, options);
        assert!(matches!(down, Err(Error::Device(PortError::PortDown { .. }))), "{down:?}");
    });
}
