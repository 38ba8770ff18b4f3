//! What works: bytes arrive where they are to, and whoever waits for them is told.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wc_opcode as done;
use ibv_wr_opcode::*;

/// The bytes 1, 2, 3 …
fn numbered(count: u8) -> Vec<u8> {
    (1..=count).collect()
}

#[test]
fn messages_are_gathered_and_scattered() {
    on(
        "work::messages_are_gathered_and_scattered",
        &two(&json!({})),
        |verbs| {
            for kind in [RC, UC] {
                let (here, there) = pair(verbs, kind);
                here.write(0, &numbered(30));
                assert_eq!(there.receive(70, &[(100, 4), (200, 0), (300, 50)]), 0);
                assert_eq!(
                    here.post(&request(50, IBV_WR_SEND, &[(0, 10), (15, 0), (20, 7)])),
                    0
                );
                assert_eq!(there.read(100, 5), [1, 2, 3, 4, 0]);
                let rest = [5, 6, 7, 8, 9, 10, 21, 22, 23, 24, 25, 26, 27, 0];
                assert_eq!(there.read(300, 14), rest);
                let sent = here.poll().expect("a completion");
                assert_eq!(
                    (sent.wr_id(), sent.error(), sent.opcode()),
                    (50, None, done::IBV_WC_SEND)
                );
                assert_eq!(sent.qp_num, here.number());
                let received = there.poll().expect("a completion");
                assert_eq!(
                    (received.wr_id(), received.error(), received.len()),
                    (70, None, 17)
                );
                assert_eq!(
                    (received.opcode(), received.imm_data()),
                    (done::IBV_WC_RECV, None)
                );
                assert_eq!(received.qp_num, there.number());
                assert!(here.poll().is_none() && there.poll().is_none());

                // A number goes with it, and nothing else.
                assert_eq!(there.receive(71, &[]), 0);
                let mut number = request(51, IBV_WR_SEND_WITH_IMM, &[]);
                number.immediate = 0xdead_beef;
                assert_eq!(here.post(&number), 0);
                let received = there.poll().expect("a completion");
                assert_eq!((received.wr_id(), received.len()), (71, 0));
                assert_eq!(received.imm_data(), Some(0xdead_beef));
            }
        },
    );
}

#[test]
fn memory_is_written_and_read() {
    on(
        "work::memory_is_written_and_read",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair(verbs, RC);
            here.write(0, &numbered(30));
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 10), (20, 10)]);
            write.remote = there.remote(1000);
            assert_eq!(here.post(&write), 0);
            let wanted: Vec<u8> = (1..=10).chain(21..=30).chain([0]).collect();
            assert_eq!(there.read(1000, 21), wanted);
            assert_eq!(there.read(999, 1), [0]);
            assert_eq!(
                here.poll().map(|ended| ended.opcode()),
                Some(done::IBV_WC_RDMA_WRITE)
            );
            assert!(there.poll().is_none(), "the remote end learns nothing");

            assert_eq!(there.receive(80, &[(0, 8)]), 0);
            let mut told = request(2, IBV_WR_RDMA_WRITE_WITH_IMM, &[(4, 3)]);
            (told.remote, told.immediate) = (there.remote(2000), 77);
            assert_eq!(here.post(&told), 0);
            assert_eq!(there.read(2000, 4), [5, 6, 7, 0]);
            assert_eq!(
                there.read(0, 8),
                [0; 8],
                "the request's own memory is not touched"
            );
            let received = there.poll().expect("a completion");
            assert_eq!(
                (received.wr_id(), received.len(), received.imm_data()),
                (80, 3, Some(77))
            );
            assert_eq!(received.opcode(), done::IBV_WC_RECV_RDMA_WITH_IMM);
            assert_eq!(
                here.poll().map(|ended| ended.opcode()),
                Some(done::IBV_WC_RDMA_WRITE)
            );

            there.write(3000, &[9; 12]);
            let mut read = request(3, IBV_WR_RDMA_READ, &[(100, 5), (200, 7)]);
            read.remote = there.remote(3000);
            assert_eq!(here.post(&read), 0);
            assert_eq!(
                (here.read(100, 6), here.read(200, 8)),
                (vec![9, 9, 9, 9, 9, 0], vec![9, 9, 9, 9, 9, 9, 9, 0])
            );
            let ended = here.poll().expect("a completion");
            assert_eq!((ended.opcode(), ended.len()), (done::IBV_WC_RDMA_READ, 12));

            // Nothing needs no key.
            assert_eq!(here.post(&request(4, IBV_WR_RDMA_WRITE, &[])), 0);
            assert_eq!(here.ended(), [(4, 0)]);
        },
    );
}

