//! The library as C programs get it, with two functions more that hand out SIMULATED device memory: for the tests only,
//! never installed.
pub use gdrapi::*;
use std::ffi::c_ulong;
/// stub
#[unsafe(no_mangle)]
pub extern "C" fn gdr_sim_allocate(bytes: usize) -> c_ulong {
    gdrcopy::sim_allocate(bytes)
}
/// stub
#[unsafe(no_mangle)]
pub extern "C" fn gdr_sim_free(address: c_ulong) {
    gdrcopy::sim_free(address)
}
