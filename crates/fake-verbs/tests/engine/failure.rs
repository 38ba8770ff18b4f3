//! How work fails: statuses are those of the InfiniBand specification, as the manual pages number them.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const LEN: u32 = 1;
const OPERATION: u32 = 2;
const PROTECTION: u32 = 4;
const FLUSH: u32 = 5;
const REMOTE_INVALID: u32 = 9;
const REMOTE_ACCESS: u32 = 10;
const REMOTE_OPERATION: u32 = 11;
const RETRY: u32 = 12;
const RNR: u32 = 13;
const RTS: u32 = 3;
const ERR: u32 = 6;
/// `IBV_EVENT_CQ_ERR`, `IBV_EVENT_QP_REQ_ERR`, `IBV_EVENT_QP_ACCESS_ERR`.
const CQ_ERR: u32 = 0;
const REQ_ERR: u32 = 2;
const ACCESS_ERR: u32 = 3;

/// What the remote end is after a failure: in which state, and what it is told.
fn peer_is(there: &End<'_>, state: u32, event: Option<u32>) {
    assert_eq!(there.state(), state);
    assert_eq!(there.has_event(), event.is_some());
    if let Some(kind) = event {
        let told = there.verbs.event(there.context);
        assert_eq!((told.kind, told.element), (kind, there.qp.addr() as u64));
        assert!(!there.has_event());
        there.verbs.acknowledge_event(told);
    }
}

#[test]
fn a_local_key_opens_what_it_was_made_for() {
    on(
        "failure::a_local_key_opens_what_it_was_made_for",
        &two(&json!({})),
        |verbs| {
            let cases: [fn(&End<'_>, &mut Request<'_>); 4] = [
                |_, send| send.lkey = Some(0),
                |here, send| send.lkey = Some(here.rkey()),
                |_, send| send.pieces = &[(0, 4), (4090, 7)],
                |here, send| {
                    // Of another domain.
                    let pd = here.verbs.pd(here.context).expect("a domain");
                    let start = std::ptr::with_exposed_provenance_mut(here.at(0) as usize);
                    let mr = here.verbs.register(pd, start, 4096, ALL).expect("memory");
                    // SAFETY: it was just made.
                    send.lkey = Some(unsafe { (*mr).lkey });
                },
            ];
            for (number, change) in cases.into_iter().enumerate() {
                let (here, there) = pair(verbs, RC);
                assert_eq!(there.receive(9, &[(0, 64)]), 0);
                assert_eq!(here.receive(8, &[(0, 64)]), 0);
                let mut send = request(1, IBV_WR_SEND, &[(0, 4)]);
                change(&here, &mut send);
                // Even if it was not to complete.
                send.flags = 0;
                assert_eq!(here.post(&send), 0);
                assert_eq!(here.ended(), [(1, PROTECTION), (8, FLUSH)], "{number}");
                assert_eq!((here.state(), there.ended()), (ERR, vec![]));
                peer_is(&there, RTS, None);
            }
            // What is read goes into memory that may be written.
            let (here, there) = pair(verbs, RC);
            let start = std::ptr::with_exposed_provenance_mut(here.at(0) as usize);
            let sealed = verbs.register(here.pd, start, 4096, 0).expect("memory");
            // SAFETY: it was just made.
            let lkey = unsafe { (*sealed).lkey };
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 4)]);
            (write.lkey, write.remote) = (Some(lkey), there.remote(0));
            let mut read = request(2, IBV_WR_RDMA_READ, &[(0, 4)]);
            (read.lkey, read.remote) = (Some(lkey), there.remote(0));
            assert_eq!(here.post_all(&[write.clone(), read, write]), Ok(()));
            assert_eq!(here.ended(), [(1, 0), (2, PROTECTION), (1, FLUSH)]);
            // A registration that has ended opens nothing.
            let (here, there) = pair(verbs, RC);
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 4)]);
            write.remote = there.remote(0);
            write.lkey = Some(here.lkey());
            assert_eq!(verbs.deregister(here.mr), 0);
            assert_eq!(here.post(&write), 0);
            assert_eq!(here.ended(), [(1, PROTECTION)]);
        },
    );
}