#[test]
fn words_are_changed_in_one_go() {
    on(
        "work::words_are_changed_in_one_go",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair(verbs, RC);
            there.write(16, &u64::to_ne_bytes(u64::MAX));
            let mut add = request(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &[(8, 8)]);
            (add.remote, add.operands) = (there.remote(16), (43, 0));
            assert_eq!(here.post(&add), 0);
            assert_eq!(there.read(16, 8), u64::to_ne_bytes(42));
            assert_eq!(here.read(8, 8), u64::to_ne_bytes(u64::MAX));
            assert_eq!(
                here.poll().map(|ended| ended.opcode()),
                Some(done::IBV_WC_FETCH_ADD)
            );
            for (compare, was, is) in [(41, 42, 42), (42, 42, 7)] {
                let mut swap = request(2, IBV_WR_ATOMIC_CMP_AND_SWP, &[(8, 8)]);
                (swap.remote, swap.operands) = (there.remote(16), (compare, 7));
                assert_eq!(here.post(&swap), 0);
                assert_eq!(here.read(8, 8), u64::to_ne_bytes(was));
                assert_eq!(there.read(16, 8), u64::to_ne_bytes(is));
                assert_eq!(
                    here.poll().map(|ended| ended.opcode()),
                    Some(done::IBV_WC_COMP_SWAP)
                );
            }
        },
    );
}

#[test]
fn inline_data_is_taken_at_once_and_needs_no_key() {
    let test = "work::inline_data_is_taken_at_once_and_needs_no_key";
    on(test, &two(&json!({})), |verbs| {
        // The message waits for a request to receive.
        let (here, there) = pair_with(verbs, RC, |here, _| here.rnr_retry = 7);
        here.write(0, b"then");
        let mut inline = request(1, IBV_WR_SEND, &[(0, 4)]);
        (inline.flags, inline.lkey) = (SIGNALED | INLINE, Some(0));
        assert_eq!(here.post(&inline), 0);
        here.write(0, b"now!");
        assert!(here.poll().is_none());
        assert_eq!(there.receive(2, &[(0, 64)]), 0);
        assert_eq!(there.read(0, 5), b"then\0");
        assert_eq!((here.ended(), there.ended()), (vec![(1, 0)], vec![(2, 0)]));
        let mut too_long = request(3, IBV_WR_SEND, &[(0, 60), (60, 5)]);
        too_long.flags = INLINE;
        assert_eq!(here.post(&too_long), libc::EINVAL);
        let mut read = request(4, IBV_WR_RDMA_READ, &[(0, 4)]);
        read.flags = INLINE;
        assert_eq!(here.post(&read), libc::EINVAL);
    });
}

#[test]
fn unsignalled_requests_do_not_complete() {
    on(
        "work::unsignalled_requests_do_not_complete",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair(verbs, RC);
            here.write(0, b"abc");
            let mut quiet = request(1, IBV_WR_RDMA_WRITE, &[(0, 3)]);
            (quiet.flags, quiet.remote) = (0, there.remote(0));
            let mut told = quiet.clone();
            (told.id, told.flags, told.remote) = (2, SIGNALED, there.remote(8));
            assert_eq!(here.post_all(&[quiet, told]), Ok(()));
            assert_eq!(there.read(0, 12), b"abc\0\0\0\0\0abc\0");
            assert_eq!(here.ended(), [(2, 0)]);
        },
    );
}

#[test]
fn all_are_signalled_where_the_pair_says_so() {
    on(
        "work::all_are_signalled_where_the_pair_says_so",
        &two(&json!({})),
        |verbs| {
            let end = End::new(verbs, 0, RC);
            let mut wanted = ibv_qp_init_attr {
                send_cq: end.cq,
                recv_cq: end.cq,
                cap: ROOM.0,
                qp_type: RC,
                sq_sig_all: 1,
                ..ibv_qp_init_attr::default()
            };
            let all = End {
                qp: verbs.qp(end.pd, &mut wanted).expect("a queue pair"),
                ..End::new(verbs, 0, RC)
            };
            let all = End {
                pd: end.pd,
                cq: end.cq,
                mr: end.mr,
                ..all
            };
            let peer = End::new(verbs, 1, RC);
            connect(&all, &peer, |_, _| ());
            let mut quiet = request(1, IBV_WR_RDMA_WRITE, &[]);
            quiet.flags = 0;
            assert_eq!(all.post(&quiet), 0);
            assert_eq!(all.ended(), [(1, 0)]);
        },
    );
}

