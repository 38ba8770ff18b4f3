//! Each syndrome, real or injected, ends a stream's wait and flushes the remaining work.

use std::time::Duration;

use gdsync::MemoryLocation;
use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Hca, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Completion, DataSegment, Event, Operation, Syndrome, Wqe};

use super::datagrams::hca;
use super::lane::{Registered, TIMEOUT, allocator, bytes, polled, ring, rung, waited};
use super::sides::{SMALL, Side, errors};

struct Two {
    allocator: gdsync::Allocator,
    hca: SimHca,
    local: QueuePair,
    peer: QueuePair,
    memory: Registered,
}

/// Two connected queue pairs of one HCA, with three fast RNR retries.
fn two() -> Two {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let [local, peer] = [0, 1].map(|_| hca.create(&Request::default()).unwrap());
    let timeout = RetryPolicy { retries: Some(3), pause: Duration::from_micros(10) };
    hca.connect(local.endpoint, peer.endpoint, timeout).unwrap();
    hca.connect(peer.endpoint, local.endpoint, timeout).unwrap();
    let memory = Registered::new(&hca, &allocator, MemoryLocation::Host, &[0x5a; 4096]);
    Two { allocator, hca, local, peer, memory }
}

fn failed(completion: &Completion) -> (u8, u8) {
    match completion.event.failed() {
        Some(failed) => (failed.syndrome.code(), failed.vendor),
        None => panic!("{completion:?} is not a failure"),
    }
}

/// The numbers of mlx5dv.h, and an unknown one.
const SYNDROMES: [u8; 14] =
    [0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22, 0x77];

#[test]
fn send_errors_end_waits() {
    for (number, code) in SYNDROMES.into_iter().enumerate() {
        let mut two = two();
        let vendor = 0x80 + number as u8;
        let syndrome = Syndrome::of(code);
        two.hca.inject(two.local.send.qpn(), 2, Effect::Fail { syndrome, vendor });
        // Two succeed (the first unsignalled), an unsignalled one fails, two are flushed.
        let write = Wqe::write(two.memory.region.remote(0), &[]).inline(&[1]);
        let mut batch = Vec::new();
        for position in 0..5 {
            let entry = if position % 2 == 1 { write.clone().signalled() } else { write.clone() };
            batch.extend(rung(&mut two.local, &entry));
        }
        for _ in 0..4 {
            batch.extend(waited(&mut two.local.send_completions, false));
        }
        let stream = two.allocator.gpu().stream().unwrap();
        stream.batch(&batch).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();

        let completions: Vec<Completion> =
            (0..4).map(|_| two.local.send_completions.poll().unwrap().unwrap()).collect();
        assert_eq!((completions[0].event, completions[0].counter), (Event::Sent { opcode: 8 }, 1));
        assert_eq!(completions[1].counter, 2);
        assert_eq!(failed(&completions[1]), (code, vendor));
        for (position, flushed) in completions[2..].iter().enumerate() {
            assert_eq!((failed(flushed).0, flushed.counter), (0x05, position as u16 + 3));
        }
        for completion in &completions {
            two.local.send.complete(completion).unwrap();
        }
        assert_eq!(two.local.send.pending(), 0);
    }
}

#[test]
fn receive_errors_end_waits() {
    for code in SYNDROMES {
        let mut two = two();
        let syndrome = Syndrome::of(code);
        let effect = Effect::FailReceive { syndrome, vendor: 0x99 };
        two.hca.inject(two.peer.send.qpn(), 0, effect);
        for _ in 0..2 {
            two.peer.receive.post(&[two.memory.region.segment(0, 64)]).unwrap();
        }
        let stream = two.allocator.gpu().stream().unwrap();
        let wait = two.peer.receive_completions.take_wait().unwrap();
        stream.batch(&wait.operations(false).unwrap()).unwrap();
        let send = Wqe::send(&[]).inline(&[1]);
        ring(&mut two.local, &send);
        stream.synchronize_within(TIMEOUT).unwrap();
        let completion = two.peer.receive_completions.poll().unwrap().unwrap();
        assert_eq!((failed(&completion), completion.counter), ((code, 0x99), 0));
        assert_eq!(two.peer.receive.complete(&completion).unwrap(), 0);
        // The other receive is flushed.
        let flushed = polled(&mut two.peer.receive_completions);
        assert_eq!((failed(&flushed).0, flushed.counter), (0x05, 1));
        // The sender gets a remote operation error.
        assert_eq!(failed(&polled(&mut two.local.send_completions)).0, 0x14);
        assert_eq!(bytes(&two.memory.place), [0x5a; 4096]);
    }
}

