//! `gdr_copy_to_mapping` and `gdr_copy_from_mapping`: the two functions whose cost is counted in nanoseconds.

use std::ffi::{c_int, c_void};

use crate::abi::Handle;
use crate::refusal::Refusal;
use crate::{copies, guard};

/// Copies `size` bytes from host memory into a mapping; all of them, or none and `EINVAL`.
///
/// `map_d_ptr` may be any address in the mapping of `handle`. When the call returns, the bytes have left the CPU's
/// write-combining buffers.
///
/// # Safety
///
/// `h_ptr` is NULL or `size` bytes that can be read. The handle is not unmapped, unpinned or its session closed while the
/// call runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdr_copy_to_mapping(
    handle: Handle,
    map_d_ptr: *mut c_void,
    h_ptr: *const c_void,
    size: usize,
) -> c_int {
    let (device, host) = (map_d_ptr.addr(), h_ptr.addr());
    let Some(copier) = copies::admit(handle.h, device, host, size) else {
        return refused("gdr_copy_to_mapping", handle, device, host, size);
    };
    // SAFETY: `admit` found the `size` bytes from `map_d_ptr` on in a live mapping and the copier made for it, which both
    // stay while the call runs; the caller promises the host's bytes.
    let done = guard::silently(|| unsafe { copier.as_ref().to_device(map_d_ptr.cast(), h_ptr.cast(), size) });
    copies::settle();
    if done { 0 } else { panicked("gdr_copy_to_mapping") }
}

/// Copies `size` bytes from a mapping into host memory; all of them, or none and `EINVAL`.
///
/// `map_d_ptr` may be any address in the mapping of `handle`.
///
/// # Safety
///
/// `h_ptr` is NULL or `size` bytes that can be written. The handle is not unmapped, unpinned or its session closed while
/// the call runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdr_copy_from_mapping(
    handle: Handle,
    h_ptr: *mut c_void,
    map_d_ptr: *const c_void,
    size: usize,
) -> c_int {
    let (device, host) = (map_d_ptr.addr(), h_ptr.addr());
    let Some(copier) = copies::admit(handle.h, device, host, size) else {
        return refused("gdr_copy_from_mapping", handle, device, host, size);
    };
    // SAFETY: `admit` found the `size` bytes from `map_d_ptr` on in a live mapping and the copier made for it, which both
    // stay while the call runs; the caller promises room on the host for as many.
    let done = guard::silently(|| unsafe { copier.as_ref().from_device(h_ptr.cast(), map_d_ptr.cast(), size) });
    copies::settle();
    if done { 0 } else { panicked("gdr_copy_from_mapping") }
}

#[cold]
#[inline(never)]
fn refused(function: &'static str, handle: Handle, device: usize, host: usize, bytes: usize) -> c_int {
    guard::call(function, || copies::refused(handle.h, device, host, bytes))
}

#[cold]
#[inline(never)]
fn panicked(function: &'static str) -> c_int {
    guard::call(function, || Err(Refusal::Panicked))
}
