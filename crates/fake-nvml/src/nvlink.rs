//! NVLinks: a GPU without `links` has none; past the last one the argument is invalid.

use std::ffi::c_uint;

use serde_json::Value;

use crate::answer::{answer, index, number, put};
use crate::device::address;
use crate::layout::{Device, INVALID_ARGUMENT, NOT_SUPPORTED, PciInfo, Return};
use crate::machine::{self, MACHINE};

fn link(device: Device, link: c_uint) -> Result<&'static Value, Return> {
    let index = index(device)?;
    if MACHINE.gpu(index, "links").is_none() {
        // NVML_NVLINK_MAX_LINKS of nvml.h 13.
        return Err(if link < 18 { NOT_SUPPORTED } else { INVALID_ARGUMENT });
    }
    machine::link(index, link).ok_or(INVALID_ARGUMENT)
}

macro_rules! link_numbers {
    ($( $function:ident = $key:literal; )*) => { $(
        #[doc = concat!("nvml.h's function, answered by a link's `", $key, "`.\n\n# Safety\n\n`out` is null or valid for a write.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: Device, which: c_uint, out: *mut c_uint) -> Return {
            // SAFETY: the caller's guarantee.
            answer(stringify!($function), || unsafe { put(out, number(&link(device, which)?[$key])?) })
        }
    )* };
}

link_numbers! {
    nvmlDeviceGetNvLinkState = "active";
    nvmlDeviceGetNvLinkVersion = "version";
    nvmlDeviceGetNvLinkRemoteDeviceType = "remote_type";
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: Device,
    which: c_uint,
    out: *mut PciInfo,
) -> Return {
    answer("nvmlDeviceGetNvLinkRemotePciInfo_v2", || {
        let bdf = link(device, which)?["remote_bdf"].as_str().ok_or(NOT_SUPPORTED)?;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, address(bdf)) }
    })
}
