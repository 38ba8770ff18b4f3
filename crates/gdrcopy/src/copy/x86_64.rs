//! x86-64 kernels. All device accesses use inline assembly, so the compiler cannot choose the
//! instructions.
//!
//! Up to 8 bytes use plain `mov`; wider accesses use streaming loads and stores. On write-combined
//! memory a plain load fetches 8, 16 or 32 bytes per round trip, `movntdqa` a whole line; on other
//! memory types streaming stores keep device lines out of the host cache. Several lines are in
//! flight because outstanding line fills limit one core's reads (H200: eight 64-byte loads 1.00
//! GB/s, one at a time 0.87). The AVX-512 kernel uses registers 20 to 27, whose dirty upper halves
//! do not slow later SSE code, so it needs no `vzeroupper`.

use std::arch::{asm, x86_64::__cpuid_count};

use super::kernel::{Instructions, Kernel, read, write};

pub(super) static KERNELS: &[Kernel] = &[
    Kernel {
        name: "portable",
        load: 8,
        store: 8,
        named_only: false,
        supported: || true,
        write: write::<Plain>,
        read: read::<Plain>,
    },
    Kernel {
        name: "sse41",
        load: 16,
        store: 16,
        named_only: false,
        supported: || is_x86_feature_detected!("sse4.1"),
        write: write::<StoreSse>,
        read: read::<LoadSse>,
    },
    Kernel {
        name: "avx2",
        load: 32,
        store: 32,
        named_only: false,
        supported: || is_x86_feature_detected!("avx2"),
        write: write::<StoreAvx2>,
        read: read::<LoadAvx2>,
    },
    Kernel {
        name: "avx512",
        load: 64,
        store: 64,
        named_only: false,
        supported: || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl"),
        write: write::<StoreAvx512>,
        read: read::<LoadAvx512>,
    },
    // Only stores have a direct 64-byte form. Loads use SSE4.1, because CPUs without AVX may have
    // MOVDIR64B.
    Kernel {
        name: "movdir64b",
        load: 16,
        store: 64,
        named_only: false,
        supported: || is_x86_feature_detected!("sse4.1") && has_movdir64b(),
        write: write::<StoreDirect>,
        read: read::<LoadSse>,
    },
];

/// Default kernels without a measurement, best first: (writes, reads).
pub(super) fn preferred() -> (&'static [&'static str], &'static [&'static str]) {
    // Measured on Intel (H200, Emerald Rapids): AVX-512 is fastest both ways. Other vendors are
    // unmeasured; 32 bytes is the conservative choice.
    if vendor() == *b"GenuineIntel" {
        (&["avx512", "avx2", "sse41"], &["avx512", "avx2", "sse41"])
    } else {
        (&["avx2", "sse41"], &["avx2", "sse41"])
    }
}

/// True if [`preferred`] rests on measurements of this kind of CPU.
pub(super) fn is_preference_measured() -> bool {
    vendor() == *b"GenuineIntel" && is_x86_feature_detected!("avx512f")
}

/// Stores 8 bytes by one access.
///
/// # Safety
/// `host` is readable and `device` writable for 8 bytes; `device` is a multiple of 8.
#[inline(always)]
pub(super) unsafe fn store_word(device: *mut u8, host: *const u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { Plain::eight(device, host) }
}

#[inline(always)]
pub(super) fn fence_writes() {
    // SAFETY: sfence is SSE, which every x86-64 CPU has. Without `nomem`, the compiler does not
    // move accesses across it.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(super) fn fence_reads() {
    // SAFETY: lfence is SSE2, which every x86-64 CPU has.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(super) fn fence_all() {
    // SAFETY: mfence is SSE2, which every x86-64 CPU has.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) }
}

fn vendor() -> [u8; 12] {
    let leaf = __cpuid_count(0, 0);
    let mut vendor = [0; 12];
    for (bytes, part) in vendor.chunks_exact_mut(4).zip([leaf.ebx, leaf.edx, leaf.ecx]) {
        bytes.copy_from_slice(&part.to_le_bytes());
    }
    vendor
}

/// CPUID leaf 7, subleaf 0, ECX bit 28 (Intel SDM volume 2, MOVDIR64B).
fn has_movdir64b() -> bool {
    __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 28) != 0
}

