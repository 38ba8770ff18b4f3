//! Converts completions to `struct ibv_wc`, with the numbers of `infiniband/verbs.h`.

use engine::wire::{Completion, Event, Opcode, Origin, Syndrome};

use crate::abi::WorkCompletion;

/// `IBV_WC_RECV`.
const RECEIVE: u32 = 128;
/// `IBV_WC_RECV_RDMA_WITH_IMM`.
const RECEIVE_WRITE: u32 = 129;
/// `IBV_WC_GRH`.
const WITH_ROUTE: u32 = 1 << 0;
/// `IBV_WC_WITH_IMM`.
const WITH_IMMEDIATE: u32 = 1 << 1;

/// The work completion of a request.
pub(crate) fn work_completion(wr_id: u64, completion: &Completion) -> WorkCompletion {
    let (status, vendor_err) = match completion.event.failed() {
        Some(failed) => (status(failed.syndrome), failed.vendor.into()),
        None => (0, 0),
    };
    let (opcode, immediate) = match completion.event {
        Event::Sent { opcode } => (operation(opcode), None),
        Event::SendFailed(failed) => (operation(failed.opcode), None),
        Event::Received | Event::ReceivedInvalidate { .. } | Event::ReceiveFailed(_) => {
            (RECEIVE, None)
        }
        Event::ReceivedImmediate { immediate } => (RECEIVE, Some(immediate)),
        Event::Written { immediate } => (RECEIVE_WRITE, Some(immediate)),
    };
    // The origin is undefined in other completions.
    let has_arrived = !completion.event.is_send() && completion.event.failed().is_none();
    let origin = if has_arrived { completion.origin } else { Origin::default() };
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    WorkCompletion {
        wr_id,
        status,
        opcode,
        vendor_err,
        byte_len: completion.bytes,
        imm_data: immediate.map_or(0, u32::to_be),
        qp_num: completion.qpn,
        src_qp: completion.source,
        wc_flags: flag(immediate.is_some(), WITH_IMMEDIATE) | flag(origin.has_route, WITH_ROUTE),
        slid: origin.lid,
        sl: origin.level,
        dlid_path_bits: origin.path,
        ..WorkCompletion::default()
    }
}

/// `enum ibv_wc_opcode` of a send opcode; `IBV_WC_SEND` for unknown ones.
fn operation(opcode: u8) -> u32 {
    match Opcode::of(opcode) {
        Some(Opcode::Write | Opcode::WriteImmediate) => 1,
        Some(Opcode::Read) => 2,
        Some(Opcode::CompareSwap) => 3,
        Some(Opcode::FetchAdd) => 4,
        Some(Opcode::Nop | Opcode::Send | Opcode::SendImmediate) | None => 0,
    }
}

/// `enum ibv_wc_status` of a syndrome, as in rdma-core's mlx5; `IBV_WC_GENERAL_ERR` for unknown ones.
fn status(syndrome: Syndrome) -> u32 {
    match syndrome {
        Syndrome::LocalLength => 1,
        Syndrome::LocalOperation => 2,
        Syndrome::LocalProtection => 4,
        Syndrome::Flushed => 5,
        Syndrome::WindowBind => 6,
        Syndrome::BadResponse => 7,
        Syndrome::LocalAccess => 8,
        Syndrome::RemoteInvalidRequest => 9,
        Syndrome::RemoteAccess => 10,
        Syndrome::RemoteOperation => 11,
        Syndrome::TransportRetry => 12,
        Syndrome::ReceiverNotReady => 13,
        Syndrome::RemoteAborted => 16,
        Syndrome::Other(_) => 21,
    }
}
