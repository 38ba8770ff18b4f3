//! Kernel of other architectures: naturally aligned volatile accesses of up to 8 bytes.

use std::ptr;
use std::sync::atomic::{Ordering, fence};

use super::kernel::{Instructions, Kernel, read, write};

pub(super) static KERNELS: &[Kernel] = &[Kernel {
    name: "portable",
    load: 8,
    store: 8,
    named_only: false,
    supported: || true,
    write: write::<Store>,
    read: read::<Load>,
}];

/// Default kernels without a measurement, best first: (writes, reads).
pub(super) fn preferred() -> (&'static [&'static str], &'static [&'static str]) {
    (&["portable"], &["portable"])
}

/// True if [`preferred`] rests on measurements of this kind of CPU.
pub(super) fn is_preference_measured() -> bool {
    false
}

/// Stores 8 bytes by one access.
///
/// # Safety
/// `host` is readable and `device` writable for 8 bytes; `device` is a multiple of 8.
#[inline(always)]
pub(super) unsafe fn store_word(device: *mut u8, host: *const u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { Store::eight(device, host) }
}

#[inline(always)]
pub(super) fn fence_writes() {
    fence(Ordering::SeqCst);
}

#[inline(always)]
pub(super) fn fence_reads() {
    fence(Ordering::SeqCst);
}

#[inline(always)]
pub(super) fn fence_all() {
    fence(Ordering::SeqCst);
}

struct Store;
struct Load;

macro_rules! accesses {
    (store: $($name:ident $type:ty),+) => {$(
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller guarantees both sides valid and the destination, the device,
            // aligned.
            unsafe { ptr::write_volatile(destination.cast::<$type>(), ptr::read_unaligned(source.cast::<$type>())) }
        }
    )+};
    (load: $($name:ident $type:ty),+) => {$(
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller guarantees both sides valid and the source, the device, aligned.
            unsafe { ptr::write_unaligned(destination.cast::<$type>(), ptr::read_volatile(source.cast::<$type>())) }
        }
    )+};
}

macro_rules! in_eights {
    ($($name:ident $bytes:literal),+) => {
        $(
            #[inline(always)]
            unsafe fn $name(destination: *mut u8, source: *const u8) {
                // SAFETY: the 8-byte words of an access lie within it, with its alignment.
                unsafe { (0..$bytes).step_by(8).for_each(|at| Self::eight(destination.add(at), source.add(at))) }
            }
        )+

        #[inline(always)]
        unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
            // SAFETY: the 8-byte words of the lines lie within them, with their alignment.
            unsafe { (0..count * 64).step_by(8).for_each(|at| Self::eight(destination.add(at), source.add(at))) }
        }
    };
}

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for Store {
    accesses!(store: one u8, two u16, four u32, eight u64);
    in_eights!(sixteen 16, thirty_two 32);
}

// SAFETY: as above.
unsafe impl Instructions for Load {
    accesses!(load: one u8, two u16, four u32, eight u64);
    in_eights!(sixteen 16, thirty_two 32);
}
