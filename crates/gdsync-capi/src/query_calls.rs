//! What can be asked of the library.

use std::ffi::c_int;

use crate::call_error::CallError;
use crate::{abi, guard};

/// Asks for a `gds_param_t`: of `GDS_PARAM_VERSION`, major << 16 | minor of this interface. `EINVAL` for any other number.
///
/// # Safety
///
/// `value` is NULL (`EINVAL`) or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_query_param(param: u32, value: *mut c_int) -> c_int {
    guard::call("gds_query_param", || {
        if value.is_null() {
            return Err(CallError::Null { what: "value" });
        }
        if param != abi::PARAM_VERSION {
            return Err(CallError::Value {
                of: "gds_param_t",
                value: param.into(),
            });
        }
        // SAFETY: not NULL, and so the caller promises that it can be written to.
        unsafe { value.write(abi::API_VERSION) };
        Ok(())
    })
}
