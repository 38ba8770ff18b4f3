//! The states of queue pairs: which changes there are, what they need, and what is asked of a queue pair in each.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const RESET: u32 = 0;
const RTS: u32 = 3;
const ERR: u32 = 6;

#[test]
fn every_step_needs_all_that_the_manual_names() {
    on(
        "state::every_step_needs_all_that_the_manual_names",
        &two(&json!({})),
        |verbs| {
            for kind in [RC, UC, UD] {
                let (end, peer) = (End::new(verbs, 0, kind), End::new(verbs, 1, kind));
                let all = end.toward(&peer);
                for (place, (state, mask)) in steps(kind).into_iter().enumerate() {
                    let wanted = ibv_qp_attr {
                        qp_state: state,
                        ..all
                    };
                    for bit in (1..26).map(|bit| 1 << bit) {
                        let (less, more) = (mask & !bit, mask | bit);
                        if less != mask {
                            assert_eq!(
                                verbs.modify(end.qp, &wanted, less),
                                libc::EINVAL,
                                "{kind} {state} {less:#x}"
                            );
                        }
                        // Neither step knows IBV_QP_CAP, nor the next one's numbers.
                        if [1 << 19, 1 << 2].contains(&bit) || (place == 0 && bit == 1 << 16) {
                            assert_eq!(
                                verbs.modify(end.qp, &wanted, more),
                                libc::EINVAL,
                                "{kind} {state} {more:#x}"
                            );
                        }
                    }
                    assert_eq!(verbs.modify(end.qp, &wanted, mask), 0, "{kind} {state}");
                    // SAFETY: it is alive.
                    assert_eq!((unsafe { (*end.qp).state }, end.state()), (state, state));
                    let skipped = ibv_qp_attr {
                        qp_state: state + 2,
                        ..all
                    };
                    assert_eq!(
                        verbs.modify(end.qp, &skipped, 1),
                        libc::EINVAL,
                        "{kind}: from {state} over one"
                    );
                    let back = ibv_qp_attr {
                        qp_state: state - 1,
                        ..all
                    };
                    if state > 1 {
                        assert_eq!(
                            verbs.modify(end.qp, &back, 1),
                            libc::EINVAL,
                            "{kind}: back from {state}"
                        );
                    }
                }
                let now = verbs.query(end.qp).0;
                assert_eq!((now.port_num, now.sq_psn, now.cur_qp_state), (1, 5, RTS));
                if kind != UD {
                    assert_eq!(
                        (now.dest_qp_num, now.path_mtu, now.ah_attr.dlid),
                        (peer.number(), IBV_MTU_1024, 9)
                    );
                }
                // Away and from the beginning, from wherever it is.
                for state in [ERR, RESET] {
                    assert_eq!(
                        verbs.modify(
                            end.qp,
                            &ibv_qp_attr {
                                qp_state: state,
                                ..all
                            },
                            1
                        ),
                        0
                    );
                    assert_eq!(end.state(), state);
                }
                let from_reset = ibv_qp_attr {
                    qp_state: RTS,
                    ..all
                };
                assert_eq!(
                    verbs.modify(end.qp, &from_reset, steps(kind)[2].1),
                    libc::EINVAL
                );
                end.start(&all);
            }
        },
    );
}

#[test]
fn values_that_a_card_has_not_are_refused() {
    let machine = two(
        &json!({"limits": {"max_qp_rd_atom": 4, "max_qp_init_rd_atom": 2}, "active_mtu": 2048}),
    );
    on(
        "state::values_that_a_card_has_not_are_refused",
        &machine,
        |verbs| {
            let (end, peer) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
            let all = end.toward(&peer);
            let try_step = |place: usize, wrong: &[ibv_qp_attr]| {
                let (state, mask) = steps(RC)[place];
                for (number, wrong) in wrong.iter().enumerate() {
                    let wrong = ibv_qp_attr {
                        qp_state: state,
                        ..*wrong
                    };
                    assert_eq!(
                        verbs.modify(end.qp, &wrong, mask),
                        libc::EINVAL,
                        "{place} {number}"
                    );
                }
                assert_eq!(
                    verbs.modify(
                        end.qp,
                        &ibv_qp_attr {
                            qp_state: state,
                            ..all
                        },
                        mask
                    ),
                    0
                );
            };
            try_step(
                0,
                &[
                    ibv_qp_attr { port_num: 0, ..all },
                    ibv_qp_attr { port_num: 2, ..all },
                    ibv_qp_attr {
                        pkey_index: 1,
                        ..all
                    },
                ],
            );
            let mut elsewhere = all;
            elsewhere.ah_attr.port_num = 2;
            try_step(
                1,
                &[
                    ibv_qp_attr { path_mtu: 0, ..all },
                    ibv_qp_attr {
                        path_mtu: IBV_MTU_4096,
                        ..all
                    },
                    ibv_qp_attr {
                        max_dest_rd_atomic: 5,
                        ..all
                    },
                    ibv_qp_attr {
                        min_rnr_timer: 32,
                        ..all
                    },
                    ibv_qp_attr {
                        dest_qp_num: 1 << 24,
                        ..all
                    },
                    elsewhere,
                ],
            );
            try_step(
                2,
                &[
                    ibv_qp_attr {
                        max_rd_atomic: 3,
                        ..all
                    },
                    ibv_qp_attr { timeout: 32, ..all },
                    ibv_qp_attr {
                        retry_cnt: 8,
                        ..all
                    },
                    ibv_qp_attr {
                        rnr_retry: 8,
                        ..all
                    },
                ],
            );
            // IBV_QP_CUR_STATE: the one that it is in.
            let again = ibv_qp_attr {
                qp_state: RTS,
                cur_qp_state: 2,
                ..all
            };
            assert_eq!(verbs.modify(end.qp, &again, 3), libc::EINVAL);
            assert_eq!(
                verbs.modify(
                    end.qp,
                    &ibv_qp_attr {
                        cur_qp_state: RTS,
                        ..again
                    },
                    3
                ),
                0
            );
            assert_eq!(verbs.modify(std::ptr::null_mut(), &all, 1), libc::EINVAL);
        },
    );
}

