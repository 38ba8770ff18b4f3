//! C structures of `include/gdrapi.h`. Sizes and offsets are those of GCC for the header of gdrcopy
//! 2.6 on x86_64 and aarch64.

use std::ffi::{c_int, c_ulong};
use std::mem::offset_of;

/// `gdr_mh_t`: a pinned buffer, passed by value in one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Handle {
    /// Never 0 for a live handle.
    pub h: c_ulong,
}

/// `struct gdr`, the target of a `gdr_t`. Opaque to programs, but gdrcopy's own test program reads
/// the open file of gdrdrv there.
#[derive(Debug)]
#[repr(C)]
pub struct Gdr {
    /// Descriptor of `/dev/gdrdrv`, or -1 if another backend is in use or the session is closed.
    pub(crate) fd: std::sync::atomic::AtomicI32,
    /// gdrcopy's structure has 48 bytes, and its tests copy it as a whole.
    _rest: [u8; 44],
}

impl Gdr {
    pub(crate) fn new(fd: c_int) -> Self {
        Self { fd: std::sync::atomic::AtomicI32::new(fd), _rest: [0; 44] }
    }
}

/// Result of the exported `gdr_get_info`: `gdr_info_t` before release 2.4. Programs compiled with
/// that header have 40 bytes for it, so never more is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct InfoV1 {
    /// Device address, rounded down to a page.
    pub va: u64,
    /// Length in bytes, rounded up to whole pages.
    pub mapped_size: u64,
    /// Page size in bytes.
    pub page_size: u32,
    /// Deprecated upstream: time-stamp counter cycles spent pinning.
    pub tm_cycles: u64,
    /// Deprecated upstream: counter cycles per millisecond.
    pub cycles_per_ms: u32,
    /// Bit 0 `mapped`, bit 1 `wc_mapping`.
    pub bits: u32,
}

/// `gdr_info_v2_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct InfoV2 {
    /// Fields of the old structure.
    pub v1: InfoV1,
    /// `gdr_mapping_type_t`.
    pub mapping_type: u32,
}

/// `InfoV1::bits`.
pub const MAPPED: u32 = 1;
/// `InfoV1::bits`.
pub const WC_MAPPING: u32 = 1 << 1;

const _: () = {
    assert!(size_of::<Handle>() == 8);
    assert!(size_of::<Gdr>() == 48);
    assert!(offset_of!(Gdr, fd) == 0);
    assert!(size_of::<InfoV1>() == 40 && align_of::<InfoV1>() == 8);
    assert!(offset_of!(InfoV1, mapped_size) == 8);
    assert!(offset_of!(InfoV1, page_size) == 16);
    assert!(offset_of!(InfoV1, tm_cycles) == 24);
    assert!(offset_of!(InfoV1, cycles_per_ms) == 32);
    assert!(offset_of!(InfoV1, bits) == 36);
    assert!(size_of::<InfoV2>() == 48 && align_of::<InfoV2>() == 8);
    assert!(offset_of!(InfoV2, mapping_type) == 40);
};
