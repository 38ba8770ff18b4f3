//! aarch64 kernels. All device accesses use inline assembly, so the compiler cannot choose the
//! instructions.
//!
//! A "write-combined" mapping of a discrete GPU is Device memory (nGnRE) under drivers up to 580
//! and Normal non-cacheable from 590 on. Device memory faults on unaligned accesses and on `dc
//! zva`, so the device side is always aligned and nothing here zeroes by cache line. The host side
//! is ordinary memory, where unaligned accesses are fine.
//!
//! Lines use non-temporal accesses on the device side, like the x86-64 kernels: the data is not
//! read again soon, and where a driver maps device memory cacheable, it does not displace the
//! caches of the program. Other memory types ignore the hint. No kernel's speed has been measured.

use std::arch::{asm, is_aarch64_feature_detected};

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
    // Advanced SIMD belongs to the baseline of every 64-bit Arm Linux target.
    Kernel {
        name: "neon",
        load: 16,
        store: 16,
        named_only: false,
        supported: || true,
        write: write::<StoreNeon>,
        read: read::<LoadNeon>,
    },
    // The CPU may split an access into its 8-byte elements.
    Kernel {
        name: "sve",
        load: 16,
        store: 16,
        named_only: false,
        supported: || is_aarch64_feature_detected!("sve"),
        write: write::<StoreSve>,
        read: read::<LoadSve>,
    },
    Kernel {
        name: "ls64",
        load: 64,
        store: 64,
        named_only: true,
        supported: has_ls64,
        write: write::<StoreLs64>,
        read: read::<LoadLs64>,
    },
];

/// Default kernels without a measurement, best first: (writes, reads).
pub(super) fn preferred() -> (&'static [&'static str], &'static [&'static str]) {
    (&["neon"], &["neon"])
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
    unsafe { Plain::eight(device, host) }
}

