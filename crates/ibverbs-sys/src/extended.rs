//! Extended queue pairs: work requests by a table of functions, which queue pairs of a device's own type need.

use std::ffi::{c_int, c_uint, c_void};

use crate::device::Uncalled;
use crate::{ibv_ah, ibv_qp, ibv_sge};

/// A function of the queue pair alone.
pub type OfQueuePair = unsafe extern "C" fn(qp: *mut ibv_qp_ex);
/// The target of a read or a write.
pub type RemoteMemory = unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, address: u64);
/// The same, and immediate data in network byte order.
pub type RemoteMemoryImmediate =
    unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, address: u64, immediate: u32);
/// Immediate data in network byte order.
pub type Immediate = unsafe extern "C" fn(qp: *mut ibv_qp_ex, immediate: u32);
/// The destination of a datagram.
pub type SetUdAddr = unsafe extern "C" fn(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32);
/// Inline data, which is copied.
pub type SetInlineData =
    unsafe extern "C" fn(qp: *mut ibv_qp_ex, address: *mut c_void, length: usize);
/// Local memory.
pub type SetSge = unsafe extern "C" fn(qp: *mut ibv_qp_ex, lkey: u32, address: u64, length: u32);
/// Local memory, in order.
pub type SetSgeList = unsafe extern "C" fn(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge);
/// Rings the doorbell: 0, or an error number.
pub type WrComplete = unsafe extern "C" fn(qp: *mut ibv_qp_ex) -> c_int;

records! {
    /// A queue pair with its functions; one is NULL if the queue pair was created without it. It grows at its end: `wr_flush` is newer.
    "struct ibv_qp_ex" struct ibv_qp_ex {
        qp_base: ibv_qp,
        comp_mask: u64,
        wr_id: u64,
        wr_flags: c_uint,
        wr_atomic_cmp_swp: Uncalled,
        wr_atomic_fetch_add: Uncalled,
        wr_bind_mw: Uncalled,
        wr_local_inv: Uncalled,
        wr_rdma_read: Option<RemoteMemory>,
        wr_rdma_write: Option<RemoteMemory>,
        wr_rdma_write_imm: Option<RemoteMemoryImmediate>,
        wr_send: Option<OfQueuePair>,
        wr_send_imm: Option<Immediate>,
        wr_send_inv: Uncalled,
        wr_send_tso: Uncalled,
        wr_set_ud_addr: Option<SetUdAddr>,
        wr_set_xrc_srqn: Uncalled,
        wr_set_inline_data: Option<SetInlineData>,
        wr_set_inline_data_list: Uncalled,
        wr_set_sge: Option<SetSge>,
        wr_set_sge_list: Option<SetSgeList>,
        wr_start: Option<OfQueuePair>,
        wr_complete: Option<WrComplete>,
        wr_abort: Option<OfQueuePair>,
        wr_atomic_write: Uncalled,
    }
}

constants! {
    /// The requests that an extended queue pair is created for.
    plain ibv_qp_create_send_ops_flags {
        IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
        IBV_QP_EX_WITH_SEND = 1 << 2,
        IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
        IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
    }
}
