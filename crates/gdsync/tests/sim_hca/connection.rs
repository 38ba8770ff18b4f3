//! Two HCAs of one process, each with a GPU of its own.

use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Endpoint, Hca, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Syndrome, Wqe};
use gdsync::{Allocator, Error, MemoryLocation};

use super::lane::{Registered, TIMEOUT, allocator, bytes, exchange, polled, ring, waited};

struct Side {
    allocator: Allocator,
    hca: SimHca,
    pair: QueuePair,
    memory: Registered,
}

fn sides() -> [Side; 2] {
    let sides = [1, 2].map(|mark| {
        let allocator = allocator();
        let hca = SimHca::new(allocator.clone()).unwrap();
        Side {
            pair: hca.create(&Request::default()).unwrap(),
            memory: Registered::new(&hca, &allocator, MemoryLocation::Gpu, &[mark; 4096]),
            hca,
            allocator,
        }
    });
    let [one, two] = &sides;
    assert_ne!(one.hca.lid(), two.hca.lid());
    one.hca.join(&two.hca);
    connect(one, two);
    connect(two, one);
    sides
}

fn connect(local: &Side, peer: &Side) {
    let (from, to) = (local.pair.endpoint, peer.pair.endpoint);
    local.hca.connect(from, to, RetryPolicy::default()).unwrap();
}

#[test]
fn two_streams_of_two_gpus_send_to_one_another() {
    let [mut one, mut two] = sides();
    let streams = [
        one.allocator.gpu().stream().unwrap(),
        two.allocator.gpu().stream().unwrap(),
    ];
    let ends = [(&mut one.pair, &one.memory), (&mut two.pair, &two.memory)];
    exchange(&streams, ends, 200);
    assert!(one.hca.violations().is_empty() && two.hca.violations().is_empty());
}

#[test]
fn each_reads_and_writes_the_other_memory() {
    let [mut one, two] = sides();
    let read = Wqe::read(
        two.memory.region.remote(5),
        &[one.memory.region.segment(9, 100)],
    )
    .signalled();
    ring(&mut one.pair, &read);
    let completion = polled(&mut one.pair.send_completions);
    assert_eq!(completion.bytes, 100);
    assert_eq!(
        bytes(&one.memory.place)[8..110],
        [[1].as_slice(), &[2; 100], &[1]].concat()
    );
    let write = Wqe::write(two.memory.region.remote(50), &[])
        .inline(b"from the other")
        .signalled();
    ring(&mut one.pair, &write);
    polled(&mut one.pair.send_completions);
    assert_eq!(bytes(&two.memory.place)[50..64], *b"from the other");
}

fn unanswered(side: &mut Side) {
    let send = Wqe::send(&[]).inline(&[1]);
    ring(&mut side.pair, &send);
    let completion = polled(&mut side.pair.send_completions);
    let failed = completion.event.failed().unwrap();
    assert_eq!(failed.syndrome, Syndrome::TransportRetry);
}

#[test]
fn a_far_side_that_is_gone_does_not_answer() {
    let [mut one, two] = sides();
    drop(two.hca);
    unanswered(&mut one);

    let [mut one, two] = sides();
    drop(two.pair);
    unanswered(&mut one);
}

#[test]
fn a_far_side_that_goes_while_it_is_asked_ends_the_request() {
    let [mut one, two] = sides();
    // Nothing is posted: it is asked again and again.
    let send = Wqe::send(&[]).inline(&[1]);
    ring(&mut one.pair, &send);
    let stream = one.allocator.gpu().stream().unwrap();
    let wait = one.pair.send_completions.take_wait().unwrap();
    stream.batch(&wait.operations(false).unwrap()).unwrap();
    drop(two);
    stream.synchronize_within(TIMEOUT).unwrap();
    let completion = one.pair.send_completions.poll().unwrap().unwrap();
    assert_eq!(
        completion.event.failed().unwrap().syndrome,
        Syndrome::TransportRetry
    );
}

#[test]
fn who_is_connected_to_somebody_else_does_not_answer() {
    let [mut one, two] = sides();
    let third = two.hca.create(&Request::default()).unwrap();
    two.hca
        .connect(two.pair.endpoint, third.endpoint, RetryPolicy::default())
        .unwrap();
    unanswered(&mut one);
}

#[test]
fn what_is_not_there_cannot_be_connected() {
    let [one, two] = sides();
    let nowhere = Endpoint {
        lid: 0,
        ..two.pair.endpoint
    };
    let refused = one
        .hca
        .connect(one.pair.endpoint, nowhere, RetryPolicy::default());
    assert!(
        matches!(refused, Err(Error::Unreachable { lid: 0 })),
        "{refused:?}"
    );
    let nobody = Endpoint {
        qpn: 0xff_ff00,
        ..one.pair.endpoint
    };
    let refused = one
        .hca
        .connect(nobody, two.pair.endpoint, RetryPolicy::default());
    assert!(
        matches!(refused, Err(Error::NoQueuePair { qpn: 0xff_ff00 })),
        "{refused:?}"
    );
}

#[test]
fn an_hca_is_dropped_with_work_rung_and_waited_for() {
    for _ in 0..20 {
        let allocator = allocator();
        let hca = SimHca::new(allocator.clone()).unwrap();
        let mut pair = hca.create(&Request::default()).unwrap();
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())
            .unwrap();
        let wait = pair.receive_completions.take_wait().unwrap();
        let stream = allocator.gpu().stream().unwrap();
        stream.batch(&wait.operations(false).unwrap()).unwrap();
        for _ in 0..64 {
            ring(&mut pair, &Wqe::nop().signalled());
        }
        drop(hca);
        // Nobody hears it, and nothing breaks.
        ring(&mut pair, &Wqe::nop());
        drop(pair);
        wait.word().store_u32(0, 0).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();
    }
}

#[test]
fn an_hca_that_ends_gives_up_what_was_rung_and_posted() {
    // Dropped right after the doorbells: the thread has heard none, some or all of them before it ends.
    for _ in 0..50 {
        let allocator = allocator();
        let hca = SimHca::new(allocator.clone()).unwrap();
        let mut pair = hca.create(&Request::default()).unwrap();
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())
            .unwrap();
        // The first is held for longer than anybody waits.
        hca.inject(pair.send.qpn(), 0, Effect::Delay(TIMEOUT * 100));
        let mut batch = Vec::new();
        for _ in 0..3 {
            batch.extend(waited(&mut pair.send_completions, false));
        }
        batch.extend(waited(&mut pair.receive_completions, false));
        let stream = allocator.gpu().stream().unwrap();
        stream.batch(&batch).unwrap();
        pair.receive.post(&[]).unwrap();
        for _ in 0..3 {
            ring(&mut pair, &Wqe::nop());
        }
        drop(hca);
        stream.synchronize_within(TIMEOUT).unwrap();
        for counter in 0..3 {
            let completion = pair.send_completions.poll().unwrap().unwrap();
            let failed = completion.event.failed().unwrap();
            assert_eq!(
                (completion.counter, failed.syndrome),
                (counter, Syndrome::Flushed)
            );
        }
        let received = pair.receive_completions.poll().unwrap().unwrap();
        assert_eq!(received.event.failed().unwrap().syndrome, Syndrome::Flushed);
    }
}
