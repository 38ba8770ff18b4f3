//! Explicit fences around copies and single accesses to a mapping of device memory.
//!
//! What a fence orders is this CPU's accesses as the PCIe fabric and other CPUs see them. A fenced store has left the
//! CPU for the bus; that it has arrived in the GPU's memory, only a later read of the same device tells.

use super::arch;

/// Everything stored to the mapping before is visible before anything stored after: drains the write-combining buffers.
/// x86-64 `sfence`, aarch64 `dsb st`.
#[inline(always)]
pub fn writes() {
    arch::fence_writes();
}

/// Loads after this see what other agents (the GPU, another CPU) had stored by the time a load before it saw their flag,
/// and what this CPU itself stored: `mfence` on x86-64, `dmb sy` on aarch64.
///
/// On x86-64 `lfence` would not do. A streaming load (`movntdqa`) may be answered from a buffer filled by an earlier one,
/// and it is `mfence` that the Intel SDM (volume 2, MOVNTDQA; volume 1, 10.4.6.2) asks for between another agent's store
/// and such a load.
#[inline(always)]
pub fn before_reads() {
    arch::fence_all();
}

/// Loads before this are finished before any later access begins: `lfence` on x86-64, `dmb ld` on aarch64. Streaming
/// loads are not ordered with later loads otherwise.
#[inline(always)]
pub fn after_reads() {
    arch::fence_reads();
}

/// All accesses before this come before all after it: `mfence`, `dmb sy`. What a process needs that reaches one piece of
/// device memory through mappings of different caching.
#[inline(always)]
pub fn all() {
    arch::fence_all();
}

/// Ends the life of lines that streaming loads have left in buffers, as far as costs nothing: `sfence` on x86-64. Without
/// it, a loop that reads the same 16 or 32 bytes was seen on an H200 to be answered from the buffer every time, 4 ns a
/// turn. With it, every second or third turn goes to the device: the rest had begun before the fence. Not architectural.
#[inline(always)]
pub(super) fn drop_streamed_lines() {
    #[cfg(target_arch = "x86_64")]
    arch::fence_writes();
}
