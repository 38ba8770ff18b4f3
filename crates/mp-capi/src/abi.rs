//! The C types of the headers in `include/`. Sizes and offsets are those of libmp 2.0 with GCC on x86_64.

use std::ffi::{c_int, c_void};

/// `MP_API_VERSION`.
pub const API_VERSION: c_int = 2 << 16;
/// `MP_PARAM_VERSION`.
pub const PARAM_VERSION: c_int = 0;
/// `MP_SUCCESS`.
pub const SUCCESS: c_int = 0;
/// `MP_FAILURE`.
pub const FAILURE: c_int = 1;

/// `MP_INIT_WQ_ON_GPU` to `MP_INIT_DBREC_ON_GPU`.
pub const INIT_WQ_ON_GPU: c_int = 1;
pub const INIT_RX_CQ_ON_GPU: c_int = 2;
pub const INIT_TX_CQ_ON_GPU: c_int = 3;
pub const INIT_DBREC_ON_GPU: c_int = 4;

/// `MP_PUT_INLINE`.
pub const PUT_INLINE: c_int = 1;
/// `MP_PUT_NOWAIT`.
pub const PUT_NOWAIT: c_int = 2;

/// `GDS_WAIT_COND_GEQ` to `GDS_WAIT_COND_NOR`; the first three are `MP_WAIT_GEQ` to `MP_WAIT_AND` too.
pub const WAIT_GEQ: c_int = 0;
pub const WAIT_EQ: c_int = 1;
pub const WAIT_AND: c_int = 2;
pub const WAIT_NOR: c_int = 3;

/// An opaque handle: `mp_reg_t`, `mp_request_t`, `mp_window_t`, `mp_desc_queue_t`, `comm_reg_t`, `comm_request_t`.
pub type Handle = *mut c_void;
/// `MPI_Comm` and `MPI_Datatype`: a pointer, or an integer in its lower half.
pub type MpiHandle = *mut c_void;
/// `cudaStream_t`.
pub type CudaStream = *mut c_void;

/// `gdsync::isem32_t`. Addresses are the GPU's, and padding is written too: descriptors are copied as bytes.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub struct Sem32 {
    pub address: u64,
    pub value: u32,
    pub padding: u32,
}

/// `gdsync::isem64_t`.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub struct Sem64 {
    pub address: u64,
    pub value: u64,
}

/// `mp::mlx5::send_desc_t`.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub struct SendDesc {
    pub dbrec: Sem32,
    pub db: Sem64,
}

/// `mp::mlx5::wait_desc_t`.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub struct WaitDesc {
    /// A `gds_wait_cond_flag_t`.
    pub sema_cond: c_int,
    pub padding: u32,
    pub sema: Sem32,
    pub flag: Sem32,
}

/// `comm_dev_descs::max_n_descs`.
pub const MAX_DESCS: usize = 32;

/// A list of `struct comm_dev_descs`.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub struct DescList<T> {
    pub count: c_int,
    pub padding: u32,
    pub list: [T; MAX_DESCS],
}

/// `struct comm_dev_descs`.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub struct DevDescs {
    pub ready: DescList<Sem32>,
    pub tx: DescList<SendDesc>,
    pub wait: DescList<WaitDesc>,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Sem32>() == 16 && offset_of!(Sem32, value) == 8);
    assert!(size_of::<Sem64>() == 16 && offset_of!(Sem64, value) == 8);
    assert!(size_of::<SendDesc>() == 32 && offset_of!(SendDesc, db) == 16);
    assert!(size_of::<WaitDesc>() == 40 && offset_of!(WaitDesc, sema) == 8);
    assert!(offset_of!(WaitDesc, flag) == 24);
    assert!(offset_of!(DevDescs, tx) == 520 && offset_of!(DevDescs, wait) == 1552);
    assert!(offset_of!(DescList<Sem32>, list) == 8 && size_of::<DevDescs>() == 2840);
};
