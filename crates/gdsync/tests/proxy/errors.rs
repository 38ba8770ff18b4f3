//! Errors complete with a NIC's syndromes, and no stream waits forever.

use gdsync::hca::{Access, RetryPolicy};
use gdsync::wire::{DataSegment, Event, RemoteAddress, Wqe};
use serde_json::json;

use crate::machine::{infiniband, on, with};
use crate::sides::{SMALL, Side, failure};
use crate::{connected_pair, side};

/// Status of verbs.h, and the syndrome of mlx5dv.h from which rdma-core's mlx5 derives it.
const STATUSES: [(u32, u8); 13] = [
    (1, 0x01),
    (2, 0x02),
    (4, 0x04),
    (5, 0x05),
    (6, 0x06),
    (7, 0x10),
    (8, 0x11),
    (9, 0x12),
    (10, 0x13),
    (11, 0x14),
    (12, 0x15),
    (13, 0x16),
    (16, 0x22),
];

#[test]
fn converts_status_and_flushes() {
    let test = "errors::converts_status_and_flushes";
    let machines = STATUSES.map(|(status, _)| {
        let vendor_err = 0x80 + status;
        with(
            "fail",
            json!([{"nth": 2, "status": status, "vendor_err": vendor_err}]),
        )
    });
    on(test, &machines, |number| {
        let (status, code) = STATUSES[number];
        let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
        local.pair.receive.post(&[local.at(0, 8)]).unwrap();
        let write = |peer: &Side| Wqe::write(peer.region.remote(0), &[]).inline(b"x");
        // The first succeeds unsignalled, the second fails unsignalled, the third is flushed.
        local.ring(&write(&peer));
        let failing = local.ring(&write(&peer));
        local.wait_sent();
        local.synchronize();
        local.ring(&write(&peer).signalled());
        local.wait_sent();
        local.synchronize();
        let completion = local.next_sent();
        assert_eq!(completion.counter, failing);
        assert_eq!(
            failure(&completion),
            (code, 0x80 + status as u8),
            "{status}"
        );
        let Event::SendFailed(failed) = completion.event else {
            panic!("{completion:?}")
        };
        assert_eq!(failed.opcode, 8);
        assert_eq!(local.next_failed(), (0x05, 0));
        // Posted receives are flushed, and so is later work.
        let flushed = local.next_received();
        assert!(matches!(flushed.event, Event::ReceiveFailed(_)));
        assert_eq!((flushed.counter, failure(&flushed).0), (0, 0x05));
        local.wait_received();
        local.pair.receive.post(&[local.at(0, 8)]).unwrap();
        local.synchronize();
        assert_eq!(failure(&local.next_received()).0, 0x05);
        // The remote side's next request gets no answer.
        let orphan = Wqe::write(local.region.remote(0), &[])
            .inline(b"x")
            .signalled();
        let orphan = peer.sent(&orphan);
        assert_eq!(failure(&orphan).0, 0x15);
    });
}

#[test]
fn flushes_nops_after_an_error() {
    let test = "errors::flushes_nops_after_an_error";
    on(
        test,
        &[with("fail", json!([{"nth": 1, "status": 11}]))],
        |_| {
            let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
            let before = local.pair.send.prepare(&Wqe::nop().signalled()).unwrap();
            let write = Wqe::write(peer.region.remote(0), &[]).inline(b"x");
            let failing = local.pair.send.prepare(&write).unwrap();
            let behind = local.pair.send.prepare(&Wqe::nop().signalled()).unwrap();
            let counters = [before.counter(), failing.counter(), behind.counter()];
            behind.ring().unwrap();
            let completions = [local.next_sent(), local.next_sent(), local.next_sent()];
            assert_eq!(completions.map(|completion| completion.counter), counters);
            assert_eq!(completions[0].event, Event::Sent { opcode: 0 });
            assert_eq!(
                (failure(&completions[1]).0, failure(&completions[2]).0),
                (0x14, 0x05)
            );
        },
    );
}

