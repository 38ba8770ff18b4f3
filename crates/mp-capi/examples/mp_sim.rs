//! The library for the SIMULATED CUDA (crate `fake-cuda`), whose GPU memory the CPU accesses at GPU addresses. Only for the programs in
//! `tests/c`, never installed.

// Links the library's functions.
pub use mp_capi::mp_query_param;

/// Programs call this first.
#[unsafe(no_mangle)]
pub extern "C" fn mp_sim_begin() {
    mp_capi::simulate();
}
