//! Copy for mappings that are ordinary, coherent memory.

/// The C library's memcpy. Never inlined: the compiler must not access bytes that a device may
/// change at any time.
///
/// # Safety
/// Like a kernel: both sides valid for `len` bytes, no overlap.
#[inline(never)]
pub(super) unsafe fn copy(destination: *mut u8, source: *const u8, len: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::memcpy(destination.cast(), source.cast(), len) };
}
