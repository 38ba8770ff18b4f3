//! The table of copy kernels: for each its name, the widths of its accesses, and whether this CPU has it.
//!
//! A kernel moves bytes and nothing else: no fence, no thread, no choice. Those are [`Copier`](super::Copier)'s.

use super::plan::{LINE, walk};

/// One way to copy: a pair of functions made of this crate's own instructions, one a direction.
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

/// Every kernel compiled for this architecture, the plainest first. Which of them run here, [`Kernel::supported`] tells.
pub fn kernels() -> &'static [Kernel] {
    super::arch::KERNELS
}

/// The kernel of that name, whether or not this CPU has it.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    kernels().iter().find(|kernel| kernel.name == name)
}

impl Kernel {
    /// The name `GDR_COPY_KERNEL=` takes: `portable`, `sse41`, `avx2`, `avx512`, `movdir64b`, `neon`, `ls64`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes of its widest load from device memory.
    pub fn load_unit(&self) -> usize {
        self.load
    }

    /// Bytes of its widest store to device memory.
    pub fn store_unit(&self) -> usize {
        self.store
    }

    /// Whether this CPU and its operating system can run it.
    pub fn supported(&self) -> bool {
        (self.supported)()
    }

    /// Whether it is never chosen unless named. True for `ls64`, which has been assembled but never run: nobody here
    /// has had a CPU with it.
    pub fn named_only(&self) -> bool {
        self.named_only
    }

    /// Stores `len` bytes to device memory. Ends without a fence.
    ///
    /// # Safety
    /// The kernel is [`supported`](Self::supported); `host` is readable and `device` writable for `len` bytes; they do
    /// not overlap; nobody else writes those host bytes meanwhile.
    #[inline]
    pub unsafe fn write(&self, device: *mut u8, host: *const u8, len: usize) {
        // SAFETY: the caller's promise is the kernel's.
        unsafe { (self.write)(device, host, len) }
    }

    /// Loads `len` bytes of device memory. Begins and ends without a fence.
    ///
    /// # Safety
    /// As [`write`](Self::write), with the directions exchanged.
    #[inline]
    pub unsafe fn read(&self, host: *mut u8, device: *const u8, len: usize) {
        // SAFETY: the caller's promise is the kernel's.
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

/// The instructions of one kernel in one direction. Each function copies its number of bytes from `source` to
/// `destination`; the device side is aligned to it (lines: to 64), the host side need not be.
///
/// # Safety
/// An implementation touches exactly those bytes, each once, the device side in naturally aligned accesses. The caller
/// of a function promises that the CPU has its instructions and that both sides are valid.
pub(super) unsafe trait Instructions {
    unsafe fn one(destination: *mut u8, source: *const u8);
    unsafe fn two(destination: *mut u8, source: *const u8);
    unsafe fn four(destination: *mut u8, source: *const u8);
    unsafe fn eight(destination: *mut u8, source: *const u8);
    unsafe fn sixteen(destination: *mut u8, source: *const u8);
    unsafe fn thirty_two(destination: *mut u8, source: *const u8);
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize);
}

/// Copies to device memory by the plan, with the instructions `I`.
///
/// # Safety
/// As [`Kernel::write`].
pub(super) unsafe fn write<I: Instructions>(device: *mut u8, host: *const u8, len: usize) {
    // SAFETY: the caller's promise, and `device` is the side the plan is made for.
    unsafe { drive::<I>(device, host, len, device.addr()) }
}

/// Copies from device memory by the plan, with the instructions `I`.
///
/// # Safety
/// As [`Kernel::read`].
pub(super) unsafe fn read<I: Instructions>(host: *mut u8, device: *const u8, len: usize) {
    // SAFETY: the caller's promise, and `device` is the side the plan is made for.
    unsafe { drive::<I>(host, device, len, device.addr()) }
}

/// # Safety
/// Both sides are valid for `len` bytes, `address` is the device side's, the CPU has `I`.
#[inline(always)]
unsafe fn drive<I: Instructions>(
    destination: *mut u8,
    source: *const u8,
    len: usize,
    address: usize,
) {
    walk(address, len, |step| {
        // SAFETY: a step lies within `len`, and its device address is a multiple of its width: `walk` says so.
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
                width => unreachable!("walk knows no piece of {width} bytes"),
            }
        }
    });
}
