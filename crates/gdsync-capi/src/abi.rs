//! The C types of the headers in `include/`. Sizes and offsets are those of libgdsync 2.2 with GCC on x86_64. Enumerations are
//! 32-bit integers, because C may store any number.

mod queue;

use std::ffi::{c_int, c_ulong, c_void};
use std::mem::offset_of;

pub use queue::*;

/// `GDS_API_VERSION`: major << 16 | minor.
pub const API_VERSION: c_int = 2 << 16 | 2;
/// `GDS_PARAM_VERSION`.
pub const PARAM_VERSION: u32 = 0;

/// `GDS_MEMORY_GPU`.
pub const MEMORY_GPU: c_int = 1;
/// `GDS_MEMORY_HOST`.
pub const MEMORY_HOST: c_int = 1 << 1;
/// `GDS_MEMORY_IO`.
pub const MEMORY_IO: c_int = 1 << 2;
/// `GDS_MEMORY_MASK`.
pub const MEMORY_MASK: c_int = 7;

/// `GDS_WAIT_POST_FLUSH_REMOTE`.
pub const WAIT_POST_FLUSH_REMOTE: c_int = 1 << 3;
/// `GDS_WRITE_PRE_BARRIER_SYS`.
pub const WRITE_PRE_BARRIER_SYS: c_int = 1 << 4;
/// `GDS_WRITE_MEMORY_POST_BARRIER_SYS`.
pub const WRITE_MEMORY_POST_BARRIER_SYS: c_int = 1 << 4;
/// `GDS_WRITE_MEMORY_PRE_BARRIER_SYS`.
pub const WRITE_MEMORY_PRE_BARRIER_SYS: c_int = 1 << 5;

/// `GDS_TAG_SEND`.
pub const TAG_SEND: u32 = 0;
/// `GDS_TAG_WAIT`.
pub const TAG_WAIT: u32 = 1;
/// `GDS_TAG_WAIT_VALUE32`.
pub const TAG_WAIT_VALUE32: u32 = 2;
/// `GDS_TAG_WRITE_VALUE32`.
pub const TAG_WRITE_VALUE32: u32 = 3;
/// `GDS_TAG_WRITE_MEMORY`.
pub const TAG_WRITE_MEMORY: u32 = 4;

/// `gds_wait_value32_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct WaitValue32 {
    pub ptr: *mut u32,
    /// Right-hand side of the comparison.
    pub value: u32,
    /// A `gds_wait_cond_flag_t`.
    pub cond_flags: u32,
    /// `gds_memory_type_t | gds_wait_flags_t`.
    pub flags: c_int,
}

/// `gds_write_value32_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct WriteValue32 {
    pub ptr: *mut u32,
    pub value: u32,
    /// `gds_memory_type_t | gds_write_flags_t`.
    pub flags: c_int,
}

/// `gds_write_memory_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct WriteMemory {
    pub dest: *mut u8,
    /// Source, in host memory.
    pub src: *const u8,
    /// Length in bytes.
    pub count: usize,
    /// `gds_memory_type_t | gds_write_memory_flags_t`.
    pub flags: c_int,
}

/// The union of a `gds_descriptor_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union What {
    /// For `GDS_TAG_SEND` and `GDS_TAG_WAIT`.
    pub request: *mut Request,
    /// For `GDS_TAG_WAIT_VALUE32`.
    pub wait32: WaitValue32,
    /// For `GDS_TAG_WRITE_VALUE32`.
    pub write32: WriteValue32,
    /// For `GDS_TAG_WRITE_MEMORY`.
    pub writemem: WriteMemory,
}

/// `gds_descriptor_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Descriptor {
    /// A `gds_tag_t`: the valid member of the union.
    pub tag: u32,
    pub what: What,
}

/// `gds_mem_desc_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MemDesc {
    /// GPU address.
    pub d_ptr: u64,
    /// CPU address.
    pub h_ptr: *mut c_void,
    /// Start of the CPU mapping of GPU memory.
    pub bar_ptr: *mut c_void,
    /// A `gds_memory_type_t`.
    pub flags: c_int,
    /// Requested bytes.
    pub alloc_size: usize,
    /// A `gdr_mh_t`, not 0 for GPU memory.
    pub mh: c_ulong,
}

/// `gds_mlx5_dword_wait_info_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DwordWaitInfo {
    /// GPU address of the word.
    pub ptr: *mut u32,
    /// Right-hand side of the comparison.
    pub value: u32,
}

const _: () = {
    assert!(size_of::<WaitValue32>() == 24 && align_of::<WaitValue32>() == 8);
    assert!(offset_of!(WaitValue32, value) == 8);
    assert!(offset_of!(WaitValue32, cond_flags) == 12);
    assert!(offset_of!(WaitValue32, flags) == 16);
    assert!(size_of::<WriteValue32>() == 16);
    assert!(offset_of!(WriteValue32, value) == 8);
    assert!(offset_of!(WriteValue32, flags) == 12);
    assert!(size_of::<WriteMemory>() == 32);
    assert!(offset_of!(WriteMemory, src) == 8);
    assert!(offset_of!(WriteMemory, count) == 16);
    assert!(offset_of!(WriteMemory, flags) == 24);
    assert!(size_of::<Descriptor>() == 40 && align_of::<Descriptor>() == 8);
    assert!(offset_of!(Descriptor, what) == 8);
    assert!(size_of::<MemDesc>() == 48);
    assert!(offset_of!(MemDesc, h_ptr) == 8);
    assert!(offset_of!(MemDesc, bar_ptr) == 16);
    assert!(offset_of!(MemDesc, flags) == 24);
    assert!(offset_of!(MemDesc, alloc_size) == 32);
    assert!(offset_of!(MemDesc, mh) == 40);
    assert!(size_of::<DwordWaitInfo>() == 16);
    assert!(offset_of!(DwordWaitInfo, value) == 8);
};