#[test]
fn datagrams_have_a_header_before_them() {
    on(
        "work::datagrams_have_a_header_before_them",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair(verbs, UD);
            here.write(0, b"datagram");
            let mut to = here.toward(&there).ah_attr;
            to.sl = 3;
            let plain = verbs.ah(here.pd, &to).expect("an address");
            assert_eq!(there.receive(1, &[(0, 20), (100, 28)]), 0);
            let mut send = request(2, IBV_WR_SEND_WITH_IMM, &[(0, 8)]);
            (send.immediate, send.to) = (5, (plain, there.number(), 0x1111_1111));
            assert_eq!(here.post(&send), 0);
            // 20 of the header's 40 bytes lie in each piece.
            assert_eq!(there.read(120, 9), b"datagram\0");
            let received = there.poll().expect("a completion");
            assert_eq!(
                (received.error(), received.len(), received.imm_data()),
                (None, 48, Some(5))
            );
            assert_eq!(
                (received.src_qp, received.slid, received.sl),
                (here.number(), 7, 3)
            );
            assert_eq!(
                received.wc_flags & ibv_wc_flags::IBV_WC_GRH,
                ibv_wc_flags(0)
            );
            assert_eq!(here.ended(), [(2, 0)]);

            // A global one: the header is that of the InfiniBand specification, 8.3.
            to.is_global = 1;
            to.grh.dgid.raw = verbs.gid(there.context, 0).expect("a GID");
            (to.grh.hop_limit, to.grh.traffic_class, to.grh.flow_label) = (4, 0xab, 0x12345);
            let global = verbs.ah(here.pd, &to).expect("an address");
            assert_eq!(there.receive(3, &[(0, 48)]), 0);
            send.to = (global, there.number(), 0x1111_1111);
            assert_eq!(here.post(&send), 0);
            let received = there.poll().expect("a completion");
            assert_eq!(
                received.wc_flags & ibv_wc_flags::IBV_WC_GRH,
                ibv_wc_flags::IBV_WC_GRH
            );
            // Behind it: 8 + 12 bytes of transport headers (one with the number: 4 more), the data, the check sum.
            assert_eq!(there.read(0, 4), [0x6a, 0xb1, 0x23, 0x45]);
            assert_eq!(there.read(6, 2), [0x1b, 4]);
            assert_eq!(
                there.read(8, 16),
                verbs.gid(here.context, 0).expect("a GID")
            );
            assert_eq!(
                there.read(24, 16),
                verbs.gid(there.context, 0).expect("a GID")
            );
            assert_eq!(there.read(40, 8), b"datagram");
            assert_eq!(here.ended(), [(2, 0)]);

            // With another key, to nobody, or without a request to receive it is lost, and the sender does not know.
            for (number, key) in [
                (there.number(), 1),
                (there.number() + 1, 0x1111_1111),
                (there.number(), 0x1111_1111),
            ] {
                if number != there.number() || key == 1 {
                    assert_eq!(there.receive(4, &[(0, 48)]), 0);
                }
                send.to = (plain, number, key);
                if number == there.number() && key != 1 {
                    // Both requests are still there: they are used up first.
                    for _ in 0..2 {
                        assert_eq!(here.post(&send), 0);
                        assert_eq!(there.ended(), [(4, 0)]);
                    }
                }
                here.ended();
                assert_eq!(here.post(&send), 0);
                assert_eq!((here.ended(), there.ended()), (vec![(2, 0)], vec![]));
            }
            // The highest bit asks for the sender's own key.
            assert_eq!(there.receive(5, &[(0, 48)]), 0);
            send.to = (plain, there.number(), 0x8000_0000);
            assert_eq!(here.post(&send), 0);
            assert_eq!(there.ended(), [(5, 0)]);
            assert_eq!(
                (
                    verbs.free_ah(plain),
                    verbs.free_ah(global),
                    verbs.free_ah(plain)
                ),
                (0, 0, libc::EINVAL)
            );
            assert_eq!(here.post(&send), libc::EINVAL, "the address is gone");
        },
    );
}

