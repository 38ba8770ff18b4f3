//! Every operation by a card's own queues, and what of them lies where.

use gdsync::hca::{Patience, Request};
use gdsync::queue::Waiting;
use gdsync::wire::{Entry, Event};

use crate::inside::inside;
use crate::sides::{SMALL, Side, bytes, operations};
use crate::{CARD, joined, side};

/// Both kinds of link, and both ways to wait.
fn each(request: &Request, run: fn(Side, Side)) {
    for port in [1, 2] {
        for waiting in [Waiting::Nor, Waiting::WithoutNor] {
            let (near, far) = joined(port, &Request { waiting, ..*request }, Patience::default());
            run(near, far);
        }
    }
}

#[test]
fn every_operation_moves_its_bytes_and_a_stream_goes_on() {
    inside(
        "card::every_operation_moves_its_bytes_and_a_stream_goes_on",
        &CARD,
        || {
            each(&Request::default(), operations::every_operation);
        },
    );
}

#[test]
fn rings_go_round_with_entries_that_wrap() {
    inside("card::rings_go_round_with_entries_that_wrap", &CARD, || {
        each(&SMALL(), operations::rings_go_round);
    });
}

#[test]
fn receives_are_told_by_their_own_counter() {
    inside("card::receives_are_told_by_their_own_counter", &CARD, || {
        each(&SMALL(), operations::receives_are_told);
    });
}

#[test]
fn what_is_behind_a_fence_sends_what_was_read() {
    inside("card::what_is_behind_a_fence_sends_what_was_read", &CARD, || {
        each(&SMALL(), operations::fences);
    });
}

#[test]
fn without_blueflame_and_with_what_the_provider_would_scatter_into_completions() {
    let test = "card::without_blueflame_and_with_what_the_provider_would_scatter_into_completions";
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
fn counters_go_round_and_queues_come_and_go() {
    inside("card::counters_go_round_and_queues_come_and_go", &CARD, || {
        // 2^16 blocks and more of one queue pair, and 40 queue pairs after another: more than there are registers.
        let (mut near, far) = joined(1, &SMALL(), Patience::default());
        for round in 0..70_000_u32 {
            let word = round.to_le_bytes();
            let entry = Entry::write(far.region.remote(0), &[]).inline(&word).signalled();
            // By the CPU, which is quicker here.
            near.pair.send.prepare(&entry).unwrap().ring().unwrap();
            let completion = near.next_sent();
            assert_eq!((completion.counter, far.seen(0, 4)), (round as u16, word.to_vec()));
        }
        drop((near, far));
        for round in 0..40 {
            let (mut near, mut far) = joined(1 + round % 2, &SMALL(), Patience::default());
            far.pair.receive.post(&[far.at(0, 64)]).unwrap();
            far.wait_received();
            near.sent(&Entry::send(&[]).inline(&bytes(round, 50)).signalled());
            far.synchronize();
            assert_eq!(
                (far.next_received().event, far.seen(0, 50)),
                (Event::Received, bytes(round, 50))
            );
        }
    });
}

#[test]
fn a_queue_pair_that_is_dropped_leaves_those_beside_it_alone() {
    inside(
        "card::a_queue_pair_that_is_dropped_leaves_those_beside_it_alone",
        &CARD,
        || {
            // Their doorbell records are of one page, and of one registration.
            let (mut near, far) = joined(1, &SMALL(), Patience::default());
            let other = side(1, &SMALL());
            let prepared = near
                .pair
                .send
                .prepare(&Entry::write(far.region.remote(8), &[]).inline(b"before").signalled());
            let operations = prepared.unwrap().operations().unwrap();
            drop(other);
            near.stream.batch(&operations).unwrap();
            near.wait_sent();
            near.synchronize();
            near.next_sent();
            assert_eq!(far.seen(8, 6), b"before");
            // What a stream was given stays memory, whoever is gone by the time it does it.
            let Side {
                mut pair,
                stream,
                hca,
                region,
                ..
            } = near;
            let prepared = pair.send.prepare(&Entry::nop()).unwrap();
            let operations = prepared.operations().unwrap();
            drop((pair, hca, region, prepared));
            stream.batch(&operations).unwrap();
            stream.synchronize().unwrap();
        },
    );
}
