//! Table of copy kernels: name, access widths and CPU support.
//!
//! A kernel only moves bytes. [`Copier`](super::Copier) adds fences, threads and the choice of
//! kernel.

use super::plan::{LINE, walk};

/// Copy kernel: a pair of assembly functions, one for each direction.
pub struct Kernel {
    pub(super) name: &'static str,
    pub(super) load: usize,
    pub(super) store: usize,
    pub(super) named_only: bool,
    pub(super) supported: fn() -> bool,
    pub(super) write: Move,
    pub(super) read: Move,
}

/// `(destination, source, bytes)`.
pub(super) type Move = unsafe fn(*mut u8, *const u8, usize);

/// All kernels compiled for this architecture, simplest first. [`Kernel::supported`] tells which run
/// on this CPU.
pub fn kernels() -> &'static [Kernel] {
    super::arch::KERNELS
}

/// Kernel by name, even if this CPU does not support it.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    kernels().iter().find(|kernel| kernel.name == name)
}

impl Kernel {
    /// Name for `GDR_COPY_KERNEL=`: `portable`, `sse41`, `avx2`, `avx512`, `movdir64b`, `neon`,
    /// `sve`, `ls64`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// True if the CPU and operating system support it.
    pub fn supported(&self) -> bool {
        (self.supported)()
    }

    /// True if it is used only when named. True for `ls64`, which has been assembled but never run
    /// for lack of hardware.
    pub fn named_only(&self) -> bool {
        self.named_only
    }

    /// Stores `len` bytes to device memory, without a fence.
    ///
    /// # Safety
    /// The kernel is [`supported`](Self::supported); `host` is readable and `device` writable for
    /// `len` bytes; they do not overlap; no other thread writes the host bytes meanwhile.
    #[inline]
    pub unsafe fn write(&self, device: *mut u8, host: *const u8, len: usize) {
        // SAFETY: the caller guarantees the kernel's conditions.
        unsafe { (self.write)(device, host, len) }
    }

    /// Loads `len` bytes of device memory, without fences.
    ///
    /// # Safety
    /// As [`write`](Self::write), with directions swapped.
    #[inline]
    pub unsafe fn read(&self, host: *mut u8, device: *const u8, len: usize) {
        // SAFETY: the caller guarantees the kernel's conditions.
        unsafe { (self.read)(host, device, len) }
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("load", &self.load)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Instructions of one kernel in one direction. Each function copies its size from `source` to
/// `destination`; the device side is aligned to that size (lines: to 64), the host side need not
/// be.
///
/// # Safety
/// An implementation accesses exactly those bytes, each once, with naturally aligned device
/// accesses. Callers guarantee that the CPU has the instructions and both sides are valid.
pub(super) unsafe trait Instructions {
    unsafe fn one(destination: *mut u8, source: *const u8);
    unsafe fn two(destination: *mut u8, source: *const u8);
    unsafe fn four(destination: *mut u8, source: *const u8);
    unsafe fn eight(destination: *mut u8, source: *const u8);
    unsafe fn sixteen(destination: *mut u8, source: *const u8);
    unsafe fn thirty_two(destination: *mut u8, source: *const u8);
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize);
}

/// Copies to device memory by the plan with instructions `I`.
///
/// # Safety
/// As [`Kernel::write`].
pub(super) unsafe fn write<I: Instructions>(device: *mut u8, host: *const u8, len: usize) {
    // SAFETY: guaranteed by the caller; `device` is the side the plan aligns.
    unsafe { drive::<I>(device, host, len, device.addr()) }
}

/// Copies from device memory by the plan with instructions `I`.
///
/// # Safety
/// As [`Kernel::read`].
pub(super) unsafe fn read<I: Instructions>(host: *mut u8, device: *const u8, len: usize) {
    // SAFETY: guaranteed by the caller; `device` is the side the plan aligns.
    unsafe { drive::<I>(host, device, len, device.addr()) }
}

/// # Safety
/// Both sides are valid for `len` bytes, `address` is the device address, the CPU has `I`.
#[inline(always)]
unsafe fn drive<I: Instructions>(
    destination: *mut u8,
    source: *const u8,
    len: usize,
    address: usize,
) {
    walk(address, len, |step| {
        // SAFETY: `walk` keeps each step within `len`, with a device address that is a multiple of
        // its width.
        unsafe {
            let (destination, source) = (destination.add(step.offset), source.add(step.offset));
            match step.width {
                1 => I::one(destination, source),
                2 => I::two(destination, source),
                4 => I::four(destination, source),
                8 => I::eight(destination, source),
                16 => I::sixteen(destination, source),
                32 => I::thirty_two(destination, source),
                LINE => I::lines(destination, source, step.count),
                width => unreachable!("walk makes no access of {width} bytes"),
            }
        }
    });
}