#[test]
fn ethernet_goes_by_gids_of_one_type() {
    let port = |last: u8, first: &str| {
        json!([{"link_layer": "ethernet", "gids": [
            {"gid": format!("::ffff:192.0.2.{last}"), "type": first},
            {"gid": format!("::ffff:192.0.2.{last}"), "type": "roce2"},
        ]}])
    };
    let machine =
        json!({"verbs": {"devices": [{"ports": port(1, "roce1")}, {"ports": port(2, "roce1")}]}});
    on(
        "work::ethernet_goes_by_gids_of_one_type",
        &machine,
        |verbs| {
            let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
            let with = |own: &End<'_>, peer: &End<'_>, index: u8| {
                let mut attributes = own.toward(peer);
                attributes.ah_attr.is_global = 1;
                attributes.ah_attr.grh.sgid_index = index;
                attributes.ah_attr.grh.dgid.raw = verbs.gid(peer.context, 1).expect("a GID");
                attributes
            };
            let local = here.toward(&there);
            let [(_, first), (_, second), _] = steps(RC);
            assert_eq!(
                verbs.modify(
                    here.qp,
                    &ibv_qp_attr {
                        qp_state: 1,
                        ..local
                    },
                    first
                ),
                0
            );
            assert_eq!(
                verbs.modify(
                    here.qp,
                    &ibv_qp_attr {
                        qp_state: 2,
                        ..local
                    },
                    second
                ),
                libc::EINVAL,
                "not global"
            );
            let nowhere = with(&here, &there, 2);
            assert_eq!(
                verbs.modify(
                    here.qp,
                    &ibv_qp_attr {
                        qp_state: 2,
                        ..nowhere
                    },
                    second
                ),
                libc::EINVAL,
                "no such GID"
            );
            assert!(
                verbs
                    .ah(here.pd, &local.ah_attr)
                    .is_err_and(|code| code == libc::EINVAL)
            );
            assert_eq!(verbs.modify(here.qp, &ibv_qp_attr::default(), 1), 0);

            here.start(&with(&here, &there, 1));
            there.start(&with(&there, &here, 1));
            here.write(0, b"routed");
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 6)]);
            write.remote = there.remote(0);
            assert_eq!(here.post(&write), 0);
            assert_eq!(
                (here.ended(), there.read(0, 6)),
                (vec![(1, 0)], b"routed".to_vec())
            );
        },
    );
}

#[test]
fn two_types_of_one_gid_do_not_meet() {
    let port = |last: u8, kind: &str| json!([{"link_layer": "ethernet", "gids": [{"gid": format!("::ffff:192.0.2.{last}"), "type": kind}]}]);
    let machine =
        json!({"verbs": {"devices": [{"ports": port(1, "roce1")}, {"ports": port(2, "roce2")}]}});
    on(
        "work::two_types_of_one_gid_do_not_meet",
        &machine,
        |verbs| {
            let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
            let (mut first, mut second) = (here.toward(&there), there.toward(&here));
            for (attributes, peer) in [(&mut first, &there), (&mut second, &here)] {
                attributes.ah_attr.is_global = 1;
                attributes.ah_attr.grh.dgid.raw = verbs.gid(peer.context, 0).expect("a GID");
            }
            here.start(&first);
            there.start(&second);
            assert_eq!(here.post(&request(1, IBV_WR_RDMA_WRITE, &[])), 0);
            assert_eq!(here.ended(), [(1, 12)]);
        },
    );
}

#[test]
fn one_port_reaches_itself() {
    on("work::one_port_reaches_itself", &two(&json!({})), |verbs| {
        let (here, there) = (End::new(verbs, 0, RC), End::new(verbs, 0, RC));
        connect(&here, &there, |_, _| ());
        here.write(0, b"round");
        let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 5)]);
        write.remote = there.remote(0);
        assert_eq!(here.post(&write), 0);
        assert_eq!(
            (here.ended(), there.read(0, 5)),
            (vec![(1, 0)], b"round".to_vec())
        );
    });
}

#[test]
fn a_sender_without_end_waits_for_the_receiver() {
    on(
        "work::a_sender_without_end_waits_for_the_receiver",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair_with(verbs, RC, |here, _| here.rnr_retry = 7);
            here.write(0, b"12");
            let mut write = request(2, IBV_WR_RDMA_WRITE, &[(1, 1)]);
            write.remote = there.remote(8);
            assert_eq!(
                here.post_all(&[request(1, IBV_WR_SEND, &[(0, 1)]), write]),
                Ok(())
            );
            assert!(here.poll().is_none());
            assert_eq!(there.read(8, 1), [0], "what comes after it waits, too");
            assert_eq!(there.receive(3, &[(0, 8)]), 0);
            assert_eq!(
                (here.ended(), there.ended()),
                (vec![(1, 0), (2, 0)], vec![(3, 0)])
            );
            assert_eq!(
                (there.read(0, 2), there.read(8, 1)),
                (b"1\0".to_vec(), b"2".to_vec())
            );
        },
    );
}