#[test]
fn unregistered_memory_fails_in_order() {
    let test = "errors::unregistered_memory_fails_in_order";
    on(test, &[infiniband()], |_| {
        let wrong: [fn(&Side) -> DataSegment; 5] = [
            // Unknown key.
            |side| DataSegment {
                key: 0x0bad_0bad,
                ..side.at(0, 8)
            },
            // Across the end, and after it.
            |side| side.at(8185, 8),
            |side| side.at(8192, 1),
            |side| DataSegment {
                address: side.region.address - 1,
                ..side.at(0, 8)
            },
            |side| DataSegment {
                address: u64::MAX,
                ..side.at(0, 8)
            },
        ];
        for wrong in wrong {
            let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
            // One doorbell for all three: the last one is valid but not executed.
            let entries = [
                Wqe::write(peer.region.remote(0), &[local.at(0, 8)]).signalled(),
                Wqe::write(peer.region.remote(0), &[local.at(0, 8), wrong(&local)]),
                Wqe::write(peer.region.remote(64), &[]).inline(b"behind"),
            ];
            let [good, bad, behind] = entries.map(|entry| local.pair.send.prepare(&entry).unwrap());
            let (good, bad) = (good.counter(), bad.counter());
            local.stream.batch(&behind.operations().unwrap()).unwrap();
            for _ in 0..3 {
                local.wait_sent();
            }
            local.synchronize();
            let (first, second) = (local.next_sent(), local.next_sent());
            assert_eq!(
                (first.counter, first.event),
                (good, Event::Sent { opcode: 8 })
            );
            assert_eq!((second.counter, failure(&second)), (bad, (0x04, 0)));
            assert_eq!(local.next_failed(), (0x05, 0));
            assert_eq!(peer.seen(64, 6), [0; 6]);
            // The verbs queue pair had no error, but is destroyed: the remote side gets no answer.
            let orphan = Wqe::write(local.region.remote(0), &[]).inline(b"x");
            assert_eq!(failure(&peer.sent(&orphan)).0, 0x15);
        }
    });
}

#[test]
fn checks_local_access() {
    let test = "errors::checks_local_access";
    on(test, &[infiniband()], |_| {
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let only_read = local.hca.register(&local.memory, Access::NONE).unwrap();
        let piece = only_read.segment(0, 8);
        assert!(
            local
                .sent(&Wqe::write(peer.region.remote(0), &[piece]).signalled())
                .event
                .failed()
                .is_none()
        );
        assert_eq!(
            failure(&local.sent(&Wqe::read(peer.region.remote(0), &[piece]))),
            (0x04, 0)
        );
        // Verbs alone would allow it, because remote write implies local write.
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let access = Access {
            remote_write: true,
            ..Access::NONE
        };
        let write_only = local.hca.register(&local.memory, access).unwrap();
        let piece = write_only.segment(0, 8);
        assert_eq!(
            failure(&local.sent(&Wqe::read(peer.region.remote(0), &[piece]))),
            (0x04, 0)
        );
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let gone = local.hca.register(&local.memory, Access::ALL).unwrap();
        let piece = gone.segment(0, 8);
        drop(gone);
        assert_eq!(
            failure(&local.sent(&Wqe::write(peer.region.remote(0), &[piece]))),
            (0x04, 0)
        );
    });
}

#[test]
fn checks_remote_access() {
    let test = "errors::checks_remote_access";
    on(test, &[infiniband()], |_| {
        let register = |side: &Side, access| {
            side.hca
                .register(&side.memory.part(1024, 64).unwrap(), access)
                .unwrap()
        };
        let write = Access {
            remote_write: true,
            ..Access::NONE
        };
        let outside: [fn(u64, u32) -> RemoteAddress; 3] = [
            |address, key| RemoteAddress {
                address: address + 57,
                key,
            },
            |address, key| RemoteAddress {
                address: address - 1,
                key,
            },
            |address, key| RemoteAddress {
                address,
                key: key + 1,
            },
        ];
        for outside in outside {
            let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
            let part = register(&peer, write);
            let inside = Wqe::write(part.remote(56), &[])
                .inline(b"8 bytes.")
                .signalled();
            assert!(local.sent(&inside).event.failed().is_none());
            assert_eq!(peer.seen(1080, 8), b"8 bytes.");
            peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
            let beyond = Wqe::write(outside(part.address, part.rkey), &[]).inline(b"8 bytes.");
            assert_eq!(failure(&local.sent(&beyond)).0, 0x13);
            // The remote queue pair fails too.
            peer.wait_received();
            peer.synchronize();
            assert_eq!(failure(&peer.next_received()).0, 0x05);
        }
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let part = register(&peer, write);
        let read = Wqe::read(part.remote(0), &[local.at(0, 8)]);
        assert_eq!(failure(&local.sent(&read)).0, 0x13);
    });
}

