//! Handles and structures of `cuda.h`, CUDA 13.0. Sizes and offsets are equal on x86-64 and
//! aarch64.

use std::ffi::c_void;
use std::mem::offset_of;

macro_rules! handles {
    ($( $(#[$doc:meta])* $name:ident; )*) => { $(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub *mut c_void);

        impl $name {
            /// Null handle.
            pub const NULL: Self = Self(std::ptr::null_mut());

            /// True for the null handle.
            #[must_use]
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }

        // SAFETY: the handle is opaque and never dereferenced here; the driver API accepts it on
        // any thread (CUDA Programming Guide, "Driver API": handles are process-wide, only the
        // current context is per thread).
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )* };
}

handles! {
    /// `CUcontext`.
    Context;
    /// `CUstream`. Null is the legacy default stream.
    Stream;
    /// `CUevent`.
    Event;
    /// `CUmodule`.
    Module;
    /// `CUfunction`.
    Function;
    /// `CUgraph`.
    Graph;
    /// `CUmemoryPool`.
    MemoryPool;
}

/// `CUdevice`: a number assigned by the driver.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device(pub i32);

/// `CUmemGenericAllocationHandle`: physical memory from `cuMemCreate`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GenericHandle(pub u64);

/// `CUuuid`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uuid {
    /// In print order.
    pub bytes: [u8; 16],
}
const _: () = assert!(size_of::<Uuid>() == 16);

/// `CUipcMemHandle`: 64 opaque bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcMemHandle {
    /// Opaque.
    pub reserved: [u8; 64],
}
const _: () = assert!(size_of::<IpcMemHandle>() == 64);

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemLocation {
    /// Such as [`super::MEM_LOCATION_TYPE_DEVICE`].
    pub kind: u32,
    /// For a device, its `CUdevice`.
    pub id: i32,
}
const _: () = assert!(size_of::<MemLocation>() == 8 && offset_of!(MemLocation, id) == 4);

/// The nested `allocFlags` of `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAllocationFlags {
    /// `CUmemAllocationCompType`: 0 none, 1 generic.
    pub compression_type: u8,
    /// 1 to require GPUDirect RDMA support.
    pub gpu_direct_rdma_capable: u8,
    /// `CU_MEM_CREATE_USAGE_*`.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 4],
}
const _: () = {
    assert!(size_of::<MemAllocationFlags>() == 8);
    assert!(offset_of!(MemAllocationFlags, gpu_direct_rdma_capable) == 1);
    assert!(offset_of!(MemAllocationFlags, usage) == 2);
};

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemAllocationProp {
    /// [`super::MEM_ALLOCATION_TYPE_PINNED`].
    pub kind: u32,
    /// [`super::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`] or none.
    pub requested_handle_types: u32,
    /// Memory location.
    pub location: MemLocation,
    /// Null on Linux.
    pub win32_handle_meta_data: *mut c_void,
    /// Required capabilities.
    pub alloc_flags: MemAllocationFlags,
}
const _: () = {
    assert!(size_of::<MemAllocationProp>() == 32);
    assert!(offset_of!(MemAllocationProp, requested_handle_types) == 4);
    assert!(offset_of!(MemAllocationProp, location) == 8);
    assert!(offset_of!(MemAllocationProp, win32_handle_meta_data) == 16);
    assert!(offset_of!(MemAllocationProp, alloc_flags) == 24);
};

impl Default for MemAllocationProp {
    fn default() -> Self {
        Self {
            kind: 0,
            requested_handle_types: 0,
            location: MemLocation::default(),
            win32_handle_meta_data: std::ptr::null_mut(),
            alloc_flags: MemAllocationFlags::default(),
        }
    }
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAccessDesc {
    /// Location that gets access.
    pub location: MemLocation,
    /// Such as [`super::MEM_ACCESS_FLAGS_PROT_READWRITE`].
    pub flags: u32,
}
const _: () = assert!(size_of::<MemAccessDesc>() == 12 && offset_of!(MemAccessDesc, flags) == 8);

/// `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemPoolProps {
    /// [`super::MEM_ALLOCATION_TYPE_PINNED`].
    pub alloc_type: u32,
    /// [`super::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`] or none.
    pub handle_types: u32,
    /// Memory location.
    pub location: MemLocation,
    /// Null on Linux.
    pub win32_security_attributes: *mut c_void,
    /// Bytes; 0 lets the driver choose.
    pub max_size: usize,
    /// `CU_MEM_POOL_CREATE_USAGE_*`.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 54],
}
const _: () = {
    assert!(size_of::<MemPoolProps>() == 88);
    assert!(offset_of!(MemPoolProps, handle_types) == 4);
    assert!(offset_of!(MemPoolProps, location) == 8);
    assert!(offset_of!(MemPoolProps, win32_security_attributes) == 16);
    assert!(offset_of!(MemPoolProps, max_size) == 24);
    assert!(offset_of!(MemPoolProps, usage) == 32);
    assert!(offset_of!(MemPoolProps, reserved) == 34);
};

impl Default for MemPoolProps {
    fn default() -> Self {
        Self {
            alloc_type: 0,
            handle_types: 0,
            location: MemLocation::default(),
            win32_security_attributes: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

/// `CUstreamBatchMemOpParams`: a union of four structures, which all fit this layout. Waits and
/// writes have flags at offset 24, barriers and flushes at 4; a 32-bit value is the low half of the
/// 64-bit value (little-endian).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMemOp {
    /// Selects the union member, such as [`super::STREAM_MEM_OP_WAIT_VALUE_32`].
    pub operation: u32,
    /// `memoryBarrier.flags` and `flushRemoteWrites.flags`.
    pub leading_flags: u32,
    /// Address of the word.
    pub address: u64,
    /// 32- or 64-bit value.
    pub value: u64,
    /// `waitValue.flags` and `writeValue.flags`.
    pub flags: u32,
    /// Padding.
    pub pad: u32,
    /// Reserved for the driver.
    pub alias: u64,
    /// The rest of the union's `pad[6]`.
    pub tail: u64,
}
const _: () = {
    assert!(size_of::<StreamMemOp>() == 48 && align_of::<StreamMemOp>() == 8);
    assert!(offset_of!(StreamMemOp, leading_flags) == 4);
    assert!(offset_of!(StreamMemOp, address) == 8);
    assert!(offset_of!(StreamMemOp, value) == 16);
    assert!(offset_of!(StreamMemOp, flags) == 24);
    assert!(offset_of!(StreamMemOp, alias) == 32);
    assert!(cfg!(target_endian = "little"));
};
