//! Status strings.

use std::ffi::{CStr, c_char};

use crate::answer::infallible;

/// Strings of libibverbs, indexed by verbs.h's `enum ibv_wc_status`.
const TEXTS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: u32) -> *const c_char {
    let text = infallible("ibv_wc_status_str", c"unknown", || {
        let text = usize::try_from(status).ok().and_then(|at| TEXTS.get(at));
        Ok(text.copied().unwrap_or(c"unknown"))
    });
    text.as_ptr()
}
