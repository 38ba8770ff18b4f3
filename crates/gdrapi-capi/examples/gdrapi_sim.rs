//! The C library with four further functions that allocate and access SIMULATED device memory, for
//! the programs in `tests/c`; never installed.

use std::collections::HashMap;
use std::ffi::{c_int, c_ulong, c_void};
use std::sync::{Mutex, OnceLock};

use gpu::{Allocation, DeviceMemory, DevicePtr, Gpu, sim};

// Links in the library's functions.
pub use gdrapi::gdr_open;

static GPU: OnceLock<Gpu> = OnceLock::new();
static ALLOCATIONS: Mutex<Option<HashMap<u64, DeviceMemory>>> = Mutex::new(None);

/// Device memory like from `cuMemAlloc`: aligned to 512, but not to a page; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn gdr_sim_allocate(bytes: usize) -> c_ulong {
    let gpu = GPU.get_or_init(Gpu::sim);
    let Ok(memory) = gpu.allocate(Allocation::Malloc, bytes) else {
        return 0;
    };
    let address = memory.address().get();
    let mut allocations = ALLOCATIONS.lock().expect("no panic under the lock");
    allocations.get_or_insert_default().insert(address, memory);
    address
}

/// Frees it, even if pinned or mapped.
#[unsafe(no_mangle)]
pub extern "C" fn gdr_sim_free(address: c_ulong) {
    let mut allocations = ALLOCATIONS.lock().expect("no panic under the lock");
    drop(allocations.get_or_insert_default().remove(&address));
}

/// Reads memory as the simulated GPU sees it; 0, or -1 for an address that is not allocated.
///
/// # Safety
///
/// `bytes` bytes at `into` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdr_sim_read(address: c_ulong, into: *mut c_void, bytes: usize) -> c_int {
    let Some(located) = sim::locate(DevicePtr::new(address)) else {
        return -1;
    };
    // SAFETY: the caller guarantees that these bytes are writable; C memory counts as initialised.
    let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
    match rustix::io::pread(&located.file, into, located.offset) {
        Ok(read) if read == bytes => 0,
        _ => -1,
    }
}

/// Sets the simulated GPU's memory to `value`; 0, or -1 for an address that is not allocated.
#[unsafe(no_mangle)]
pub extern "C" fn gdr_sim_fill(address: c_ulong, value: u8, bytes: usize) -> c_int {
    let Some(located) = sim::locate(DevicePtr::new(address)) else {
        return -1;
    };
    match rustix::io::pwrite(&located.file, &vec![value; bytes], located.offset) {
        Ok(written) if written == bytes => 0,
        _ => -1,
    }
}
