//! Every operation by a NIC's own queues, and what of them lies where.

use gdsync::hca::{Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::{Event, Wqe};

use crate::inside::inside;
use crate::sides::{SMALL, Side, bytes, operations};
use crate::{CARD, connected_pair, side};

/// Both kinds of link, and both ways to wait.
fn each(request: &Request, run: fn(Side, Side)) {
    for port in [1, 2] {
        for waiting in [Waiting::Nor, Waiting::WithoutNor] {
            let (local, peer) = connected_pair(
                port,
                &Request {
                    waiting,
                    ..*request
                },
                RetryPolicy::default(),
            );
            run(local, peer);
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn every_operation_moves_its_bytes_and_a_stream_goes_on() {
    inside(
        "nic::every_operation_moves_its_bytes_and_a_stream_goes_on",
        &CARD,
        || {
            each(&Request::default(), operations::every_operation);
        },
    );
}

#[test]
#[ignore = "needs libmlx5"]
fn rings_go_round_with_entries_that_wrap() {
    inside("nic::rings_go_round_with_entries_that_wrap", &CARD, || {
        each(&SMALL(), operations::rings_go_round);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn receives_are_told_by_their_own_counter() {
    inside("nic::receives_are_told_by_their_own_counter", &CARD, || {
        each(&SMALL(), operations::receives_are_told);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn what_is_behind_a_fence_sends_what_was_read() {
    inside(
        "nic::what_is_behind_a_fence_sends_what_was_read",
        &CARD,
        || {
            each(&SMALL(), operations::fences);
        },
    );
}

#[test]
#[ignore = "needs libmlx5"]
fn without_blueflame_and_with_what_the_provider_would_scatter_into_completions() {
    let test = "nic::without_blueflame_and_with_what_the_provider_would_scatter_into_completions";
    for variable in [
        ("MLX5_SHUT_UP_BF", "1"),
        ("MLX5_SCATTER_TO_CQE", "1"),
        ("MLX5_SINGLE_THREADED", "1"),
    ] {
        inside(test, &[CARD[0], variable], || {
            each(&SMALL(), operations::receives_are_told);
        });
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn counters_go_round_and_queues_come_and_go() {
    inside(
        "nic::counters_go_round_and_queues_come_and_go",
        &CARD,
        || {
            // 2^16 blocks and more of one queue pair, and 40 queue pairs after another: more than there are registers.
            let (mut local, peer) = connected_pair(1, &SMALL(), RetryPolicy::default());
            for round in 0..70_000_u32 {
                let word = round.to_le_bytes();
                let entry = Wqe::write(peer.region.remote(0), &[])
                    .inline(&word)
                    .signalled();
                // By the CPU, which is quicker here.
                local.pair.send.prepare(&entry).unwrap().ring().unwrap();
                let completion = local.next_sent();
                assert_eq!(
                    (completion.counter, peer.seen(0, 4)),
                    (round as u16, word.to_vec())
                );
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
        },
    );
}

#[test]
#[ignore = "needs libmlx5"]
fn a_queue_pair_that_is_dropped_leaves_those_beside_it_alone() {
    inside(
        "nic::a_queue_pair_that_is_dropped_leaves_those_beside_it_alone",
        &CARD,
        || {
            // Their doorbell records are of one page, and of one registration.
            let (mut local, peer) = connected_pair(1, &SMALL(), RetryPolicy::default());
            let other = side(1, &SMALL());
            let prepared = local.pair.send.prepare(
                &Wqe::write(peer.region.remote(8), &[])
                    .inline(b"before")
                    .signalled(),
            );
            let operations = prepared.unwrap().operations().unwrap();
            drop(other);
            local.stream.batch(&operations).unwrap();
            local.wait_sent();
            local.synchronize();
            local.next_sent();
            assert_eq!(peer.seen(8, 6), b"before");
            // What a stream was given stays memory, whoever is gone by the time it does it.
            let Side {
                mut pair,
                stream,
                hca,
                region,
                ..
            } = local;
            let prepared = pair.send.prepare(&Wqe::nop()).unwrap();
            let operations = prepared.operations().unwrap();
            drop((pair, hca, region, prepared));
            stream.batch(&operations).unwrap();
            stream.synchronize().unwrap();
        },
    );
}
