//! `gds_query_param`.

use std::ffi::c_int;

use crate::call_error::CallError;
use crate::{abi, guard};

/// Queries a `gds_param_t`: for `GDS_PARAM_VERSION`, major << 16 | minor of this interface. `EINVAL` for other parameters.
///
/// # Safety
///
/// `value` is NULL (`EINVAL`) or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_query_param(param: u32, value: *mut c_int) -> c_int {
    guard::call("gds_query_param", || {
        if value.is_null() {
            return Err(CallError::Null { what: "value" });
        }
        if param != abi::PARAM_VERSION {
            return Err(CallError::Value { of: "gds_param_t", value: param.into() });
        }
        // SAFETY: not NULL; the caller promises that it is writable.
        unsafe { value.write(abi::API_VERSION) };
        Ok(())
    })
}
