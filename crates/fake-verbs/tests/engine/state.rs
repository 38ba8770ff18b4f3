//! State changes of queue pairs and their required attributes.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;

const RESET: u32 = 0;
const RTS: u32 = 3;
const ERR: u32 = 6;

#[test]
fn requires_attributes_of_manual_page() {
    on(
        "state::requires_attributes_of_manual_page",
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
                        // No step allows IBV_QP_CAP or IBV_QP_EN_SQD_ASYNC_NOTIFY, nor INIT a send PSN.
                        if [1 << 19, 1 << 2].contains(&bit) || (place == 0 && bit == 1 << 16) {
                            assert_eq!(
                                verbs.modify(end.qp, &wanted, more),
                                libc::EINVAL,
                                "{kind} {state} {more:#x}"
                            );
                        }
                    }
                    assert_eq!(verbs.modify(end.qp, &wanted, mask), 0, "{kind} {state}");
                    // SAFETY: a live queue pair.
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
                // ERR and RESET are reachable from any state.
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
