//! The copy for mappings that are ordinary, coherent memory.

/// The C library's memcpy. Never inlined, so that the compiler sees a call with unknown addresses
/// and leaves the bytes, which a device may change at any time, to the library.
///
/// # Safety
/// As a kernel's: both sides valid for `len` bytes, no overlap.
#[inline(never)]
pub(super) unsafe fn copy(destination: *mut u8, source: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::memcpy(destination.cast(), source.cast(), len) };
}