/// One load and one store of a general register.
macro_rules! through_register {
    ($name:ident, $class:ident, $form:literal) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller guarantees that both sides are valid for these bytes.
            unsafe {
                asm!(
                    concat!("mov {bytes", $form, "}, [{source}]"),
                    concat!("mov [{destination}], {bytes", $form, "}"),
                    bytes = out($class) _, source = in(reg) source, destination = in(reg) destination,
                    options(nostack, preserves_flags)
                )
            }
        }
    };
}

/// Accesses of up to 8 bytes, shared by all kernels and directions.
macro_rules! small_accesses {
    () => {
        through_register!(one, reg_byte, "");
        through_register!(two, reg, ":x");
        through_register!(four, reg, ":e");
        through_register!(eight, reg, ":r");
    };
}

/// Splits an access into two of half its size.
macro_rules! halves {
    ($name:ident, $half:ident, $bytes:literal) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: both halves lie in the range that the caller guarantees, with its alignment.
            unsafe {
                Self::$half(destination, source);
                Self::$half(destination.add($bytes), source.add($bytes));
            }
        }
    };
}

/// One load and one store through a vector register.
macro_rules! through_vector {
    ($name:ident, $load:literal, $store:literal, $register:tt $(, then $after:literal, also $($clobbered:tt)+)?) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller guarantees that both sides are valid, the device side is aligned
            // and the CPU has the instructions.
            unsafe {
                asm!(
                    concat!($load, " ", $register, ", [{source}]"),
                    concat!($store, " [{destination}], ", $register),
                    $($after,)?
                    source = in(reg) source, destination = in(reg) destination,
                    out($register) _, $($(out($clobbered) _,)+)?
                    options(nostack, preserves_flags)
                )
            }
        }
    };
}

/// Whole lines: a loop over several lines, all loads before all stores, then one over single lines.
/// Registers are `$register` plus a digit and hold `$bytes` each.
macro_rules! lines {
    (
        $name:ident: $lines:literal a turn, $load:literal, $store:literal, $register:literal of $bytes:literal,
        many $many:literal, one $one:literal, $(then $after:literal,)? clobbers $($clobbered:tt)+
    ) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8, count: usize) {
            // SAFETY: the caller guarantees that `count` lines are valid on both sides, the device
            // side is line-aligned and the CPU has the instructions. The loops access `count`
            // lines.
            unsafe {
                asm!(
                    concat!("sub {count}, ", $lines),
                    "jb 3f",
                    "2:",
                    concat!(".irp i, ", $many, "\n", $load, " ", $register, "\\i, [{source} + \\i * ", $bytes, "]\n.endr"),
                    concat!(".irp i, ", $many, "\n", $store, " [{destination} + \\i * ", $bytes, "], ", $register, "\\i\n.endr"),
                    concat!("add {source}, ", $lines, " * 64"),
                    concat!("add {destination}, ", $lines, " * 64"),
                    concat!("sub {count}, ", $lines),
                    "jae 2b",
                    "3:",
                    concat!("add {count}, ", $lines),
                    "jz 5f",
                    "4:",
                    concat!(".irp i, ", $one, "\n", $load, " ", $register, "\\i, [{source} + \\i * ", $bytes, "]\n.endr"),
                    concat!(".irp i, ", $one, "\n", $store, " [{destination} + \\i * ", $bytes, "], ", $register, "\\i\n.endr"),
                    "add {source}, 64",
                    "add {destination}, 64",
                    "dec {count}",
                    "jnz 4b",
                    "5:",
                    $($after,)?
                    count = inout(reg) count => _, source = inout(reg) source => _,
                    destination = inout(reg) destination => _,
                    $(out($clobbered) _,)+
                    options(nostack)
                )
            }
        }
    };
}

/// Plain loads and stores of up to 8 bytes, for uncached memory and as the fallback.
struct Plain;

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for Plain {
    small_accesses!();
    halves!(sixteen, eight, 8);
    halves!(thirty_two, sixteen, 16);

    #[inline(always)]
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
        for at in (0..count * 64).step_by(8) {
            // SAFETY: within the lines that the caller guarantees, aligned to 8 because lines are
            // aligned to 64.
            unsafe { Self::eight(destination.add(at), source.add(at)) }
        }
    }
}

