//! The library as C programs get it, for a SIMULATED CUDA (crate `fake-cuda`), whose GPU memory the CPU reaches at the GPU's own
//! addresses: for the programs under `tests/c` only, never installed.

// Without a use of it the library's functions would not be linked in.
pub use gdsync_capi::gds_query_param;

/// Programs call it first.
#[unsafe(no_mangle)]
pub extern "C" fn gds_sim_begin() {
    gdsync_capi::simulate();
}
