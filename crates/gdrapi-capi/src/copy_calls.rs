//! `gdr_copy_to_mapping` and `gdr_copy_from_mapping`, which must cost nanoseconds.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use gdrcopy::copy::{Caching, Copier, fence};

use crate::abi::Handle;
use crate::{copies, guard};

/// Copies of up to this many bytes call the kernel directly: they never use several threads, and
/// the checks for longer copies cost three of a hundred nanoseconds.
const SHORT: usize = 4096;

/// Reads of up to this many bytes may be one non-streaming load.
const WORD: usize = 8;

/// Copies `size` bytes from host memory into a mapping; all of them, or none and `EINVAL`.
///
/// `map_d_ptr` may be any address in the mapping of `handle`. On return, the bytes have left the
/// CPU's write-combining buffers.
///
/// # Safety
///
/// `h_ptr` is NULL or `size` readable bytes. The handle is not unmapped or unpinned and its session
/// not closed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdr_copy_to_mapping(
    handle: Handle,
    map_d_ptr: *mut c_void,
    h_ptr: *const c_void,
    size: usize,
) -> c_int {
    let (device, host) = (map_d_ptr.addr(), h_ptr.addr());
    let Some(copier) = copies::admit(handle.h, device, host, size) else {
        return fail("gdr_copy_to_mapping", handle, device, host, size);
    };
    if size > SHORT {
        // SAFETY: `admit` found the `size` bytes at `map_d_ptr` in a live mapping with its copier,
        // which both stay during the call; the caller guarantees the host bytes.
        return unsafe { long_write(copier, map_d_ptr.cast(), h_ptr.cast(), size) };
    }
    // SAFETY: as above.
    let copier = unsafe { copier.as_ref() };
    let held_back = copier.caching() != Caching::Cached;
    // SAFETY: as above. No kernel unwinds.
    unsafe { copier.to_device_part(map_d_ptr.cast(), h_ptr.cast(), size) };
    if copies::mixed() {
        fence::all();
    } else if held_back {
        fence::writes();
    }
    0
}

/// Copies `size` bytes from a mapping into host memory; all of them, or none and `EINVAL`.
///
/// `map_d_ptr` may be any address in the mapping of `handle`.
///
/// # Safety
///
/// `h_ptr` is NULL or `size` writable bytes. The handle is not unmapped or unpinned and its session
/// not closed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdr_copy_from_mapping(
    handle: Handle,
    h_ptr: *mut c_void,
    map_d_ptr: *const c_void,
    size: usize,
) -> c_int {
    let (device, host) = (map_d_ptr.addr(), h_ptr.addr());
    let Some(copier) = copies::admit(handle.h, device, host, size) else {
        return fail("gdr_copy_from_mapping", handle, device, host, size);
    };
    if size > SHORT {
        // SAFETY: `admit` found the `size` bytes at `map_d_ptr` in a live mapping with its copier,
        // which both stay during the call; the caller guarantees the host bytes.
        return unsafe { long_read(copier, h_ptr.cast(), map_d_ptr.cast(), size) };
    }
    // SAFETY: as above. No kernel unwinds.
    let copier = unsafe { copier.as_ref() };
    // SAFETY: as above.
    unsafe { copier.from_device_part(h_ptr.cast(), map_d_ptr.cast(), size) };
    if copies::mixed() {
        fence::all();
    } else if size > WORD && copier.caching() == Caching::WriteCombining {
        // Like `Copier::from_device`: a loop that reads the same record must not hit the streaming
        // buffers for ever. Single loads are never streamed.
        fence::writes();
    }
    0
}

/// # Safety
///
/// As [`Copier::to_device`]; the copier exists.
#[inline(never)]
unsafe fn long_write(
    copier: NonNull<Copier>,
    device: *mut u8,
    host: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    settled("gdr_copy_to_mapping", || unsafe {
        copier.as_ref().to_device(device, host, bytes);
    })
}

/// # Safety
///
/// As [`Copier::from_device`]; the copier exists.
#[inline(never)]
unsafe fn long_read(
    copier: NonNull<Copier>,
    host: *mut u8,
    device: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    settled("gdr_copy_from_mapping", || unsafe {
        copier.as_ref().from_device(host, device, bytes);
    })
}

fn settled(function: &'static str, copy: impl FnOnce()) -> c_int {
    guard::call(function, || {
        copy();
        if copies::mixed() {
            fence::all();
        }
        Ok(())
    })
}

#[cold]
#[inline(never)]
fn fail(function: &'static str, handle: Handle, device: usize, host: usize, bytes: usize) -> c_int {
    guard::call(function, || copies::copy_error(handle.h, device, host, bytes))
}