/// Posts a WQE and returns its syndrome.
fn syndrome_of(two: &mut Two, entry: &Wqe) -> u8 {
    ring(&mut two.local, entry);
    failed(&polled(&mut two.local.send_completions)).0
}

#[test]
fn of_every_hca() {
    let hca = hca();
    errors::all(&|policy| {
        let side = || Side::new(&SMALL(), |_| Box::new(hca.clone()));
        let (local, peer) = (side(), side());
        local.connect(&peer, policy);
        peer.connect(&local, policy);
        (local, peer)
    });
}

#[test]
fn atomic_operation_needs_memory() {
    let mut two = two();
    let remote = two.memory.region.remote(8);
    let entry = Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[]);
    assert_eq!(syndrome_of(&mut two, &entry), 0x01);
}

#[test]
fn receive_without_memory_fails_both_sides() {
    let mut two = two();
    let wrong = DataSegment { length: 64, key: 0x55, address: 0 };
    two.peer.receive.post(&[wrong]).unwrap();
    assert_eq!(syndrome_of(&mut two, &Wqe::send(&[]).inline(&[0; 9])), 0x14);
    assert_eq!(failed(&polled(&mut two.peer.receive_completions)).0, 0x04);
}

#[test]
fn retries_without_limit() {
    let mut unlimited = two();
    let (local, peer) = (unlimited.local.endpoint, unlimited.peer.endpoint);
    unlimited.hca.connect(local, peer, RetryPolicy::default()).unwrap();
    let send = Wqe::send(&[]).inline(b"late").signalled();
    ring(&mut unlimited.local, &send);
    // Another queue pair works during the retries.
    for _ in 0..50 {
        ring(&mut unlimited.peer, &Wqe::nop().signalled());
        let done = polled(&mut unlimited.peer.send_completions);
        unlimited.peer.send.complete(&done).unwrap();
    }
    assert!(unlimited.local.send_completions.poll().unwrap().is_none());
    unlimited.peer.receive.post(&[unlimited.memory.region.segment(0, 4)]).unwrap();
    assert!(polled(&mut unlimited.local.send_completions).event.failed().is_none());
    assert_eq!(bytes(&unlimited.memory.place)[..4], *b"late");
}

#[test]
fn malformed_wqe_is_local_error() {
    for (offset, value) in [(3, 0x7f), (7, 0x3f), (7, 0), (11, 0x07), (31, 0)] {
        let mut two = two();
        let write = Wqe::write(two.memory.region.remote(0), &[two.memory.region.segment(0, 8)]);
        let prepared = two.local.send.prepare(&write).unwrap();
        // 31 stands for a data segment of length 0.
        let offset = if offset == 31 { 35 } else { offset };
        two.local.send.parts().ring.write(offset, &[value]).unwrap();
        prepared.ring().unwrap();
        let completion = polled(&mut two.local.send_completions);
        assert_eq!((failed(&completion).0, completion.counter), (0x02, 0), "{offset} {value:#x}");
        two.local.send.complete(&completion).unwrap();
    }
}

#[test]
fn flushes_work_after_failure() {
    let mut two = two();
    let (syndrome, vendor) = (Syndrome::RemoteAborted, 0);
    two.hca.inject(two.local.send.qpn(), 0, Effect::Fail { syndrome, vendor });
    assert_eq!(syndrome_of(&mut two, &Wqe::nop()), 0x22);
    for _ in 0..300 {
        two.local.receive.post(&[]).unwrap();
        ring(&mut two.local, &Wqe::nop());
        let sent = polled(&mut two.local.send_completions);
        let received = polled(&mut two.local.receive_completions);
        assert_eq!((failed(&sent).0, failed(&received).0), (0x05, 0x05));
        // The first WQE is still pending.
        let _ = two.local.send.complete(&sent).unwrap();
        two.local.receive.complete(&received).unwrap();
    }
}