/// Kernel of 16-byte vectors in one direction.
macro_rules! sse {
    ($(#[$doc:meta])* $name:ident, $load:literal, $store:literal) => {
        $(#[$doc])*
        struct $name;

        // SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
        unsafe impl Instructions for $name {
            small_accesses!();
            through_vector!(sixteen, $load, $store, "xmm0");
            halves!(thirty_two, sixteen, 16);
            lines!(
                lines: 2 a turn, $load, $store, "xmm" of 16, many "0,1,2,3,4,5,6,7", one "0,1,2,3",
                clobbers "xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7"
            );
        }
    };
}

/// Kernel of 32-byte vectors in one direction. `vzeroupper` changes all sixteen registers.
macro_rules! avx {
    ($(#[$doc:meta])* $name:ident, $load:literal, $store:literal) => {
        $(#[$doc])*
        struct $name;

        // SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
        unsafe impl Instructions for $name {
            small_accesses!();
            through_vector!(sixteen, $load, $store, "xmm0");
            through_vector!(
                thirty_two, $load, $store, "ymm0", then "vzeroupper",
                also "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13"
                    "ymm14" "ymm15"
            );
            lines!(
                lines: 4 a turn, $load, $store, "ymm" of 32, many "0,1,2,3,4,5,6,7", one "0,1", then "vzeroupper",
                clobbers "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12"
                    "ymm13" "ymm14" "ymm15"
            );
        }
    };
}

sse!(
    /// SSE2 streaming stores.
    StoreSse,
    "movdqu",
    "movntdq"
);
sse!(
    /// SSE4.1 streaming loads.
    LoadSse,
    "movntdqa",
    "movdqu"
);
avx!(
    /// AVX streaming stores; the kernel is named after its AVX2 loads.
    StoreAvx2,
    "vmovdqu",
    "vmovntdq"
);
avx!(
    /// AVX2 streaming loads.
    LoadAvx2,
    "vmovntdqa",
    "vmovdqu"
);
/// AVX-512 streaming stores.
struct StoreAvx512;

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for StoreAvx512 {
    small_accesses!();
    through_vector!(sixteen, "vmovdqu64", "vmovntdq", "xmm20");
    through_vector!(thirty_two, "vmovdqu64", "vmovntdq", "ymm20");
    lines!(
        lines: 8 a turn, "vmovdqu64", "vmovntdq", "zmm2" of 64, many "0,1,2,3,4,5,6,7", one "0",
        clobbers "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25" "zmm26" "zmm27"
    );
}

/// AVX-512 streaming loads, eight lines in flight.
struct LoadAvx512;

/// Below this many lines, load by halves. Reloading a line soon after may hit the first load's
/// buffer: 64 bytes repeatedly take 0.45 µs by halves, 0.98 whole. From here on whole lines are
/// faster.
const WHOLE_LINES_FROM: usize = 16;

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for LoadAvx512 {
    small_accesses!();
    through_vector!(sixteen, "vmovntdqa", "vmovdqu64", "xmm20");
    through_vector!(thirty_two, "vmovntdqa", "vmovdqu64", "ymm20");

    #[inline(always)]
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
        // SAFETY: guaranteed by the caller for both variants.
        unsafe {
            if count < WHOLE_LINES_FROM {
                load_by_halves(destination, source, count);
            } else {
                load_whole(destination, source, count);
            }
        }
    }
}

lines!(
    load_by_halves: 4 a turn, "vmovntdqa", "vmovdqu64", "ymm2" of 32, many "0,1,2,3,4,5,6,7", one "0,1",
    clobbers "ymm20" "ymm21" "ymm22" "ymm23" "ymm24" "ymm25" "ymm26" "ymm27"
);
lines!(
    load_whole: 8 a turn, "vmovntdqa", "vmovdqu64", "zmm2" of 64, many "0,1,2,3,4,5,6,7", one "0",
    clobbers "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25" "zmm26" "zmm27"
);

/// MOVDIR64B: atomic 64-byte memory-to-memory store; SSE2 streaming stores for the rest.
struct StoreDirect;

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for StoreDirect {
    small_accesses!();
    through_vector!(sixteen, "movdqu", "movntdq", "xmm0");
    halves!(thirty_two, sixteen, 16);

    /// The store address is in a register, so it advances line by line.
    #[inline(always)]
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
        for at in (0..count * 64).step_by(64) {
            // SAFETY: within the lines that the caller guarantees; the destination is 64-byte
            // aligned, the source need not be; the caller guarantees that the CPU has the
            // instruction.
            unsafe {
                asm!(
                    "movdir64b {destination}, [{source}]",
                    source = in(reg) source.add(at), destination = in(reg) destination.add(at),
                    options(nostack, preserves_flags)
                )
            }
        }
    }
}
