//! Queue pairs created by DEVX, with rings, records and completions in GPU memory.

use std::time::Duration;

use gdsync::MemoryLocation;
use gdsync::hca::{Driver, Request, RetryPolicy};
use gdsync::wire::Wqe;

use crate::inside::inside;
use crate::kernel::RECORDLESS;
use crate::sides::{SMALL, Side, datagrams, operations};
use crate::{NIC, connected_pair, side};

/// A fake NIC and a fake kernel with DEVX.
const DEVX: [(&str, &str); 2] = [NIC[0], ("FAKE_UVERBS_DEVX", "1")];

/// Both link layers, with every combination of parts in GPU memory.
fn each(request: &Request, run: fn(Side, Side)) {
    each_request(request, |port, request| {
        let (local, peer) = connected_pair(port, request, RetryPolicy::default());
        run(local, peer);
    });
}

fn each_request(request: &Request, run: impl Fn(u8, &Request)) {
    let location = |is_gpu: bool| {
        if is_gpu { MemoryLocation::Gpu } else { MemoryLocation::Host }
    };
    for port in [1, 2] {
        for bits in 1..16_u8 {
            let request = Request {
                queues: location(bits & 1 != 0),
                records: location(bits & 2 != 0),
                completions: [location(bits & 4 != 0), location(bits & 8 != 0)],
                ..*request
            };
            run(port, &request);
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn every_operation() {
    let test = "firmware::every_operation";
    inside(test, &DEVX, || {
        each(&Request::default(), operations::every_operation);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn rings_wrap() {
    let test = "firmware::rings_wrap";
    inside(test, &DEVX, || {
        each(&SMALL(), operations::rings_wrap);
    });
}

/// The doorbell alone says what is posted, of WQEs of all lengths and over the end of the ring.
#[test]
#[ignore = "needs libmlx5"]
fn without_record() {
    inside("firmware::without_record", &RECORDLESS, || {
        let recordless = |request| Request { driver: Driver::KernelsWithoutRecord, ..request };
        each(&recordless(Request::default()), operations::every_operation);
        each(&recordless(SMALL()), operations::rings_wrap);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn receives_wrap() {
    let test = "firmware::receives_wrap";
    inside(test, &DEVX, || {
        each(&SMALL(), operations::receives_wrap);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn fences() {
    let test = "firmware::fences";
    inside(test, &DEVX, || {
        each(&SMALL(), operations::fences);
    });
}

/// Everything in GPU memory.
fn on_gpu() -> Request {
    Request {
        queues: MemoryLocation::Gpu,
        records: MemoryLocation::Gpu,
        completions: [MemoryLocation::Gpu; 2],
        ..SMALL()
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn errors_end_waits_and_flush() {
    let test = "firmware::errors_end_waits_and_flush";
    inside(test, &DEVX, || {
        let timeout = RetryPolicy { retries: Some(2), ..RetryPolicy::default() };
        let connected_pair = || connected_pair(2, &on_gpu(), timeout);
        // A remote access error flushes later work.
        let (mut local, peer) = connected_pair();
        let mut remote = peer.region.remote(0);
        remote.key ^= 0x100;
        local.ring(&Wqe::write(remote, &[local.at(0, 8)]).signalled());
        local.ring(&Wqe::nop().signalled());
        local.wait_sent();
        local.wait_sent();
        local.synchronize();
        assert_eq!([local.next_failed().0, local.next_failed().0], [0x13, 0x05]);
        // No receive is posted; then the peer is gone.
        let (mut local, peer) = connected_pair();
        local.ring(&Wqe::send(&[]).inline(b"nobody").signalled());
        local.wait_sent();
        local.synchronize();
        assert_eq!(local.next_failed().0, 0x16);
        drop(peer);
        let (mut local, peer) = connected_pair();
        let remote = peer.region.remote(0);
        drop(peer);
        local.ring(&Wqe::write(remote, &[]).inline(b"nowhere").signalled());
        local.wait_sent();
        local.synchronize();
        assert_eq!(local.next_failed().0, 0x15);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn connects_to_a_verbs_queue_pair() {
    let test = "firmware::connects_to_a_verbs_queue_pair";
    inside(test, &DEVX, || {
        for port in [1, 2] {
            let local = crate::side(port, &SMALL());
            let peer = crate::side(port, &on_gpu());
            local.connect(&peer, RetryPolicy::default());
            peer.connect(&local, RetryPolicy::default());
            operations::every_operation(local, peer);
        }
    });
}

/// Both link layers, with every combination of parts in GPU memory.
#[test]
#[ignore = "needs libmlx5"]
fn datagrams() {
    inside("firmware::datagrams", &DEVX, || {
        for run in [datagrams::arrive, datagrams::are_lost] {
            each_request(&datagrams::request(), |port, request| {
                run(side(port, request), side(port, request), Duration::ZERO);
            });
        }
    });
}
