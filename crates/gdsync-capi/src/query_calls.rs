//! `gds_query_param`.

use std::ffi::c_int;

use gdr_sys::exports;

use crate::call_error::CallError;
use crate::{abi, flags, guard};

exports!(
    use guard::call;

    /// Queries a `gds_param_t`: for `GDS_PARAM_VERSION`, major << 16 | minor of this interface. `EINVAL` for other parameters.
    ///
    /// # Safety
    ///
    /// `value` is NULL (`EINVAL`) or writable.
    pub unsafe fn gds_query_param(param: u32, value: *mut c_int) -> c_int {
        flags::not_null("value", value)?;
        if param != abi::PARAM_VERSION {
            return Err(CallError::Value { of: "gds_param_t", value: param.into() });
        }
        // SAFETY: not NULL; the caller promises that it is writable.
        unsafe { value.write(abi::API_VERSION) };
        Ok(())
    }
);
