//! Errors complete with a NIC's syndromes, and no stream waits forever.

use gdsync::hca::{Access, Request, RetryPolicy};
use gdsync::wire::{DataSegment, Event, Wqe};
use serde_json::json;

use crate::machine::{infiniband, on, with};
use crate::sides::{SMALL, Side, errors, failure};
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
        with("fail", json!([{"nth": 2, "status": status, "vendor_err": vendor_err}]))
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
        assert_eq!(failure(&completion), (code, 0x80 + status as u8), "{status}");
        let Event::SendFailed(failed) = completion.event else { panic!("{completion:?}") };
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
        let orphan = Wqe::write(local.region.remote(0), &[]).inline(b"x").signalled();
        let orphan = peer.sent(&orphan);
        assert_eq!(failure(&orphan).0, 0x15);
    });
}

#[test]
fn flushes_receives_that_the_device_keeps() {
    let test = "errors::flushes_receives_that_the_device_keeps";
    on(test, &[with("flushes_late_receives", json!(false))], |_| {
        let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let mut remote = local.region.remote(0);
        remote.key += 1;
        let denied = peer.sent(&Wqe::write(remote, &[]).inline(b"x").signalled());
        assert_eq!(failure(&denied).0, 0x13);
        // The device of this side is in the state ERR, and no completion says so.
        local.pair.receive.post(&[local.at(0, 8)]).unwrap();
        local.wait_received();
        local.synchronize();
        assert_eq!(failure(&local.next_received()).0, 0x05);
    });
}

#[test]
fn flushes_nops_after_an_error() {
    let test = "errors::flushes_nops_after_an_error";
    on(test, &[with("fail", json!([{"nth": 1, "status": 11}]))], |_| {
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
        assert_eq!((failure(&completions[1]).0, failure(&completions[2]).0), (0x14, 0x05));
    });
}

#[test]
fn of_every_hca() {
    on("errors::of_every_hca", &[infiniband()], |_| {
        errors::all(&|policy| connected_pair(&SMALL(), policy));
    });
}

#[test]
fn unregistered_memory_ends_the_connection() {
    let test = "errors::unregistered_memory_ends_the_connection";
    on(test, &[infiniband()], |_| {
        let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let unknown = DataSegment { key: 0x0bad_0bad, ..local.at(0, 8) };
        let write = Wqe::write(peer.region.remote(0), &[unknown]);
        assert_eq!(failure(&local.sent(&write)), (0x04, 0));
        // The verbs queue pair had no error, but is destroyed: the remote side gets no answer.
        let orphan = Wqe::write(local.region.remote(0), &[]).inline(b"x");
        assert_eq!(failure(&peer.sent(&orphan)).0, 0x15);
        // Verbs alone would allow it, because remote write implies local write.
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let access = Access { remote_write: true, ..Access::NONE };
        let write_only = local.hca.register(&local.memory, access).unwrap();
        let piece = write_only.segment(0, 8);
        assert_eq!(failure(&local.sent(&Wqe::read(peer.region.remote(0), &[piece]))), (0x04, 0));
    });
}

#[test]
fn unregistered_receive_fails_in_order() {
    let test = "errors::unregistered_receive_fails_in_order";
    on(test, &[infiniband()], |_| {
        // The receive fails when it is the next one; the one before succeeds.
        let (mut local, mut peer) = connected_pair(&SMALL(), RetryPolicy::default());
        peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
        let unknown = DataSegment { key: 0x0bad_0bad, ..peer.at(0, 8) };
        peer.pair.receive.post(&[unknown]).unwrap();
        peer.pair.receive.post(&[peer.at(0, 8)]).unwrap();
        local.sent(&Wqe::send(&[]).inline(b"first").signalled());
        let (first, second, third) =
            (peer.next_received(), peer.next_received(), peer.next_received());
        assert_eq!((first.event, first.bytes), (Event::Received, 5));
        assert_eq!((second.counter, failure(&second)), (1, (0x04, 0)));
        assert_eq!((third.counter, failure(&third)), (2, (0x05, 0)));
    });
}

#[test]
fn rejects_too_many_sges() {
    let test = "errors::rejects_too_many_sges";
    on(test, &[infiniband()], |_| {
        // The fake device supports 30; a work request of 31 takes nine blocks.
        let large = Request { send_blocks: 16, ..SMALL() };
        let (mut local, peer) = connected_pair(&large, RetryPolicy::default());
        let sges: Vec<_> = (0..31).map(|at| local.at(at, 1)).collect();
        assert_eq!(failure(&local.sent(&Wqe::write(peer.region.remote(0), &sges))), (0x02, 0));
        let (mut local, peer) = connected_pair(&large, RetryPolicy::default());
        let most: Vec<_> = (0..30).map(|at| local.at(at, 1)).collect();
        assert!(
            local
                .sent(&Wqe::write(peer.region.remote(0), &most).signalled())
                .event
                .failed()
                .is_none()
        );
    });
}

#[test]
fn drop_releases_streams() {
    let test = "errors::drop_releases_streams";
    on(test, &[with("swallow", json!(1))], |_| {
        let (mut local, peer) = connected_pair(&SMALL(), RetryPolicy::default());
        let write = local.ring(&Wqe::write(peer.region.remote(0), &[]).inline(b"x").signalled());
        // The doorbell is written; the HCA may not have read it yet.
        local.synchronize();
        local.wait_sent();
        let Side { hca, stream, mut pair, .. } = local;
        assert!(!stream.is_idle().unwrap());
        drop(hca);
        stream.synchronize_within(crate::sides::TIMEOUT).unwrap();
        let completion = pair.send_completions.poll().unwrap().unwrap();
        assert_eq!((completion.counter, failure(&completion)), (write, (0x05, 0)));
    });
}

#[test]
fn device_errors_fail_requests() {
    let test = "errors::device_errors_fail_requests";
    let machines =
        ["ibv_poll_cq", "ibv_post_recv", "ibv_post_send", "ibv_modify_qp", "ibv_query_qp"].map(
            |function| {
                let mut machine = infiniband();
                // EIO. The first ibv_modify_qp is the transition to INIT.
                machine["errors_after"] = match function {
                    "ibv_modify_qp" => json!({function: {"calls": 1, "code": 5, "sticky": true}}),
                    _ => json!({function: {"calls": 0, "code": 5, "sticky": true}}),
                };
                machine
            },
        );
    on(test, &machines, |number| {
        let mut side = side("mlx5_0", &SMALL());
        let own = side.pair.endpoint;
        let connected = side.hca.connect(own, own, RetryPolicy::default());
        match number {
            // Either the polling thread or the connection fails first.
            0 => {}
            1 | 2 | 4 => connected.unwrap(),
            _ => {
                let text = connected.expect_err("it is refused").to_string();
                assert!(text.contains("connect a queue pair with the remote side"), "{text}");
            }
        }
        if number != 2 {
            side.pair.receive.post(&[side.at(0, 8)]).unwrap();
            side.wait_received();
            side.synchronize();
            let code = if number == 1 { 0x02 } else { 0x05 };
            assert_eq!(failure(&side.next_received()).0, code, "{number}");
        }
        let write = Wqe::write(side.region.remote(0), &[]).inline(b"x").signalled();
        let code = if number == 2 { 0x02 } else { 0x05 };
        assert_eq!(failure(&side.sent(&write)).0, code, "{number}");
    });
}
