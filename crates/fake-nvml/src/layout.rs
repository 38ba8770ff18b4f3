//! nvml.h 13's structures.

use std::ffi::{c_char, c_longlong, c_uchar, c_uint, c_ulonglong};

/// `nvmlReturn_t`.
pub type Return = c_uint;

pub const SUCCESS: Return = 0;
pub const INVALID_ARGUMENT: Return = 2;
pub const NOT_SUPPORTED: Return = 3;
pub const INSUFFICIENT_SIZE: Return = 7;
pub const ARGUMENT_VERSION_MISMATCH: Return = 25;

/// `nvmlDevice_t`: opaque to the caller; here the index plus one.
pub type Device = usize;

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    pub bus_id_legacy: [c_char; 16],
    pub domain: c_uint,
    pub bus: c_uint,
    pub device: c_uint,
    pub pci_device_id: c_uint,
    pub pci_subsystem_id: c_uint,
    pub bus_id: [c_char; 32],
}

/// `nvmlMemory_t` and `nvmlBAR1Memory_t`: bytes.
#[repr(C)]
pub struct Memory {
    pub total: c_ulonglong,
    pub free: c_ulonglong,
    pub used: c_ulonglong,
}

/// `nvmlFieldValue_t`.
#[repr(C)]
pub struct FieldValue {
    pub field: c_uint,
    /// The link, for a field of one link.
    pub scope: c_uint,
    pub timestamp: c_longlong,
    pub latency: c_longlong,
    /// 1 `unsigned int`, 3 `unsigned long long`.
    pub value_type: c_uint,
    pub result: Return,
    /// A union; little-endian, so a smaller member is its low bytes.
    pub value: c_ulonglong,
}

/// `nvmlConfComputeSystemState_t`.
#[repr(C)]
pub struct ConfidentialState {
    pub environment: c_uint,
    pub cc_feature: c_uint,
    pub dev_tools_mode: c_uint,
}

/// `nvmlSystemConfComputeSettings_v1_t`.
#[repr(C)]
pub struct ConfidentialSettings {
    pub version: c_uint,
    pub environment: c_uint,
    pub cc_feature: c_uint,
    pub dev_tools_mode: c_uint,
    pub multi_gpu_mode: c_uint,
}

/// `nvmlGpuFabricInfo_t`.
#[repr(C)]
pub struct FabricInfo {
    pub cluster_uuid: [c_uchar; 16],
    pub status: Return,
    pub clique_id: c_uint,
    pub state: c_uchar,
}

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
pub struct FabricInfoV2 {
    pub version: c_uint,
    pub cluster_uuid: [c_uchar; 16],
    pub status: Return,
    pub clique_id: c_uint,
    pub state: c_uchar,
    pub health_mask: c_uint,
}

/// `nvmlGpuFabricInfo_v3_t`.
#[repr(C)]
pub struct FabricInfoV3 {
    pub v2: FabricInfoV2,
    pub health_summary: c_uchar,
}

// Sizes from nvml.h's version macros on a 64-bit machine.
const _: () = assert!(size_of::<PciInfo>() == 68 && size_of::<FieldValue>() == 40);
const _: () = assert!(size_of::<FabricInfoV2>() == 36 && size_of::<FabricInfoV3>() == 40);
