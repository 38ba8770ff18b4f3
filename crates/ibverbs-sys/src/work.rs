//! Work requests.

use std::ffi::{c_int, c_uint, c_void};

use crate::{ibv_context, ibv_pd};

/// A memory window; opaque.
pub type ibv_mw = c_void;

records! {
    /// An address handle.
    "struct ibv_ah" struct ibv_ah {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        handle: u32,
    }

    /// An SGE.
    "struct ibv_sge" struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    /// A receive request.
    "struct ibv_recv_wr" struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }

    /// A send request. Unnamed members have the names that `ibverbs` gives them.
    "struct ibv_send_wr" struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: ibv_wr_opcode::Type,
        send_flags: c_uint,
        __bindgen_anon_1: ibv_send_wr_value = "imm_data",
        wr: ibv_send_wr_target,
        qp_type: ibv_send_wr_shared,
        __bindgen_anon_2: ibv_send_wr_extra = "bind_mw",
    }

    /// The memory that a window is bound to.
    "struct ibv_mw_bind_info" struct ibv_mw_bind_info {
        mr: *mut crate::ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: c_uint,
    }
}

/// Immediate data in network byte order, or the rkey to invalidate.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ibv_send_wr_value {
    pub imm_data: u32,
}

/// The target of an RDMA read or write.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ibv_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// The target of an atomic operation.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ibv_send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// The target of a datagram.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ibv_send_wr_datagram {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// Target of a request.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_target {
    pub rdma: ibv_send_wr_rdma,
    pub atomic: ibv_send_wr_atomic,
    pub ud: ibv_send_wr_datagram,
}

/// The shared receive queue of a request.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ibv_send_wr_shared {
    pub remote_srqn: u32,
}

/// A window to bind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_bind {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

/// A packet for segmentation offload.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ibv_send_wr_tso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

/// Members for some opcodes only.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_extra {
    pub bind_mw: ibv_send_wr_bind,
    pub tso: ibv_send_wr_tso,
}

impl Default for ibv_send_wr_target {
    fn default() -> Self {
        Self { atomic: ibv_send_wr_atomic::default() }
    }
}

impl Default for ibv_send_wr_extra {
    fn default() -> Self {
        Self {
            bind_mw: ibv_send_wr_bind {
                mw: std::ptr::null_mut(),
                rkey: 0,
                bind_info: ibv_mw_bind_info::default(),
            },
        }
    }
}

constants! {
    /// Opcodes of send requests.
    values ibv_wr_opcode {
        IBV_WR_RDMA_WRITE = 0,
        IBV_WR_RDMA_WRITE_WITH_IMM = 1,
        IBV_WR_SEND = 2,
        IBV_WR_SEND_WITH_IMM = 3,
        IBV_WR_RDMA_READ = 4,
        IBV_WR_ATOMIC_CMP_AND_SWP = 5,
        IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
        IBV_WR_LOCAL_INV = 7,
        IBV_WR_BIND_MW = 8,
        IBV_WR_SEND_WITH_INV = 9,
        IBV_WR_TSO = 10,
        IBV_WR_DRIVER1 = 11,
    }

    /// Flags of send requests.
    flags ibv_send_flags {
        IBV_SEND_FENCE = 1,
        IBV_SEND_SIGNALED = 1 << 1,
        IBV_SEND_SOLICITED = 1 << 2,
        IBV_SEND_INLINE = 1 << 3,
        IBV_SEND_IP_CSUM = 1 << 4,
    }
}
