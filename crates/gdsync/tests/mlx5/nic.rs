//! Every operation on queues created by verbs.

use gdsync::hca::{Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::{Event, Wqe};

use crate::inside::inside;
use crate::sides::{SMALL, Side, bytes, operations};
use crate::{NIC, connected_pair, side};

/// Both link layers, and both ways to wait.
fn each(request: &Request, run: fn(Side, Side)) {
    for port in [1, 2] {
        for waiting in [Waiting::Nor, Waiting::WithoutNor] {
            let (local, peer) =
                connected_pair(port, &Request { waiting, ..*request }, RetryPolicy::default());
            run(local, peer);
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn every_operation() {
    inside("nic::every_operation", &NIC, || {
        each(&Request::default(), operations::every_operation);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn rings_wrap() {
    inside("nic::rings_wrap", &NIC, || {
        each(&SMALL(), operations::rings_wrap);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn receives_wrap() {
    inside("nic::receives_wrap", &NIC, || {
        each(&SMALL(), operations::receives_wrap);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn fences() {
    inside("nic::fences", &NIC, || {
        each(&SMALL(), operations::fences);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn provider_settings() {
    let test = "nic::provider_settings";
    for variable in
        [("MLX5_SHUT_UP_BF", "1"), ("MLX5_SCATTER_TO_CQE", "1"), ("MLX5_SINGLE_THREADED", "1")]
    {
        inside(test, &[NIC[0], variable], || {
            each(&SMALL(), operations::receives_wrap);
        });
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn counters_wrap_and_queues_are_recreated() {
    inside("nic::counters_wrap_and_queues_are_recreated", &NIC, || {
        // More than 2^16 blocks on one queue pair, then 40 queue pairs: more than there are registers.
        let (mut local, peer) = connected_pair(1, &SMALL(), RetryPolicy::default());
        for round in 0..70_000_u32 {
            let word = round.to_le_bytes();
            let entry = Wqe::write(peer.region.remote(0), &[]).inline(&word).signalled();
            // By the CPU, which is faster here.
            local.pair.send.prepare(&entry).unwrap().ring().unwrap();
            let completion = local.next_sent();
            assert_eq!((completion.counter, peer.seen(0, 4)), (round as u16, word.to_vec()));
        }
        drop((local, peer));
        for round in 0..40 {
            let (mut local, mut peer) =
                connected_pair(1 + round % 2, &SMALL(), RetryPolicy::default());
            peer.pair.receive.post(&[peer.at(0, 64)]).unwrap();
            peer.wait_received();
            local.sent(&Wqe::send(&[]).inline(&bytes(round, 50)).signalled());
            peer.synchronize();
            assert_eq!(
                (peer.next_received().event, peer.seen(0, 50)),
                (Event::Received, bytes(round, 50))
            );
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn drop_keeps_other_queue_pairs() {
    inside("nic::drop_keeps_other_queue_pairs", &NIC, || {
        // Their doorbell records share a page and a registration.
        let (mut local, peer) = connected_pair(1, &SMALL(), RetryPolicy::default());
        let other = side(1, &SMALL());
        let prepared = local
            .pair
            .send
            .prepare(&Wqe::write(peer.region.remote(8), &[]).inline(b"before").signalled());
        let operations = prepared.unwrap().operations().unwrap();
        drop(other);
        local.stream.batch(&operations).unwrap();
        local.wait_sent();
        local.synchronize();
        local.next_sent();
        assert_eq!(peer.seen(8, 6), b"before");
        // Enqueued operations keep their memory after the queue pair is dropped.
        let Side { mut pair, stream, hca, region, .. } = local;
        let prepared = pair.send.prepare(&Wqe::nop()).unwrap();
        let operations = prepared.operations().unwrap();
        drop((pair, hca, region, prepared));
        stream.batch(&operations).unwrap();
        stream.synchronize().unwrap();
    });
}
