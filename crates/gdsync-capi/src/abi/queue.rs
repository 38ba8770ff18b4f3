//! C types of queue pairs and requests.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

use verbs::raw::{ibv_context, ibv_cq, ibv_qp};

/// `GDS_CREATE_QP_WQ_ON_GPU`.
pub const CREATE_WQ_ON_GPU: c_int = 1;
/// `GDS_CREATE_QP_TX_CQ_ON_GPU`.
pub const CREATE_TX_CQ_ON_GPU: c_int = 1 << 1;
/// `GDS_CREATE_QP_RX_CQ_ON_GPU`.
pub const CREATE_RX_CQ_ON_GPU: c_int = 1 << 2;
/// `GDS_CREATE_QP_WQ_DBREC_ON_GPU`.
pub const CREATE_WQ_DBREC_ON_GPU: c_int = 1 << 5;

/// `GDS_SEND_INFO_MAX_OPS` and `GDS_WAIT_INFO_MAX_OPS`: limit of operations per request.
pub const MAX_OPERATIONS: usize = 32;

/// `struct gds_cq`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Cq {
    /// The verbs completion queue. Programs must not poll it.
    pub cq: *mut ibv_cq,
    /// Index of the next completion to wait for, from 0.
    pub curr_offset: u32,
}

/// `struct gds_qp`, as in libgdsync's releases, with embedded completion queues.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Qp {
    /// The verbs queue pair. The program changes its state.
    pub qp: *mut ibv_qp,
    pub send_cq: Cq,
    pub recv_cq: Cq,
    /// Resource domain of MOFED's experimental verbs: always NULL.
    pub res_domain: *mut c_void,
    pub dev_context: *mut ibv_context,
}

/// 64-bit words of a request: 1856 bytes, as in upstream's DirectVerbs branch.
pub const REQUEST_WORDS: usize = 232;

/// `gds_send_request_t` and `gds_wait_request_t`, encoded by `crate::request`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Request {
    /// Opaque.
    pub words: [u64; REQUEST_WORDS],
}

/// `gds_mlx5_send_info_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SendInfo {
    /// Barrier between the two writes. Bit 0: GPU scope. Bit 1: system scope.
    pub barriers: c_uint,
    /// GPU address of the doorbell record.
    pub dbrec_ptr: *mut u32,
    /// Value of the first write, to the record.
    pub dbrec_value: u32,
    /// GPU address of the doorbell register.
    pub db_ptr: *mut u64,
    /// Value of the second write, to the register.
    pub db_value: u64,
}

/// `membar_full` of a [`SendInfo`].
pub const BARRIER_SYS: c_uint = 1 << 1;

/// `gds_mlx5_wait_info_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct WaitInfo {
    /// A `gds_wait_cond_flag_t`.
    pub cond: u32,
    /// GPU address of the polled word.
    pub cqe_ptr: *mut u32,
    /// Right-hand side of the comparison.
    pub cqe_value: u32,
    /// GPU address of the word to write after the wait.
    pub flag_ptr: *mut u32,
    pub flag_value: u32,
}

/// `struct ibv_wc`. The fields of the type in `ibverbs-sys` are read-only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WorkCompletion {
    /// Id of the request.
    pub wr_id: u64,
    /// `enum ibv_wc_status`.
    pub status: c_uint,
    /// `enum ibv_wc_opcode`.
    pub opcode: c_uint,
    /// Vendor syndrome of an error.
    pub vendor_err: u32,
    /// Length in bytes.
    pub byte_len: u32,
    /// In network byte order.
    pub imm_data: u32,
    pub qp_num: u32,
    /// Source QPN of a datagram.
    pub src_qp: u32,
    /// `enum ibv_wc_flags`.
    pub wc_flags: c_uint,
    /// Always 0.
    pub pkey_index: u16,
    /// Source LID of a datagram; 0 on Ethernet.
    pub slid: u16,
    /// Service level of a datagram.
    pub sl: u8,
    /// Lower bits of the destination LID of a datagram.
    pub dlid_path_bits: u8,
}

const _: () = {
    assert!(size_of::<Cq>() == 16 && offset_of!(Cq, curr_offset) == 8);
    assert!(size_of::<Qp>() == 56 && offset_of!(Qp, send_cq) == 8 && offset_of!(Qp, recv_cq) == 24);
    assert!(offset_of!(Qp, res_domain) == 40 && offset_of!(Qp, dev_context) == 48);
    assert!(size_of::<Request>() == 1856 && align_of::<Request>() == 8);
    assert!(size_of::<SendInfo>() == 40 && offset_of!(SendInfo, dbrec_ptr) == 8);
    assert!(offset_of!(SendInfo, dbrec_value) == 16 && offset_of!(SendInfo, db_ptr) == 24);
    assert!(offset_of!(SendInfo, db_value) == 32);
    assert!(size_of::<WaitInfo>() == 40 && offset_of!(WaitInfo, cqe_ptr) == 8);
    assert!(offset_of!(WaitInfo, cqe_value) == 16 && offset_of!(WaitInfo, flag_ptr) == 24);
    assert!(offset_of!(WaitInfo, flag_value) == 32);
    assert!(size_of::<WorkCompletion>() == 48 && offset_of!(WorkCompletion, wc_flags) == 36);
    assert!(offset_of!(WorkCompletion, pkey_index) == 40 && offset_of!(WorkCompletion, sl) == 44);
};
