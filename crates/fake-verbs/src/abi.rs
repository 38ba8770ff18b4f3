//! Structures of verbs.h that crate `ibverbs-sys` does not declare, or declares without public fields.

use std::ffi::{c_int, c_uint};

use ibverbs_sys::{ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_wc};

/// verbs.h's `struct ibv_ah`.
#[repr(C)]
pub struct Address {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub handle: u32,
}

/// verbs.h's `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Completion {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

const _: () = assert!(size_of::<Completion>() == size_of::<ibv_wc>());

/// The subject of an event.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Element {
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub port_num: c_int,
}

/// verbs.h's `struct ibv_async_event`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AsyncEvent {
    pub element: Element,
    pub event_type: c_uint,
}

/// verbs.h's `enum ibv_event_type`: the events that this library reports.
pub const EVENT_CQ_ERR: c_uint = 0;
pub const EVENT_QP_REQ_ERR: c_uint = 2;
pub const EVENT_QP_ACCESS_ERR: c_uint = 3;
pub const EVENT_PORT_ERR: c_uint = 10;