#[test]
fn a_remote_key_opens_what_it_was_made_for() {
    on(
        "failure::a_remote_key_opens_what_it_was_made_for",
        &two(&json!({})),
        |verbs| {
            let keyed = |there: &End<'_>, access: u32| {
                let start = std::ptr::with_exposed_provenance_mut(there.at(0) as usize);
                let mr = there
                    .verbs
                    .register(there.pd, start, 4096, access)
                    .expect("memory");
                // SAFETY: it was just made.
                (there.at(0), unsafe { (*mr).rkey })
            };
            let refused = |opcode: u32, remote: &dyn Fn(&End<'_>) -> (u64, u32), number: usize| {
                let (here, there) = pair(verbs, RC);
                assert_eq!(there.receive(9, &[(0, 64)]), 0);
                here.write(0, &[1; 8]);
                let mut work = request(1, opcode, &[(0, 8)]);
                work.remote = remote(&there);
                assert_eq!(here.post_all(&[work, request(2, IBV_WR_SEND, &[])]), Ok(()));
                assert_eq!(
                    here.ended(),
                    [(1, REMOTE_ACCESS), (2, FLUSH)],
                    "{opcode} {number}"
                );
                assert_eq!((here.state(), there.ended()), (ERR, vec![(9, FLUSH)]));
                peer_is(&there, ERR, Some(ACCESS_ERR));
                assert_eq!(
                    (there.read(0, 8), here.read(0, 8)),
                    (vec![0; 8], vec![1; 8]),
                    "nothing moved"
                );
            };
            for opcode in [
                IBV_WR_RDMA_WRITE,
                IBV_WR_RDMA_READ,
                IBV_WR_ATOMIC_FETCH_AND_ADD,
                IBV_WR_ATOMIC_CMP_AND_SWP,
            ] {
                refused(opcode, &|there| (there.at(0), 0), 0);
                refused(opcode, &|there| (there.at(0), there.lkey()), 1);
                refused(opcode, &|there| (there.at(4096), there.rkey()), 2);
                refused(opcode, &|there| (there.at(0) - 8, there.rkey()), 3);
                // All rights but the one that is needed: remote write 2, read 4, atomic 8.
                let right = match opcode {
                    IBV_WR_RDMA_WRITE => 2,
                    IBV_WR_RDMA_READ => 4,
                    _ => 8,
                };
                refused(opcode, &|there| keyed(there, ALL & !right), 4);
            }
            refused(
                IBV_WR_RDMA_WRITE,
                &|there| (there.at(4089), there.rkey()),
                5,
            );
            refused(
                IBV_WR_RDMA_WRITE,
                &|there| {
                    let pd = there.verbs.pd(there.context).expect("a domain");
                    let start = std::ptr::with_exposed_provenance_mut(there.at(0) as usize);
                    let mr = there.verbs.register(pd, start, 4096, ALL).expect("memory");
                    // SAFETY: it was just made.
                    (there.at(0), unsafe { (*mr).rkey })
                },
                6,
            );
        },
    );
}

#[test]
fn a_far_end_refuses_what_it_was_not_made_for() {
    let machine = two(&json!({}));
    on(
        "failure::a_far_end_refuses_what_it_was_not_made_for",
        &machine,
        |verbs| {
            let refused = |opcode: u32, offset: usize, change: &dyn Fn(&mut ibv_qp_attr)| {
                let (here, there) = pair_with(verbs, RC, |_, peer| change(peer));
                let mut work = request(1, opcode, &[(0, 8)]);
                work.remote = there.remote(offset);
                assert_eq!(here.post(&work), 0);
                assert_eq!(
                    (here.ended(), here.state()),
                    (vec![(1, REMOTE_INVALID)], ERR),
                    "{opcode}"
                );
                peer_is(&there, ERR, Some(REQ_ERR));
            };
            // Local write 1, remote write 2, read 4, atomic 8.
            refused(IBV_WR_RDMA_WRITE, 0, &|peer| peer.qp_access_flags = 13);
            refused(IBV_WR_RDMA_READ, 0, &|peer| peer.qp_access_flags = 11);
            refused(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &|peer| {
                peer.qp_access_flags = 7
            });
            refused(IBV_WR_RDMA_READ, 0, &|peer| peer.max_dest_rd_atomic = 0);
            refused(IBV_WR_ATOMIC_CMP_AND_SWP, 0, &|peer| {
                peer.max_dest_rd_atomic = 0
            });
            refused(IBV_WR_ATOMIC_CMP_AND_SWP, 4, &|_| ());
        },
    );
}

