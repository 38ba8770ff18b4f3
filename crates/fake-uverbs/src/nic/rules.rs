//! The attributes that a state change requires and allows: `qp_state_table` in Linux `drivers/infiniband/core/verbs.c`.

use crate::nic::pair::{DATAGRAMS, RELIABLE};
use crate::nic::state::stage;

/// `enum ib_qp_attr_mask`.
pub mod mask {
    pub const STATE: u32 = 1;
    pub const CURRENT: u32 = 1 << 1;
    pub const DRAIN_EVENT: u32 = 1 << 2;
    pub const ACCESS: u32 = 1 << 3;
    pub const PKEY: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const ADDRESS: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRIES: u32 = 1 << 10;
    pub const RNR_RETRIES: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_RD_ATOMIC: u32 = 1 << 13;
    pub const OTHER_PATH: u32 = 1 << 14;
    pub const RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const MIGRATION: u32 = 1 << 18;
    pub const DESTINATION: u32 = 1 << 20;
}

/// True if the kernel allows the change with these attributes. DRAINED can be left; changing attributes in it is not supported.
pub fn is_allowed(kind: u8, from: u8, to: u8, named: u32) -> bool {
    use stage::*;
    let is_connected = kind != DATAGRAMS;
    let connected = |named: u32| if is_connected { named } else { 0 };
    let reliable = |named: u32| if kind == RELIABLE { named } else { 0 };
    let datagrams = |named: u32| if is_connected { 0 } else { named };
    let first = mask::PKEY | mask::PORT | connected(mask::ACCESS) | datagrams(mask::QKEY);
    let later = mask::CURRENT
        | datagrams(mask::QKEY)
        | connected(mask::OTHER_PATH | mask::ACCESS | mask::MIGRATION)
        | reliable(mask::RNR_TIMER);
    let (needed, optional) = match (from, to) {
        (RESET, ERROR) => return false,
        (_, RESET | ERROR) => (0, 0),
        (RESET, INIT) => (first, 0),
        (INIT, INIT) => (0, first),
        (INIT, READY_TO_RECEIVE) => (
            connected(mask::ADDRESS | mask::PATH_MTU | mask::DESTINATION | mask::RQ_PSN)
                | reliable(mask::MAX_DEST_RD_ATOMIC | mask::RNR_TIMER),
            mask::PKEY | datagrams(mask::QKEY) | connected(mask::OTHER_PATH | mask::ACCESS),
        ),
        (READY_TO_RECEIVE, READY_TO_SEND) => (
            mask::SQ_PSN
                | reliable(mask::TIMEOUT | mask::RETRIES | mask::RNR_RETRIES | mask::MAX_RD_ATOMIC),
            later,
        ),
        (READY_TO_SEND | DRAINED, READY_TO_SEND) => (0, later),
        (READY_TO_SEND, DRAINED) => (0, mask::DRAIN_EVENT),
        _ => return false,
    };
    named & needed == needed && named & !(needed | optional | mask::STATE) == 0
}