#[test]
fn whoever_waits_is_told_once() {
    on(
        "work::whoever_waits_is_told_once",
        &two(&json!({})),
        |verbs| {
            let (here, there) = pair(verbs, RC);
            for id in 0..6 {
                assert_eq!(there.receive(id, &[(0, 8)]), 0);
            }
            let send = |flags: u32| {
                let mut send = request(9, IBV_WR_SEND, &[(0, 1)]);
                send.flags = flags;
                assert_eq!(here.post(&send), 0);
            };
            send(0);
            assert!(!there.is_rung(), "nobody has asked");
            assert_eq!(there.notify(false), 0);
            assert!(!there.is_rung(), "what is there already is no reason");
            send(0);
            assert!(there.is_rung());
            send(0);
            assert_eq!(verbs.cq_event(there.channel), Ok((there.cq, COOKIE)));
            assert!(!there.is_rung(), "once");
            assert_eq!(there.notify(true), 0);
            send(SIGNALED);
            assert!(!there.is_rung(), "not asked for");
            send(SOLICITED);
            assert!(there.is_rung());
            assert_eq!(verbs.cq_event(there.channel), Ok((there.cq, COOKIE)));
            assert_eq!(there.notify(true), 0);
            assert_eq!(there.notify(false), 0);
            send(0);
            assert!(there.is_rung());

            // Two events were taken: the queue waits for both to be acknowledged; the third goes with it.
            assert_eq!(verbs.free_qp(there.qp), 0);
            verbs.acknowledge(there.cq, 1);
            std::thread::scope(|scope| {
                // A pointer does not go into another thread.
                let cq = there.cq.expose_provenance();
                let freed =
                    scope.spawn(move || verbs.free_cq(std::ptr::with_exposed_provenance_mut(cq)));
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert!(!freed.is_finished());
                verbs.acknowledge(there.cq, 1);
                assert_eq!(freed.join().expect("it ends"), 0);
            });
            assert!(!there.is_rung());
            assert_eq!(verbs.free_channel(there.channel), 0);
        },
    );
}

#[test]
fn an_event_is_waited_for() {
    on("work::an_event_is_waited_for", &two(&json!({})), |verbs| {
        let (here, there) = pair(verbs, RC);
        assert_eq!((there.receive(1, &[(0, 8)]), there.notify(false)), (0, 0));
        let channel = there.channel.expose_provenance();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || {
                let event = verbs.cq_event(std::ptr::with_exposed_provenance_mut(channel));
                event.map(|(cq, _)| cq.addr())
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waits.is_finished());
            assert_eq!(here.post(&request(2, IBV_WR_SEND, &[(0, 1)])), 0);
            assert_eq!(waits.join().expect("it ends"), Ok(there.cq.addr()));
        });
        // A program may say that it does not wait.
        // SAFETY: the channel is alive, and the file its own.
        unsafe { libc::fcntl((*there.channel).fd, libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(verbs.cq_event(there.channel), Err(libc::EAGAIN));
    });
}

/// Threads add to one word, each over a queue pair of its own.
#[test]
fn threads_work_at_the_same_time() {
    on(
        "work::threads_work_at_the_same_time",
        &two(&json!({})),
        |verbs| {
            const THREADS: u64 = 4;
            const EACH: u64 = 500;
            let target = End::new(verbs, 1, RC);
            // SAFETY: it is alive.
            let (context, pd) = (
                target.context.expose_provenance(),
                target.pd.expose_provenance(),
            );
            let word = target.remote(0);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(move || {
                        let there = End::new(verbs, 1, RC);
                        let mut wanted = ibv_qp_init_attr {
                            send_cq: verbs
                                .cq(
                                    std::ptr::with_exposed_provenance_mut(context),
                                    8,
                                    std::ptr::null_mut(),
                                )
                                .expect("a queue"),
                            cap: ROOM.0,
                            qp_type: RC,
                            ..ibv_qp_init_attr::default()
                        };
                        wanted.recv_cq = wanted.send_cq;
                        let pd = std::ptr::with_exposed_provenance_mut(pd);
                        let qp = verbs.qp(pd, &mut wanted).expect("a queue pair");
                        let there = End { qp, pd, ..there };
                        let here = End::new(verbs, 0, RC);
                        connect(&here, &there, |_, _| ());
                        for id in 0..EACH {
                            let mut add = request(id, IBV_WR_ATOMIC_FETCH_AND_ADD, &[(8, 8)]);
                            (add.remote, add.operands) = (word, (1, 0));
                            assert_eq!(here.post(&add), 0);
                            assert_eq!(here.ended(), [(id, 0)]);
                        }
                    });
                }
            });
            assert_eq!(target.read(0, 8), u64::to_ne_bytes(THREADS * EACH));
        },
    );
}