#[test]
fn lengths_are_checked_on_both_sides() {
    let machine = two(&json!({"max_msg_sz": 2000, "active_mtu": 1024}));
    on(
        "failure::lengths_are_checked_on_both_sides",
        &machine,
        |verbs| {
            let (here, there) = pair(verbs, RC);
            assert_eq!(there.receive(9, &[(0, 4096)]), 0);
            let most = request(1, IBV_WR_SEND, &[(0, 2000)]);
            let more = request(2, IBV_WR_SEND, &[(0, 2000), (0, 1)]);
            assert_eq!(here.post_all(&[most, more]), Ok(()));
            assert_eq!((here.ended(), here.state()), (vec![(1, 0), (2, LEN)], ERR));

            let (here, there) = pair(verbs, RC);
            let mut word = request(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &[(0, 4)]);
            word.remote = there.remote(0);
            assert_eq!(here.post(&word), 0);
            assert_eq!(here.ended(), [(1, LEN)]);

            // Longer than the remote end's request: both fail, each in its own words.
            let (here, there) = pair(verbs, RC);
            here.write(0, &[1; 9]);
            assert_eq!(
                (there.receive(8, &[(0, 8)]), there.receive(9, &[(0, 8)])),
                (0, 0)
            );
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &[(0, 9)])), 0);
            assert_eq!(
                (here.ended(), there.ended()),
                (vec![(1, REMOTE_INVALID)], vec![(8, LEN), (9, FLUSH)])
            );
            assert_eq!(
                (here.state(), there.state(), there.read(0, 9)),
                (ERR, ERR, vec![0; 9])
            );

            // A datagram is one packet, and the header needs its room, too.
            let (here, there) = pair(verbs, UD);
            let to = verbs
                .ah(here.pd, &here.toward(&there).ah_attr)
                .expect("an address");
            assert_eq!(
                (
                    there.receive(7, &[(0, 1064)]),
                    there.receive(8, &[(0, 1063)])
                ),
                (0, 0)
            );
            let mut packet = request(1, IBV_WR_SEND, &[(0, 1024)]);
            packet.to = (to, there.number(), 0x1111_1111);
            let mut longer = packet.clone();
            (longer.id, longer.pieces) = (2, &[(0, 1025)]);
            assert_eq!(here.post_all(&[packet.clone(), packet, longer]), Ok(()));
            assert_eq!(here.ended(), [(1, 0), (1, 0), (2, LEN)]);
            assert_eq!(there.ended(), [(7, 0), (8, LEN)]);
        },
    );
}

#[test]
fn a_receiver_may_be_missing_or_broken() {
    on(
        "failure::a_receiver_may_be_missing_or_broken",
        &two(&json!({})),
        |verbs| {
            for opcode in [IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM] {
                let (here, there) = pair_with(verbs, RC, |here, _| here.rnr_retry = 6);
                here.write(0, &[1]);
                let mut work = request(1, opcode, &[(0, 1)]);
                work.remote = there.remote(0);
                assert_eq!(here.post_all(&[work.clone(), work]), Ok(()));
                assert_eq!(
                    (here.ended(), here.state()),
                    (vec![(1, RNR), (1, FLUSH)], ERR)
                );
                peer_is(&there, RTS, None);
                assert_eq!(there.read(0, 1), [0]);
            }
            let (here, there) = pair(verbs, RC);
            assert_eq!(there.receive_with(9, &[(0, 8)], 0), 0);
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &[(0, 1)])), 0);
            assert_eq!(
                (here.ended(), there.ended()),
                (vec![(1, REMOTE_OPERATION)], vec![(9, PROTECTION)])
            );
            assert_eq!((here.state(), there.state()), (ERR, ERR));
        },
    );
}

