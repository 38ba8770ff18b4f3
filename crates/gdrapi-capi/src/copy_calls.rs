//! `gdr_copy_to_mapping` and `gdr_copy_from_mapping`: the two functions whose cost is counted in
//! nanoseconds.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use gdrcopy::copy::{Caching, Copier, fence};

use crate::abi::Handle;
use crate::{copies, guard};

/// Copies of up to this many bytes go straight to the kernel: the copier would share none of them
/// among threads, and what stands around it for longer copies costs a short one three nanoseconds
/// of its hundred.
const SHORT: usize = 4096;

/// Reads of up to this many bytes may be one load, which is not a streaming one.
const WORD: usize = 8;

/// Copies `size` bytes from host memory into a mapping; all of them, or none and `EINVAL`.
///
/// `map_d_ptr` may be any address in the mapping of `handle`. When the call returns, the bytes have
/// left the CPU's write-combining buffers.
///
/// # Safety
///
/// `h_ptr` is NULL or `size` bytes that can be read. The handle is not unmapped, unpinned or its
/// session closed while the call runs.
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
    if size > SHORT {
        // SAFETY: `admit` found the `size` bytes from `map_d_ptr` on in a live mapping and the
        // copier made for it, which both stay while the call runs; the caller promises the host's
        // bytes.
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
/// `h_ptr` is NULL or `size` bytes that can be written. The handle is not unmapped, unpinned or its
/// session closed while the call runs.
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
    if size > SHORT {
        // SAFETY: `admit` found the `size` bytes from `map_d_ptr` on in a live mapping and the
        // copier made for it, which both stay while the call runs; the caller promises room on the
        // host for as many.
        return unsafe { long_read(copier, h_ptr.cast(), map_d_ptr.cast(), size) };
    }
    // SAFETY: as above. No kernel unwinds.
    let copier = unsafe { copier.as_ref() };
    // SAFETY: as above.
    unsafe { copier.from_device_part(h_ptr.cast(), map_d_ptr.cast(), size) };
    if copies::mixed() {
        fence::all();
    } else if size > WORD && copier.caching() == Caching::WriteCombining {
        // As `Copier::from_device`: a loop that reads the same record is not to be answered from
        // the last turn's lines for ever. Single loads are never streamed.
        fence::writes();
    }
    0
}

/// # Safety
///
/// As [`Copier::to_device`], and of the copier that it is there.
#[inline(never)]
unsafe fn long_write(
    copier: NonNull<Copier>,
    device: *mut u8,
    host: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    settled("gdr_copy_to_mapping", || unsafe {
        copier.as_ref().to_device(device, host, bytes);
    })
}

/// # Safety
///
/// As [`Copier::from_device`], and of the copier that it is there.
#[inline(never)]
unsafe fn long_read(
    copier: NonNull<Copier>,
    host: *mut u8,
    device: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
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
fn refused(
    function: &'static str,
    handle: Handle,
    device: usize,
    host: usize,
    bytes: usize,
) -> c_int {
    guard::call(function, || copies::refused(handle.h, device, host, bytes))
}