#[test]
fn unusable_receive_fails_both_sides() {
    let test = "errors::unusable_receive_fails_both_sides";
    on(test, &[infiniband()], |_| {
        let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
        peer.pair.receive.post(&[peer.at(0, 4)]).unwrap();
        peer.pair.receive.post(&[peer.at(0, 4)]).unwrap();
        assert_eq!(
            failure(&local.sent(&Wqe::send(&[]).inline(b"five!"))).0,
            0x12
        );
        assert_eq!(failure(&peer.next_received()).0, 0x01);
        assert_eq!(failure(&peer.next_received()).0, 0x05);
        // Unregistered memory: the receive fails when it is the next one; the one before succeeds.
        let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
        peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
        let unknown = DataSegment {
            key: 0x0bad_0bad,
            ..peer.at(0, 8)
        };
        peer.pair.receive.post(&[unknown]).unwrap();
        peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
        local.sent(&Wqe::send(&[]).inline(b"first").signalled());
        let (first, second, third) = (
            peer.next_received(),
            peer.next_received(),
            peer.next_received(),
        );
        assert_eq!((first.event, first.bytes), (Event::Received, 5));
        assert_eq!((second.counter, failure(&second)), (1, (0x04, 0)));
        assert_eq!((third.counter, failure(&third)), (2, (0x05, 0)));
    });
}

#[test]
fn rejects_too_many_sges_and_unaligned_atomics() {
    let test = "errors::rejects_too_many_sges_and_unaligned_atomics";
    on(test, &[infiniband()], |_| {
        // More SGEs than the device supports.
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let pieces: Vec<_> = (0..17).map(|at| local.at(at, 1)).collect();
        assert_eq!(
            failure(&local.sent(&Wqe::write(peer.region.remote(0), &pieces))),
            (0x02, 0)
        );
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let most: Vec<_> = (0..16).map(|at| local.at(at, 1)).collect();
        assert!(
            local
                .sent(&Wqe::write(peer.region.remote(0), &most).signalled())
                .event
                .failed()
                .is_none()
        );
        // An unaligned atomic.
        let remote = peer.region.remote(4);
        let add = gdsync::wire::Operation::FetchAdd { remote, add: 1 };
        assert_eq!(
            failure(&local.sent(&Wqe::new(add, &[local.at(0, 8)]))).0,
            0x12
        );
    });
}

#[test]
fn retries_run_out() {
    let test = "errors::retries_run_out";
    on(test, &[infiniband()], |_| {
        let timeout = RetryPolicy {
            retries: Some(3),
            ..RetryPolicy::default()
        };
        let (mut local, _peer) = connected_pair(&SMALL(), timeout);
        assert_eq!(failure(&local.sent(&Wqe::send(&[]).inline(b"x"))).0, 0x16);
    });
}

#[test]
fn drop_releases_streams() {
    let test = "errors::drop_releases_streams";
    on(test, &[with("swallow", json!(1))], |_| {
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let write = local.ring(
            &Wqe::write(peer.region.remote(0), &[])
                .inline(b"x")
                .signalled(),
        );
        // The doorbell is written; the HCA may not have read it yet.
        local.synchronize();
        local.wait_sent();
        let Side {
            hca,
            stream,
            mut pair,
            ..
        } = local;
        assert!(!stream.is_idle().unwrap());
        drop(hca);
        stream.synchronize_within(crate::sides::TIMEOUT).unwrap();
        let completion = pair.send_completions.poll().unwrap().unwrap();
        assert_eq!(
            (completion.counter, failure(&completion)),
            (write, (0x05, 0))
        );
    });
}

#[test]
fn device_errors_fail_requests() {
    let test = "errors::device_errors_fail_requests";
    let machines = [
        "ibv_poll_cq",
        "ibv_post_recv",
        "ibv_post_send",
        "ibv_modify_qp",
    ]
    .map(|function| {
        let mut machine = infiniband();
        // EIO. The first ibv_modify_qp is the transition to INIT.
        machine["errors_after"] = match function {
            "ibv_modify_qp" => json!({function: {"calls": 1, "code": 5, "sticky": true}}),
            _ => json!({function: {"calls": 0, "code": 5, "sticky": true}}),
        };
        machine
    });
    on(test, &machines, |number| {
        let mut side = side("mlx5_0", &SMALL());
        let own = side.pair.endpoint;
        let connected = side.hca.connect(own, own, RetryPolicy::default());
        match number {
            // Either the polling thread or the connection fails first.
            0 => {}
            1 | 2 => connected.unwrap(),
            _ => {
                let text = connected.expect_err("it is refused").to_string();
                assert!(
                    text.contains("connect a queue pair with the remote side"),
                    "{text}"
                );
            }
        }
        if number != 2 {
            side.pair.receive.post(&[side.at(0, 8)]).unwrap();
            side.wait_received();
            side.synchronize();
            let code = if number == 1 { 0x02 } else { 0x05 };
            assert_eq!(failure(&side.next_received()).0, code, "{number}");
        }
        let write = Wqe::write(side.region.remote(0), &[])
            .inline(b"x")
            .signalled();
        let code = if number == 2 { 0x02 } else { 0x05 };
        assert_eq!(failure(&side.sent(&write)).0, code, "{number}");
    });
}