#[test]
fn without_an_answer_it_is_tried_again_and_given_up() {
    let mut machine = two(&json!({}));
    machine["verbs"]["devices"][1]["ports"] = json!([{"lid": 9}, {"lid": 10, "state": "down"}]);
    on(
        "failure::without_an_answer_it_is_tried_again_and_given_up",
        &machine,
        |verbs| {
            let lost = |what: &str, change: &dyn Fn(&mut ibv_qp_attr, &mut ibv_qp_attr)| {
                let (here, there) = pair_with(verbs, RC, change);
                let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 1)]);
                write.remote = there.remote(0);
                assert_eq!(here.post_all(&[write.clone(), write]), Ok(()));
                assert_eq!(here.ended(), [(1, RETRY), (1, FLUSH)], "{what}");
                assert_eq!(here.state(), ERR);
                peer_is(&there, RTS, None);
            };
            lost("nobody of that number", &|here, _| here.dest_qp_num = 4711);
            lost("no such port", &|here, _| here.ah_attr.dlid = 99);
            lost("numbers of packets out of step", &|here, _| here.sq_psn = 6);
            lost("the remote end answers to another", &|_, there| {
                there.dest_qp_num = 4711
            });
            lost("its port is down", &|here, there| {
                here.ah_attr.dlid = 10;
                (there.port_num, there.ah_attr.port_num) = (2, 2);
            });
            // Of connections and datagrams: of another kind, or not yet ready.
            let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, UC));
            connect(&here, &there, |_, _| ());
            assert_eq!(here.post(&request(1, IBV_WR_RDMA_WRITE, &[])), 0);
            assert_eq!(here.ended(), [(1, RETRY)]);
            let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
            here.start(&here.toward(&there));
            assert_eq!(here.post(&request(1, IBV_WR_RDMA_WRITE, &[])), 0);
            assert_eq!(here.ended(), [(1, RETRY)]);
            // After a failure of the remote end.
            let (here, there) = pair(verbs, RC);
            assert_eq!(
                verbs.modify(
                    there.qp,
                    &ibv_qp_attr {
                        qp_state: ERR,
                        ..ibv_qp_attr::default()
                    },
                    1
                ),
                0
            );
            assert_eq!(here.post(&request(1, IBV_WR_RDMA_WRITE, &[])), 0);
            assert_eq!(here.ended(), [(1, RETRY)]);

            // A timeout of 0 is none: it waits until somebody answers.
            let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
            here.start(&ibv_qp_attr {
                timeout: 0,
                ..here.toward(&there)
            });
            assert_eq!(here.post(&request(1, IBV_WR_RDMA_WRITE, &[])), 0);
            assert_eq!(here.ended(), []);
            there.start(&there.toward(&here));
            assert_eq!(here.ended(), [(1, 0)]);

            let (here, there) = pair_with(verbs, RC, |here, _| here.max_rd_atomic = 0);
            let mut read = request(1, IBV_WR_RDMA_READ, &[(0, 1)]);
            read.remote = there.remote(0);
            assert_eq!(here.post(&read), 0);
            assert_eq!(here.ended(), [(1, OPERATION)]);
        },
    );
}

#[test]
fn whoever_waits_for_a_far_end_that_goes_is_told() {
    on(
        "failure::whoever_waits_for_a_far_end_that_goes_is_told",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair_with(verbs, RC, |here, _| here.rnr_retry = 7);
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &[])), 0);
            assert_eq!(here.ended(), []);
            assert_eq!(verbs.free_qp(there.qp), 0);
            assert_eq!(here.ended(), [(1, RETRY)]);
        },
    );
}

