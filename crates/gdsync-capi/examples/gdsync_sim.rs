//! The library for the SIMULATED CUDA (crate `fake-cuda`), whose GPU memory the CPU accesses at GPU addresses. Only for the programs in
//! `tests/c`, never installed.

// Links the library's functions.
pub use gdsync_capi::gds_query_param;

/// Programs call this first.
#[unsafe(no_mangle)]
pub extern "C" fn gds_sim_begin() {
    gdsync_capi::simulate();
}
