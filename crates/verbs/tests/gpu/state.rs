//! State changes of queue pairs and their required attributes, from the manual page of `ibv_modify_qp`.

use std::ffi::c_int;

use ibverbs_sys::{ibv_ah_attr, ibv_modify_qp, ibv_qp, ibv_qp_attr};
use verbs::{QueuePairOptions, Transport};

use crate::ends::domain;
use crate::machine::{machine, on};

const RESET: u32 = 0;
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

/// State and attribute mask of each step to RTS.
fn steps(transport: Transport) -> [(u32, u32); 3] {
    // IBV_QP_STATE, PKEY_INDEX, PORT and ACCESS_FLAGS or QKEY.
    let first = 1 | 1 << 4 | 1 << 5;
    // AV, PATH_MTU, DEST_QPN, RQ_PSN; MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER.
    let connection = 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12;
    let reliable = connection | 1 << 17 | 1 << 15;
    // SQ_PSN; TIMEOUT, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC.
    let last = 1 | 1 << 16;
    match transport {
        Transport::Rc => [
            (INIT, first | 1 << 3),
            (RTR, reliable),
            (RTS, last | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13),
        ],
        Transport::Uc => [(INIT, first | 1 << 3), (RTR, connection), (RTS, last)],
        _ => [(INIT, first | 1 << 6), (RTR, 1), (RTS, last)],
    }
}

/// Asks for a state; returns the error number, or 0.
fn modify(qp: *mut ibv_qp, qp_state: u32, mask: u32) -> c_int {
    let mut attributes = ibv_qp_attr {
        qp_state,
        port_num: 1,
        path_mtu: 3,
        dest_qp_num: 1,
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        ah_attr: ibv_ah_attr { dlid: 9, port_num: 1, ..ibv_ah_attr::default() },
        ..ibv_qp_attr::default()
    };
    let mask = c_int::try_from(mask).expect("bits");
    // SAFETY: the test's queue pair is alive, and the attributes are a local value.
    unsafe { ibv_modify_qp(qp, &mut attributes, mask) }
}

#[test]
fn requires_attributes_of_manual_page() {
    on("state::requires_attributes_of_manual_page", &machine(), || {
        let domain = domain("mlx5_0");
        let completions = domain.context().completions(16).expect("a queue");
        for transport in [Transport::Rc, Transport::Uc, Transport::Ud] {
            let options = QueuePairOptions::of(transport, 8);
            let pair = domain.queue_pair(options, &completions, &completions).expect("a pair");
            let qp = pair.as_raw();
            let refused = |state, mask, why: &str| {
                assert_eq!(
                    modify(qp, state, mask),
                    libc::EINVAL,
                    "{transport:?} {state} {mask:#x}: {why}"
                );
            };
            for (state, mask) in steps(transport) {
                for bit in (1..26).map(|bit| 1 << bit).filter(|bit| mask & bit != 0) {
                    refused(state, mask & !bit, "an attribute is missing");
                }
                // IBV_QP_CAP and IBV_QP_EN_SQD_ASYNC_NOTIFY.
                for bit in [1 << 19, 1 << 2] {
                    refused(state, mask | bit, "no step allows it");
                }
                if state == INIT {
                    refused(state, mask | 1 << 16, "INIT has no send PSN");
                }
                assert_eq!(modify(qp, state, mask), 0, "{transport:?} {state}");
                // SAFETY: the queue pair is alive.
                assert_eq!(unsafe { (*qp).state }, state);
                refused(state + 2, 1, "it skips a state");
                if state > INIT {
                    refused(state - 1, 1, "backwards");
                }
            }
            for state in [ERR, RESET] {
                assert_eq!(modify(qp, state, 1), 0, "from any state");
            }
            refused(RTS, steps(transport)[2].1, "from RESET");
        }
    });
}