#[test]
fn unreliable_connections_lose_silently() {
    on(
        "failure::unreliable_connections_lose_silently",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair(verbs, UC);
            here.write(0, &[1; 8]);
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 8)]);
            write.remote = (there.at(0), 0);
            assert_eq!(
                here.post_all(&[write, request(2, IBV_WR_SEND, &[(0, 8)])]),
                Ok(())
            );
            assert_eq!(
                (here.ended(), there.ended()),
                (vec![(1, 0), (2, 0)], vec![])
            );
            assert_eq!(there.read(0, 8), [0; 8]);
            peer_is(&there, RTS, None);
            assert_eq!(verbs.free_qp(there.qp), 0);
            assert_eq!(here.post(&request(3, IBV_WR_SEND, &[(0, 8)])), 0);
            assert_eq!(here.ended(), [(3, 0)]);
        },
    );
}

#[test]
fn queues_hold_what_they_were_made_for() {
    on(
        "failure::queues_hold_what_they_were_made_for",
        &two(&json!({})),
        |verbs| {
            // Places of requests that do not complete come free with the next that does.
            let (here, there) = pair(verbs, RC);
            let mut quiet = request(1, IBV_WR_RDMA_WRITE, &[]);
            (quiet.flags, quiet.remote) = (0, there.remote(0));
            for _ in 0..7 {
                assert_eq!(here.post(&quiet), 0);
            }
            let told = request(2, IBV_WR_RDMA_WRITE, &[]);
            assert_eq!(here.post(&told), 0);
            assert_eq!(
                here.post(&quiet),
                libc::ENOMEM,
                "it is done, but was not polled"
            );
            assert_eq!(here.ended(), [(2, 0)]);
            for _ in 0..8 {
                assert_eq!(here.post(&quiet), 0);
            }
            assert_eq!(here.post(&told), libc::ENOMEM);
            assert_eq!(here.ended(), []);
            assert_eq!(here.post(&told), libc::ENOMEM, "no completion, no place");

            for id in 0..8 {
                assert_eq!(there.receive(id, &[(0, 1)]), 0);
            }
            assert_eq!(there.receive(8, &[(0, 1)]), libc::ENOMEM);
            let (here, there) = pair(verbs, RC);
            for id in 0..8 {
                assert_eq!(there.receive(id, &[(0, 1)]), 0);
            }
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &[])), 0);
            assert_eq!(there.receive(8, &[(0, 1)]), libc::ENOMEM);
            assert_eq!(there.ended(), [(0, 0)]);
            assert_eq!(there.receive(8, &[(0, 1)]), 0);

            // A completion queue that is too small.
            let (here, there) = (End::with(verbs, 0, RC, (ROOM.0, 2)), End::new(verbs, 1, RC));
            connect(&here, &there, |_, _| ());
            for id in 0..2 {
                assert_eq!(here.post(&request(id, IBV_WR_RDMA_WRITE, &[])), 0);
            }
            assert!(!here.has_event());
            for id in 2..4 {
                assert_eq!(here.post(&request(id, IBV_WR_RDMA_WRITE, &[])), 0);
            }
            let event = verbs.event(here.context);
            assert_eq!((event.kind, event.element), (CQ_ERR, here.cq.addr() as u64));
            assert!(!here.has_event(), "told once");
            assert_eq!(here.ended(), [(0, 0), (1, 0)]);
            verbs.acknowledge_event(event);
            assert_eq!((verbs.free_qp(here.qp), verbs.free_cq(here.cq)), (0, 0));
        },
    );
}

#[test]
fn failures_ring_even_where_only_what_is_asked_for_does() {
    on(
        "failure::failures_ring_even_where_only_what_is_asked_for_does",
        &two(&json!({})),
        |verbs| {
            let (here, _there) = pair_with(verbs, RC, |here, _| here.dest_qp_num = 4711);
            assert_eq!(here.notify(true), 0);
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &[])), 0);
            assert!(here.is_rung());
        },
    );
}