#[inline(always)]
pub(super) fn fence_writes() {
    // SAFETY: a barrier. Without `nomem`, the compiler does not move accesses across it.
    unsafe { asm!("dsb st", options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(super) fn fence_reads() {
    // SAFETY: a barrier.
    unsafe { asm!("dmb ld", options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(super) fn fence_all() {
    // SAFETY: a barrier.
    unsafe { asm!("dmb sy", options(nostack, preserves_flags)) }
}

/// HWCAP3_LS64: bit 3 of AT_HWCAP3, entry 29 of the auxiliary vector (Linux,
/// arch/arm64/include/uapi/asm/hwcap.h and include/uapi/linux/auxvec.h). It also means that the
/// kernel allows the instructions in user space.
fn has_ls64() -> bool {
    const AT_HWCAP3: libc::c_ulong = 29;
    // SAFETY: reads an entry of the auxiliary vector; an absent one is 0.
    let capabilities = unsafe { libc::getauxval(AT_HWCAP3) };
    capabilities & (1 << 3) != 0
}

/// One load and one store of a general register.
macro_rules! through_register {
    ($name:ident, $load:literal, $store:literal, $form:literal) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller guarantees that both sides are valid for these bytes, the device
            // side aligned.
            unsafe {
                asm!(
                    concat!($load, " {bytes:", $form, "}, [{source}]"),
                    concat!($store, " {bytes:", $form, "}, [{destination}]"),
                    bytes = out(reg) _, source = in(reg) source, destination = in(reg) destination,
                    options(nostack, preserves_flags)
                )
            }
        }
    };
}

/// Accesses of up to 8 bytes, shared by all kernels and directions.
macro_rules! small_accesses {
    () => {
        through_register!(one, "ldrb", "strb", "w");
        through_register!(two, "ldrh", "strh", "w");
        through_register!(four, "ldr", "str", "w");
        through_register!(eight, "ldr", "str", "x");
    };
}

/// Accesses of 16 and 32 bytes through vector registers.
macro_rules! vector_pieces {
    () => {
        #[inline(always)]
        unsafe fn sixteen(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller guarantees both sides valid and the device side aligned.
            unsafe {
                asm!(
                    "ldr q0, [{source}]",
                    "str q0, [{destination}]",
                    source = in(reg) source, destination = in(reg) destination, out("v0") _,
                    options(nostack, preserves_flags)
                )
            }
        }

        #[inline(always)]
        unsafe fn thirty_two(destination: *mut u8, source: *const u8) {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "ldp q0, q1, [{source}]",
                    "stp q0, q1, [{destination}]",
                    source = in(reg) source, destination = in(reg) destination, out("v0") _, out("v1") _,
                    options(nostack, preserves_flags)
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

    #[inline(always)]
    unsafe fn sixteen(destination: *mut u8, source: *const u8) {
        // SAFETY: both halves lie in the range that the caller guarantees, with its alignment.
        unsafe {
            Self::eight(destination, source);
            Self::eight(destination.add(8), source.add(8));
        }
    }

    #[inline(always)]
    unsafe fn thirty_two(destination: *mut u8, source: *const u8) {
        // SAFETY: as above.
        unsafe {
            Self::sixteen(destination, source);
            Self::sixteen(destination.add(16), source.add(16));
        }
    }

    #[inline(always)]
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
        for at in (0..count * 64).step_by(8) {
            // SAFETY: within the lines that the caller guarantees, aligned to 8 because lines are
            // aligned to 64.
            unsafe { Self::eight(destination.add(at), source.add(at)) }
        }
    }
}

/// Kernel of pairs of 16-byte vector registers in one direction, two lines per iteration.
macro_rules! neon {
    ($(#[$doc:meta])* $name:ident, $load:literal, $store:literal) => {
        $(#[$doc])*
        struct $name;

        // SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
        unsafe impl Instructions for $name {
            small_accesses!();
            vector_pieces!();

            #[inline(always)]
            unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
                // SAFETY: the caller guarantees that `count` lines are valid on both sides, the
                // device side line-aligned. The loops access `count` lines.
                unsafe {
                    asm!(
                        "subs {count}, {count}, #2",
                        "b.lo 3f",
                        "2:",
                        concat!($load, " q0, q1, [{source}]"),
                        concat!($load, " q2, q3, [{source}, #32]"),
                        concat!($load, " q4, q5, [{source}, #64]"),
                        concat!($load, " q6, q7, [{source}, #96]"),
                        concat!($store, " q0, q1, [{destination}]"),
                        concat!($store, " q2, q3, [{destination}, #32]"),
                        concat!($store, " q4, q5, [{destination}, #64]"),
                        concat!($store, " q6, q7, [{destination}, #96]"),
                        "add {source}, {source}, #128",
                        "add {destination}, {destination}, #128",
                        "subs {count}, {count}, #2",
                        "b.hs 2b",
                        "3:",
                        "tbz {count}, #0, 4f",
                        concat!($load, " q0, q1, [{source}]"),
                        concat!($load, " q2, q3, [{source}, #32]"),
                        concat!($store, " q0, q1, [{destination}]"),
                        concat!($store, " q2, q3, [{destination}, #32]"),
                        "4:",
                        count = inout(reg) count => _, source = inout(reg) source => _,
                        destination = inout(reg) destination => _,
                        out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                        out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                        options(nostack)
                    )
                }
            }
        }
    };
}

neon!(
    /// Non-temporal stores of pairs.
    StoreNeon,
    "ldp",
    "stnp"
);
neon!(
    /// Non-temporal loads of pairs.
    LoadNeon,
    "ldnp",
    "stp"
);

/// Kernel of scalable vectors in one direction: eight per iteration whatever their length, then one
/// by one under a predicate, so that no access passes the last line. Elements of 8 bytes, the
/// alignment that Device memory asks for.
macro_rules! sve {
    ($(#[$doc:meta])* $name:ident, $load:literal, $store:literal) => {
        $(#[$doc])*
        struct $name;

        // SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
        unsafe impl Instructions for $name {
            small_accesses!();
            vector_pieces!();

            #[inline(always)]
            unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
                // SAFETY: the caller guarantees that `count` lines are valid on both sides, the
                // device side line-aligned, and that the CPU has SVE. The loops access
                // `8 * count` elements of 8 bytes.
                unsafe {
                    asm!(
                        ".arch_extension sve",
                        "ptrue p0.d",
                        "cntd {step}, all, mul #8",
                        "subs {elements}, {elements}, {step}",
                        "b.lo 3f",
                        "2:",
                        concat!(
                            ".irp i, 0,1,2,3,4,5,6,7\n",
                            $load, " {{z\\i\\().d}}, p0/z, [{source}, #\\i, mul vl]\n.endr"
                        ),
                        concat!(
                            ".irp i, 0,1,2,3,4,5,6,7\n",
                            $store, " {{z\\i\\().d}}, p0, [{destination}, #\\i, mul vl]\n.endr"
                        ),
                        "addvl {source}, {source}, #8",
                        "addvl {destination}, {destination}, #8",
                        "subs {elements}, {elements}, {step}",
                        "b.hs 2b",
                        "3:",
                        "add {elements}, {elements}, {step}",
                        "mov {step}, xzr",
                        "b 5f",
                        "4:",
                        concat!($load, " {{z0.d}}, p0/z, [{source}, {step}, lsl #3]"),
                        concat!($store, " {{z0.d}}, p0, [{destination}, {step}, lsl #3]"),
                        "incd {step}",
                        "5:",
                        "whilelo p0.d, {step}, {elements}",
                        "b.first 4b",
                        ".arch_extension nosve",
                        elements = inout(reg) count * 8 => _, step = out(reg) _,
                        source = inout(reg) source => _, destination = inout(reg) destination => _,
                        out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                        out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("p0") _,
                        options(nostack)
                    )
                }
            }
        }
    };
}

sve!(
    /// Non-temporal stores of scalable vectors.
    StoreSve,
    "ld1d",
    "stnt1d"
);
sve!(
    /// Non-temporal loads of scalable vectors.
    LoadSve,
    "ldnt1d",
    "st1d"
);

/// ST64B: atomic store of a line. Assembled, never run.
struct StoreLs64;

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for StoreLs64 {
    small_accesses!();
    vector_pieces!();

    #[inline(always)]
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
        for at in (0..count * 64).step_by(64) {
            // SAFETY: within the lines that the caller guarantees, the destination aligned to 64;
            // the CPU has the instruction.
            unsafe {
                asm!(
                    ".arch_extension ls64",
                    "ldp x8, x9, [{source}]",
                    "ldp x10, x11, [{source}, #16]",
                    "ldp x12, x13, [{source}, #32]",
                    "ldp x14, x15, [{source}, #48]",
                    "st64b x8, [{destination}]",
                    ".arch_extension nols64",
                    source = in(reg) source.add(at), destination = in(reg) destination.add(at),
                    out("x8") _, out("x9") _, out("x10") _, out("x11") _,
                    out("x12") _, out("x13") _, out("x14") _, out("x15") _,
                    options(nostack, preserves_flags)
                )
            }
        }
    }
}

/// LD64B: atomic load of a line. Assembled, never run.
struct LoadLs64;

// SAFETY: each function's accesses cover exactly its bytes, in order and without overlap.
unsafe impl Instructions for LoadLs64 {
    small_accesses!();
    vector_pieces!();

    #[inline(always)]
    unsafe fn lines(destination: *mut u8, source: *const u8, count: usize) {
        for at in (0..count * 64).step_by(64) {
            // SAFETY: within the lines that the caller guarantees, the source aligned to 64; the
            // CPU has the instruction.
            unsafe {
                asm!(
                    ".arch_extension ls64",
                    "ld64b x8, [{source}]",
                    ".arch_extension nols64",
                    "stp x8, x9, [{destination}]",
                    "stp x10, x11, [{destination}, #16]",
                    "stp x12, x13, [{destination}, #32]",
                    "stp x14, x15, [{destination}, #48]",
                    source = in(reg) source.add(at), destination = in(reg) destination.add(at),
                    out("x8") _, out("x9") _, out("x10") _, out("x11") _,
                    out("x12") _, out("x13") _, out("x14") _, out("x15") _,
                    options(nostack, preserves_flags)
                )
            }
        }
    }
}
