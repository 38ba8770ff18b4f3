//! NVLinks: a GPU without `links` has none; past the last one the argument is invalid.

use std::ffi::{c_int, c_uint};

use serde_json::Value;

use crate::answer::{answer, gpu, index, number, put};
use crate::device::address;
use crate::layout::{
    Device, FieldValue, INVALID_ARGUMENT, NOT_SUPPORTED, PciInfo, Return, SUCCESS,
};
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

/// `fields` has values by number (`"38"`), and of a link by number and link (`"219/3"`).
///
/// # Safety
///
/// `values` is null or valid for reads and writes of `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: c_int,
    values: *mut FieldValue,
) -> Return {
    answer("nvmlDeviceGetFieldValues", || {
        index(device)?;
        for at in 0..usize::try_from(count).map_err(|_| INVALID_ARGUMENT)? {
            // SAFETY: the caller's guarantee.
            let value = unsafe { values.wrapping_add(at).as_mut() }.ok_or(INVALID_ARGUMENT)?;
            // So does the library of driver 580.159.
            if value.result == NOT_SUPPORTED {
                continue;
            }
            let fields = gpu(device, "fields").unwrap_or(&Value::Null);
            let of_link = &fields[format!("{}/{}", value.field, value.scope)];
            let of_gpu = &fields[value.field.to_string()];
            match of_link.as_u64().or(of_gpu.as_u64()) {
                Some(number) => {
                    (value.value, value.value_type, value.result) = (number, 3, SUCCESS);
                }
                None => value.result = NOT_SUPPORTED,
            }
        }
        Ok(())
    })
}
