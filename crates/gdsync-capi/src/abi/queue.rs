//! The shapes of queue pairs: what programs see of them, and requests whose inside is this library's.

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

/// `GDS_SEND_INFO_MAX_OPS` and `GDS_WAIT_INFO_MAX_OPS`: operations of a request at most.
pub const MOST_OPERATIONS: usize = 32;

/// `struct gds_cq`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Cq {
    /// The verbs completion queue behind it, which is not the program's to poll.
    pub cq: *mut ibv_cq,
    /// Which completion is waited for next, counted from 0.
    pub curr_offset: u32,
}

/// `struct gds_qp`, as in libgdsync's releases: both completion queues within it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Qp {
    /// The verbs queue pair, whose state the program changes.
    pub qp: *mut ibv_qp,
    pub send_cq: Cq,
    pub recv_cq: Cq,
    /// Where MOFED's verbs had a resource domain: NULL.
    pub res_domain: *mut c_void,
    pub dev_context: *mut ibv_context,
}

/// Words of 64 bits in a request: 1856 bytes, as in upstream's DirectVerbs branch.
pub const REQUEST_WORDS: usize = 232;

/// `gds_send_request_t` and `gds_wait_request_t`: what is in the words is `crate::request`'s.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Request {
    /// Numbers that are looked up.
    pub words: [u64; REQUEST_WORDS],
}

/// `gds_mlx5_send_info_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SendInfo {
    /// Bit 0: a barrier for the GPU between the two writes. Bit 1: one for the whole system.
    pub barriers: c_uint,
    /// The doorbell record, for the GPU.
    pub dbrec_ptr: *mut u32,
    /// What is written there first.
    pub dbrec_value: u32,
    /// The doorbell register, for the GPU.
    pub db_ptr: *mut u64,
    /// What is written there then.
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
    /// The word that is waited for, for the GPU.
    pub cqe_ptr: *mut u32,
    /// What it is compared with.
    pub cqe_value: u32,
    /// The word that is written then.
    pub flag_ptr: *mut u32,
    pub flag_value: u32,
}

/// `struct ibv_wc`. The same in `ibverbs-sys` is for reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WorkCompletion {
    /// As the request had it.
    pub wr_id: u64,
    /// `enum ibv_wc_status`.
    pub status: c_uint,
    /// `enum ibv_wc_opcode`.
    pub opcode: c_uint,
    /// What the hardware adds to an error.
    pub vendor_err: u32,
    /// Bytes that arrived.
    pub byte_len: u32,
    /// In network byte order.
    pub imm_data: u32,
    pub qp_num: u32,
    /// Of a datagram, who sent it.
    pub src_qp: u32,
    /// `enum ibv_wc_flags`.
    pub wc_flags: c_uint,
    /// Not filled in.
    pub pkey_index: u16,
    /// Of a datagram, the sender's LID; 0 on Ethernet.
    pub slid: u16,
    /// Of a datagram, the service level.
    pub sl: u8,
    /// Of a datagram, the lower bits of the LID that it was sent to.
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
