//! Queue pairs that the NIC's firmware makes in GPU memory: what every HCA does, with rings, records and completions there.

use gdsync::MemoryLocation;
use gdsync::hca::{Request, RetryPolicy};
use gdsync::wire::Wqe;

use crate::inside::inside;
use crate::sides::{SMALL, Side, operations};
use crate::{CARD, connected_pair};

/// The NIC executes, and the kernel has DEVX.
const FIRMWARE: [(&str, &str); 2] = [CARD[0], ("FAKE_UVERBS_DEVX", "1")];

/// Both kinds of link, and each way to have something in GPU memory.
fn each(request: &Request, run: fn(Side, Side)) {
    let location = |is_gpu: bool| {
        if is_gpu {
            MemoryLocation::Gpu
        } else {
            MemoryLocation::Host
        }
    };
    for port in [1, 2] {
        for bits in 1..8_u8 {
            let request = Request {
                queues: location(bits & 1 != 0),
                records: location(bits & 2 != 0),
                completions: location(bits & 4 != 0),
                ..*request
            };
            let (local, peer) = connected_pair(port, &request, RetryPolicy::default());
            run(local, peer);
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn every_operation_moves_its_bytes_and_a_stream_goes_on() {
    let test = "firmware::every_operation_moves_its_bytes_and_a_stream_goes_on";
    inside(test, &FIRMWARE, || {
        each(&Request::default(), operations::every_operation);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn rings_go_round_with_entries_that_wrap() {
    let test = "firmware::rings_go_round_with_entries_that_wrap";
    inside(test, &FIRMWARE, || {
        each(&SMALL(), operations::rings_go_round);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn receives_are_told_by_their_own_counter() {
    let test = "firmware::receives_are_told_by_their_own_counter";
    inside(test, &FIRMWARE, || {
        each(&SMALL(), operations::receives_are_told);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn what_is_behind_a_fence_sends_what_was_read() {
    let test = "firmware::what_is_behind_a_fence_sends_what_was_read";
    inside(test, &FIRMWARE, || {
        each(&SMALL(), operations::fences);
    });
}

/// Everything in GPU memory.
fn on_gpu() -> Request {
    Request {
        queues: MemoryLocation::Gpu,
        records: MemoryLocation::Gpu,
        completions: MemoryLocation::Gpu,
        ..SMALL()
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn what_a_card_refuses_ends_the_wait_and_all_behind_it_is_flushed() {
    let test = "firmware::what_a_card_refuses_ends_the_wait_and_all_behind_it_is_flushed";
    inside(test, &FIRMWARE, || {
        let timeout = RetryPolicy {
            retries: Some(2),
            ..RetryPolicy::default()
        };
        let connected_pair = || connected_pair(2, &on_gpu(), timeout);
        // Remote access, and flushed behind it.
        let (mut local, peer) = connected_pair();
        let mut remote = peer.region.remote(0);
        remote.key ^= 0x100;
        local.ring(&Wqe::write(remote, &[local.at(0, 8)]).signalled());
        local.ring(&Wqe::nop().signalled());
        local.wait_sent();
        local.wait_sent();
        local.synchronize();
        assert_eq!([local.next_failed().0, local.next_failed().0], [0x13, 0x05]);
        // Nothing is posted there, so often; nobody is there.
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
fn a_queue_pair_of_verbs_and_one_of_the_firmware_are_connected() {
    let test = "firmware::a_queue_pair_of_verbs_and_one_of_the_firmware_are_connected";
    inside(test, &FIRMWARE, || {
        for port in [1, 2] {
            let local = crate::side(port, &SMALL());
            let peer = crate::side(port, &on_gpu());
            local.connect(&peer, RetryPolicy::default());
            peer.connect(&local, RetryPolicy::default());
            operations::every_operation(local, peer);
        }
    });
}
