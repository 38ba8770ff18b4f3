//! Every operation transfers its data and completes on both sides as on a NIC.

use std::time::Duration;

use gdsync::hca::{Request, RetryPolicy};
use gdsync::wire::{Event, Wqe};
use gpu::MemOp;

use crate::machine::{infiniband, on, roce};
use crate::sides::{SMALL, datagrams, operations};
use crate::{connected_pair, side};

#[test]
fn every_operation() {
    let test = "operations::every_operation";
    on(test, &[infiniband(), roce()], |_| {
        let (local, peer) = connected_pair(&Request::default(), RetryPolicy::default());
        operations::every_operation(local, peer);
    });
}

#[test]
fn rings_wrap() {
    let test = "operations::rings_wrap";
    on(test, &[infiniband()], |_| {
        let (local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        operations::rings_wrap(local, peer);
    });
}

#[test]
fn receives_wrap() {
    let test = "operations::receives_wrap";
    on(test, &[infiniband()], |_| {
        let (local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        operations::receives_wrap(local, peer);
    });
}

#[test]
fn work_waits_for_connection_and_receive() {
    let test = "operations::work_waits_for_connection_and_receive";
    on(test, &[infiniband()], |_| {
        let mut local = side("mlx5_0", &SMALL());
        let mut peer = side("mlx5_1", &SMALL());
        peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
        local.ring(&Wqe::send(&[]).inline(b"early").signalled());
        local.synchronize();
        local.wait_sent();
        peer.connect(&local, RetryPolicy::default());
        local.connect(&peer, RetryPolicy::default());
        local.synchronize();
        assert_eq!(local.next_sent().event, Event::Sent { opcode: 0x0a });
        assert_eq!((peer.next_received().bytes, peer.seen(0, 5)), (5, b"early".to_vec()));
        // Without a receive, the sender retries without limit.
        local.ring(&Wqe::send(&[]).inline(b"late").signalled());
        local.wait_sent();
        peer.pair.receive.post(&[peer.at(8, 8)]).unwrap();
        local.synchronize();
        assert_eq!(local.next_sent().event, Event::Sent { opcode: 0x0a });
        assert_eq!((peer.next_received().counter, peer.seen(8, 4)), (1, b"late".to_vec()));
        // Several inline sends wait at once and keep their data.
        let entries = [b"one", b"two", b"six"].map(|text| Wqe::send(&[]).inline(text).signalled());
        let [_, _, last] = entries.map(|entry| local.pair.send.prepare(&entry).unwrap());
        let [.., MemOp::Write64 { at: register, .. }] = last.ops() else { panic!("{last:?}") };
        last.ring().unwrap();
        while register.load_u64(0).unwrap() != 0 {
            std::thread::yield_now();
        }
        for at in 0..3 {
            peer.pair.receive.post(&[peer.at(16 + at * 3, 3)]).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(peer.next_received().bytes, 3);
            local.next_sent();
        }
        assert_eq!(peer.seen(16, 9), b"onetwosix");
    });
}

#[test]
fn fences() {
    let test = "operations::fences";
    on(test, &[infiniband()], |_| {
        let (local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        operations::fences(local, peer);
    });
}

/// Each NIC of the simulated libibverbs sends datagrams to itself.
#[test]
fn of_datagrams() {
    let test = "operations::of_datagrams";
    on(test, &[infiniband(), roce()], |_| {
        let side = || side("mlx5_0", &datagrams::request());
        // A receive of an idle proxy is posted within a millisecond.
        let pause = Duration::from_millis(30);
        datagrams::arrive(side(), side(), pause);
        datagrams::are_lost(side(), side(), pause);
    });
}
