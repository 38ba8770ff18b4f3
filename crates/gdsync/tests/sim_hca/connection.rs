//! Two HCAs of one process, each with a GPU of its own.

use std::sync::Arc;

use gdsync::hca::sim::{Effect, Gone, Link, Message, SimHca};
use gdsync::hca::{Endpoint, Hca, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Operation, Syndrome, Wqe};
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
fn streams_of_two_gpus_exchange_messages() {
    let [mut one, mut two] = sides();
    let streams = [one.allocator.gpu().stream().unwrap(), two.allocator.gpu().stream().unwrap()];
    let ends = [(&mut one.pair, &one.memory), (&mut two.pair, &two.memory)];
    exchange(&streams, ends, 200);
    assert!(one.hca.violations().is_empty() && two.hca.violations().is_empty());
}

#[test]
fn reads_and_writes_remote_memory() {
    let [mut one, two] = sides();
    let read =
        Wqe::read(two.memory.region.remote(5), &[one.memory.region.segment(9, 100)]).signalled();
    ring(&mut one.pair, &read);
    let completion = polled(&mut one.pair.send_completions);
    assert_eq!(completion.bytes, 100);
    assert_eq!(bytes(&one.memory.place)[8..110], [[1].as_slice(), &[2; 100], &[1]].concat());
    let write = Wqe::write(two.memory.region.remote(50), &[]).inline(b"from the other").signalled();
    ring(&mut one.pair, &write);
    polled(&mut one.pair.send_completions);
    assert_eq!(bytes(&two.memory.place)[50..64], *b"from the other");
}

/// A link that delivers every message twice.
#[derive(Debug)]
struct Twice(Arc<dyn Link>);

impl Link for Twice {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        self.0.deliver(message.clone())?;
        self.0.deliver(message)
    }
}

#[test]
fn duplicates_are_executed_once() {
    let [mut one, two] = sides();
    one.hca.link(two.hca.lid(), Arc::new(Twice(two.hca.inbox())));
    two.hca.link(one.hca.lid(), Arc::new(Twice(one.hca.inbox())));
    for expected in 0..10 {
        let add = Operation::FetchAdd { remote: two.memory.region.remote(0), add: 1 };
        let wqe = Wqe::new(add, &[one.memory.region.segment(0, 8)]).signalled();
        ring(&mut one.pair, &wqe);
        polled(&mut one.pair.send_completions);
        let old = u64::from_ne_bytes([2; 8]) + expected;
        assert_eq!(bytes(&one.memory.place)[..8], old.to_ne_bytes());
    }
}

fn expect_no_answer(side: &mut Side) {
    let send = Wqe::send(&[]).inline(&[1]);
    ring(&mut side.pair, &send);
    let completion = polled(&mut side.pair.send_completions);
    let failed = completion.event.failed().unwrap();
    assert_eq!(failed.syndrome, Syndrome::TransportRetry);
}

#[test]
fn dropped_peer_fails_requests() {
    let [mut one, two] = sides();
    drop(two.hca);
    expect_no_answer(&mut one);

    let [mut one, two] = sides();
    drop(two.pair);
    expect_no_answer(&mut one);
}

#[test]
fn dropped_peer_fails_request_in_progress() {
    let [mut one, two] = sides();
    // No receive is posted, so it is retried.
    let send = Wqe::send(&[]).inline(&[1]);
    ring(&mut one.pair, &send);
    let stream = one.allocator.gpu().stream().unwrap();
    let wait = one.pair.send_completions.take_wait().unwrap();
    stream.batch(&wait.operations(false).unwrap()).unwrap();
    drop(two);
    stream.synchronize_within(TIMEOUT).unwrap();
    let completion = one.pair.send_completions.poll().unwrap().unwrap();
    assert_eq!(completion.event.failed().unwrap().syndrome, Syndrome::TransportRetry);
}

#[test]
fn peer_connected_elsewhere_fails_requests() {
    let [mut one, two] = sides();
    let third = two.hca.create(&Request::default()).unwrap();
    two.hca.connect(two.pair.endpoint, third.endpoint, RetryPolicy::default()).unwrap();
    expect_no_answer(&mut one);
}

#[test]
fn rejects_unknown_endpoints() {
    let [one, two] = sides();
    let nowhere = Endpoint { lid: 0, ..two.pair.endpoint };
    let refused = one.hca.connect(one.pair.endpoint, nowhere, RetryPolicy::default());
    assert!(matches!(refused, Err(Error::Unreachable { lid: 0 })), "{refused:?}");
    let unknown = Endpoint { qpn: 0xff_ff00, ..one.pair.endpoint };
    let refused = one.hca.connect(unknown, two.pair.endpoint, RetryPolicy::default());
    assert!(matches!(refused, Err(Error::NoQueuePair { qpn: 0xff_ff00 })), "{refused:?}");
}

#[test]
fn drops_with_pending_work() {
    for _ in 0..20 {
        let allocator = allocator();
        let hca = SimHca::new(allocator.clone()).unwrap();
        let mut pair = hca.create(&Request::default()).unwrap();
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default()).unwrap();
        let wait = pair.receive_completions.take_wait().unwrap();
        let stream = allocator.gpu().stream().unwrap();
        stream.batch(&wait.operations(false).unwrap()).unwrap();
        for _ in 0..64 {
            ring(&mut pair, &Wqe::nop().signalled());
        }
        drop(hca);
        // Has no effect.
        ring(&mut pair, &Wqe::nop());
        drop(pair);
        wait.word().store_u32(0, 0).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();
    }
}

#[test]
fn drop_flushes_posted_work() {
    // Dropped right after the doorbells: the thread has seen none, some or all of them.
    for _ in 0..50 {
        let allocator = allocator();
        let hca = SimHca::new(allocator.clone()).unwrap();
        let mut pair = hca.create(&Request::default()).unwrap();
        hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default()).unwrap();
        // Delay the first beyond the test's timeout.
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
            assert_eq!((completion.counter, failed.syndrome), (counter, Syndrome::Flushed));
        }
        let received = pair.receive_completions.poll().unwrap().unwrap();
        assert_eq!(received.event.failed().unwrap().syndrome, Syndrome::Flushed);
    }
}
