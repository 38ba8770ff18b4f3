//! State changes of a queue pair: the attributes that each requires and allows, from the manual page of `ibv_modify_qp`.

use ibverbs_sys::{ibv_qp_attr_mask as bits, ibv_qp_state as state, ibv_qp_type as kind};

const STATE: u32 = bits::IBV_QP_STATE.0;
const CUR_STATE: u32 = bits::IBV_QP_CUR_STATE.0;
const ACCESS_FLAGS: u32 = bits::IBV_QP_ACCESS_FLAGS.0;
const PKEY_INDEX: u32 = bits::IBV_QP_PKEY_INDEX.0;
const PORT: u32 = bits::IBV_QP_PORT.0;
const QKEY: u32 = bits::IBV_QP_QKEY.0;
const AV: u32 = bits::IBV_QP_AV.0;
const PATH_MTU: u32 = bits::IBV_QP_PATH_MTU.0;
const TIMEOUT: u32 = bits::IBV_QP_TIMEOUT.0;
const RETRY_CNT: u32 = bits::IBV_QP_RETRY_CNT.0;
const RNR_RETRY: u32 = bits::IBV_QP_RNR_RETRY.0;
const RQ_PSN: u32 = bits::IBV_QP_RQ_PSN.0;
const MAX_QP_RD_ATOMIC: u32 = bits::IBV_QP_MAX_QP_RD_ATOMIC.0;
const ALT_PATH: u32 = bits::IBV_QP_ALT_PATH.0;
const MIN_RNR_TIMER: u32 = bits::IBV_QP_MIN_RNR_TIMER.0;
const SQ_PSN: u32 = bits::IBV_QP_SQ_PSN.0;
const MAX_DEST_RD_ATOMIC: u32 = bits::IBV_QP_MAX_DEST_RD_ATOMIC.0;
const PATH_MIG_STATE: u32 = bits::IBV_QP_PATH_MIG_STATE.0;
const DEST_QPN: u32 = bits::IBV_QP_DEST_QPN.0;

/// True if a queue pair of this kind may change state with this mask. Draining and alternate paths are not supported.
pub fn may_change(kind: u32, from: u32, to: u32, mask: u32) -> bool {
    let Some((required, optional)) = change(kind, from, to) else {
        return false;
    };
    mask & required == required && mask & !(required | optional | STATE) == 0
}

/// The required and the optional attributes of a change.
fn change(kind: u32, from: u32, to: u32) -> Option<(u32, u32)> {
    let srd = kind == kind::IBV_QPT_DRIVER;
    let connected = kind != kind::IBV_QPT_UD && !srd;
    let reliable = kind == kind::IBV_QPT_RC;
    let if_so = |condition: bool, mask: u32| if condition { mask } else { 0 };
    let first = PKEY_INDEX | PORT | if connected { ACCESS_FLAGS } else { QKEY };
    let any_time = CUR_STATE
        | if_so(!connected, QKEY)
        | if_so(connected, ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE)
        | if_so(reliable, MIN_RNR_TIMER);
    match (from, to) {
        (_, state::IBV_QPS_RESET | state::IBV_QPS_ERR) => Some((STATE, 0)),
        (state::IBV_QPS_RESET, state::IBV_QPS_INIT) => Some((STATE | first, 0)),
        (state::IBV_QPS_INIT, state::IBV_QPS_INIT) => Some((0, first)),
        (state::IBV_QPS_INIT, state::IBV_QPS_RTR) => Some((
            STATE
                | if_so(connected, AV | PATH_MTU | DEST_QPN | RQ_PSN)
                | if_so(reliable, MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
            PKEY_INDEX | if connected { ACCESS_FLAGS | ALT_PATH } else { QKEY },
        )),
        (state::IBV_QPS_RTR, state::IBV_QPS_RTS) => Some((
            STATE | SQ_PSN | if_so(reliable, TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC),
            any_time | if_so(srd, RNR_RETRY),
        )),
        (state::IBV_QPS_RTS, state::IBV_QPS_RTS) => Some((0, any_time)),
        _ => None,
    }
}