#[test]
fn work_is_taken_in_the_states_that_take_it() {
    on(
        "state::work_is_taken_in_the_states_that_take_it",
        &two(&json!({})),
        |verbs| {
            let (end, peer) = (End::new(verbs, 0, RC), End::new(verbs, 1, RC));
            let all = end.toward(&peer);
            let send = request(1, IBV_WR_SEND, &[(0, 1)]);
            assert_eq!(
                (end.post(&send), end.receive(2, &[(0, 1)])),
                (libc::EINVAL, libc::EINVAL)
            );
            for (state, mask) in steps(RC).into_iter().take(2) {
                assert_eq!(
                    verbs.modify(
                        end.qp,
                        &ibv_qp_attr {
                            qp_state: state,
                            ..all
                        },
                        mask
                    ),
                    0
                );
                assert_eq!(
                    (end.post(&send), end.receive(2, &[(0, 1)])),
                    (libc::EINVAL, 0),
                    "{state}"
                );
            }
            assert_eq!(end.ended(), []);
            // In error all is taken, and flushed.
            assert_eq!(
                verbs.modify(
                    end.qp,
                    &ibv_qp_attr {
                        qp_state: ERR,
                        ..all
                    },
                    1
                ),
                0
            );
            assert_eq!(end.ended(), [(2, 5), (2, 5)]);
            assert_eq!((end.post(&send), end.receive(3, &[(0, 1)])), (0, 0));
            assert_eq!(end.ended(), [(1, 5), (3, 5)]);
            // A reset takes out what was not polled.
            assert_eq!(end.post(&send), 0);
            assert_eq!(
                verbs.modify(
                    end.qp,
                    &ibv_qp_attr {
                        qp_state: RESET,
                        ..all
                    },
                    1
                ),
                0
            );
            assert_eq!(end.ended(), []);

            // What a transport cannot do is refused.
            for (kind, opcodes) in [
                (
                    UC,
                    &[
                        IBV_WR_RDMA_READ,
                        IBV_WR_ATOMIC_FETCH_AND_ADD,
                        IBV_WR_ATOMIC_CMP_AND_SWP,
                    ][..],
                ),
                (
                    UD,
                    &[
                        IBV_WR_RDMA_WRITE,
                        IBV_WR_RDMA_WRITE_WITH_IMM,
                        IBV_WR_RDMA_READ,
                    ],
                ),
                (RC, &[IBV_WR_LOCAL_INV, IBV_WR_TSO, 99]),
            ] {
                let (here, _there) = pair(verbs, kind);
                for opcode in opcodes {
                    assert_eq!(
                        here.post(&request(1, *opcode, &[(0, 8)])),
                        libc::EINVAL,
                        "{kind} {opcode}"
                    );
                }
            }
            // The first that is refused is named, and those before it are done.
            let (here, there) = pair(verbs, RC);
            let (mut good, bad) = (request(1, IBV_WR_RDMA_WRITE, &[]), request(2, 99, &[]));
            good.remote = there.remote(0);
            assert_eq!(
                here.post_all(&[good.clone(), bad, good]),
                Err((libc::EINVAL, 1))
            );
            assert_eq!(here.ended(), [(1, 0)]);
            let many = [(0, 1); 5];
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &many)), libc::EINVAL);
            assert_eq!(here.receive(1, &many), libc::EINVAL);
        },
    );
}
