//! Fences around copies and single accesses to device mappings.
//!
//! A fence orders this CPU's accesses as the PCIe fabric and other CPUs see them. A fenced store
//! has left the CPU; only a later read of the same device shows that it arrived.

use super::arch;

/// Makes earlier stores to the mapping visible before later stores by draining the write-combining
/// buffers. x86-64 `sfence`, aarch64 `dsb st`.
#[inline(always)]
pub fn writes() {
    arch::fence_writes();
}

/// Later loads see what other agents (the GPU, another CPU) stored before a flag that an earlier
/// load saw, and this CPU's own stores: `mfence` on x86-64, `dmb sy` on aarch64.
///
/// On x86-64 `lfence` is not enough. A streaming load (`movntdqa`) may hit a buffer filled by an
/// earlier one; the Intel SDM (volume 2, MOVNTDQA; volume 1, 10.4.6.2) requires `mfence` between
/// another agent's store and such a load.
#[inline(always)]
pub fn before_reads() {
    arch::fence_all();
}

/// Completes earlier loads before any later access: `lfence` on x86-64, `dmb ld` on aarch64.
/// Streaming loads are not ordered with later loads otherwise.
#[inline(always)]
pub fn after_reads() {
    arch::fence_reads();
}

/// Orders all earlier accesses before all later ones: `mfence`, `dmb sy`. Needed when a process
/// accesses the same device memory through mappings of different caching.
#[inline(always)]
pub fn all() {
    arch::fence_all();
}

/// Drops lines that streaming loads left in buffers, where that is cheap: `sfence` on x86-64.
/// Without it, a loop that reads the same 16 or 32 bytes on an H200 hit the buffer every time (4
/// ns). With it, every second or third read reaches the device; the others had started before the
/// fence. Not architectural.
#[inline(always)]
pub(super) fn drop_streamed_lines() {
    #[cfg(target_arch = "x86_64")]
    arch::fence_writes();
}
