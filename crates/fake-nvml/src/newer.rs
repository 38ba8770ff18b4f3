//! Functions that an old library lacks: crate `fakes` hides them.

use std::ffi::{c_uchar, c_uint};

use serde_json::Value;

use crate::answer::{answer, gpu, number, numbers, put};
use crate::layout::{
    ARGUMENT_VERSION_MISMATCH, ConfidentialSettings, ConfidentialState, Device, FabricInfo,
    FabricInfoV2, FabricInfoV3, NOT_SUPPORTED, Return,
};
use crate::machine::MACHINE;

numbers! {
    nvmlDeviceGetNumaNodeId = "numa_node";
    nvmlDeviceGetVirtualizationMode = "virtualization";
    nvmlDeviceGetArchitecture = "architecture";
}

/// `mig` is current and pending.
///
/// # Safety
///
/// Both pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    answer("nvmlDeviceGetMigMode", || {
        let mig = gpu(device, "mig")?;
        // SAFETY: the caller's guarantee.
        unsafe {
            put(current, number(&mig[0])?)?;
            put(pending, number(&mig[1])?)
        }
    })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfo(
    device: Device,
    out: *mut FabricInfo,
) -> Return {
    answer("nvmlDeviceGetGpuFabricInfo", || {
        let fabric = gpu(device, "fabric")?;
        let info = FabricInfo {
            cluster_uuid: uuid(fabric),
            status: number(&fabric["status"])?,
            clique_id: number(&fabric["clique_id"])?,
            state: small(&fabric["state"])?,
        };
        // SAFETY: the caller's guarantee.
        unsafe { put(out, info) }
    })
}

/// Supports structures up to the fabric's `version` (default 3).
///
/// # Safety
///
/// `out` is null or points to a versioned structure with its version set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(
    device: Device,
    out: *mut FabricInfoV2,
) -> Return {
    answer("nvmlDeviceGetGpuFabricInfoV", || {
        let fabric = gpu(device, "fabric")?;
        let newest = number(&fabric["version"]).unwrap_or(3);
        // SAFETY: the caller's guarantee; both structures start with the version.
        let asked =
            unsafe { out.cast::<c_uint>().as_ref() }.copied().ok_or(ARGUMENT_VERSION_MISMATCH)?;
        let v2 = FabricInfoV2 {
            version: asked,
            cluster_uuid: uuid(fabric),
            status: number(&fabric["status"])?,
            clique_id: number(&fabric["clique_id"])?,
            state: small(&fabric["state"])?,
            health_mask: number(&fabric["health_mask"]).unwrap_or(0),
        };
        match asked {
            // NVML_STRUCT_VERSION: size, and version in the top byte.
            0x0300_0028 if newest >= 3 => {
                let health_summary = small(&fabric["health_summary"]).unwrap_or(0);
                // SAFETY: the version says which structure the caller passed.
                unsafe { put(out.cast(), FabricInfoV3 { v2, health_summary }) }
            }
            // SAFETY: the version says which structure the caller passed.
            0x0200_0024 if newest >= 2 => unsafe { put(out, v2) },
            _ => Err(ARGUMENT_VERSION_MISMATCH),
        }
    })
}

fn small(value: &Value) -> Result<c_uchar, Return> {
    number(value).and_then(|value| c_uchar::try_from(value).map_err(|_| NOT_SUPPORTED))
}

/// The digits of `cluster_uuid` without dashes; zeros without one.
fn uuid(fabric: &Value) -> [c_uchar; 16] {
    let digits: String = fabric["cluster_uuid"].as_str().unwrap_or_default().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or_default().to_be_bytes()
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetConfComputeState(out: *mut ConfidentialState) -> Return {
    answer("nvmlSystemGetConfComputeState", || {
        let state = ConfidentialState {
            environment: confidential("environment")?,
            cc_feature: confidential("feature")?,
            dev_tools_mode: confidential("devtools")?,
        };
        // SAFETY: the caller's guarantee.
        unsafe { put(out, state) }
    })
}

/// Supports version 1 of the structure.
///
/// # Safety
///
/// `out` is null or points to a structure with its version set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetConfComputeSettings(
    out: *mut ConfidentialSettings,
) -> Return {
    answer("nvmlSystemGetConfComputeSettings", || {
        // SAFETY: the caller's guarantee.
        let version = unsafe { out.as_ref() }.map(|settings| settings.version);
        if version != Some(0x0100_0014) {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let settings = ConfidentialSettings {
            version: 0x0100_0014,
            environment: confidential("environment")?,
            cc_feature: confidential("feature")?,
            dev_tools_mode: confidential("devtools")?,
            multi_gpu_mode: confidential("multi_gpu")?,
        };
        // SAFETY: the caller's guarantee; the version was checked.
        unsafe { put(out, settings) }
    })
}

fn confidential(key: &str) -> Result<c_uint, Return> {
    number(&MACHINE["confidential_compute"][key])
}
