//! Single-instruction loads and stores without implied ordering.
//!
//! Rust atomics do not work: unordered, overlapping accesses of different sizes are undefined
//! behaviour, but here a program may write a 4-byte word, a GPU or NIC 8 bytes, and another reader
//! 64, all concurrently. Volatile accesses are data races on memory that Rust knows. Inline
//! assembly has the machine's semantics: an aligned access of 1, 4 or 8 bytes does not tear (Intel
//! SDM 3A 10.1.1; Arm ARM B2.2.1).
//!
//! Sanitizers only understand atomics, so they use those (`--cfg sanitized`), as do processors
//! without assembly here. Miri runs no assembly: a lock replaces it there, and detects out-of-range
//! and freed accesses.

macro_rules! accesses {
    ($($load:ident $store:ident $type:ident;)*) => {$(
        /// # Safety
        ///
        /// `from` is valid for a read of this type, and a multiple of its size.
        #[inline]
        pub(super) unsafe fn $load(from: *const u8) -> $type {
            // SAFETY: guaranteed by the caller.
            unsafe { machine::$load(from) }
        }

        /// # Safety
        ///
        /// `to` is valid for a write of this type, and a multiple of its size.
        #[inline]
        pub(super) unsafe fn $store(to: *mut u8, value: $type) {
            // SAFETY: guaranteed by the caller.
            unsafe { machine::$store(to, value) };
        }
    )*};
}

accesses! {
    load8 store8 u8;
    load32 store32 u32;
    load64 store64 u64;
}

/// Copies 8 words of 8 bytes, each like [`load64`] and [`store64`].
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of 64 bytes; both are multiples of 8.
#[inline]
pub(super) unsafe fn copy_words(to: *mut u8, from: *const u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { machine::copy_words(to, from) };
}

/// Copies a large range by vectors: the length of what it copied from the start, 0 if the processor has none. Vectors need not be
/// atomic, so a word that changes meanwhile may tear.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `count` bytes.
#[inline]
pub(super) unsafe fn copy_vectors(to: *mut u8, from: *const u8, count: usize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(any(miri, sanitized))))]
    if count >= LARGE && std::is_x86_feature_detected!("avx") {
        let copied = count - count % 64;
        // SAFETY: guaranteed by the caller; the processor has AVX.
        unsafe { machine::copy_lines(to, from, copied / 64) };
        return copied;
    }
    let _ = (to, from, count);
    0
}

/// Larger than any queue entry. Copies of 64 KiB that another device or CPU has just written take half as long by vectors as by words.
#[cfg(all(target_arch = "x86_64", not(any(miri, sanitized))))]
const LARGE: usize = 1024;

/// Copies 8 single bytes.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of 8 bytes.
#[inline]
pub(super) unsafe fn copy_bytes(to: *mut u8, from: *const u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { machine::copy_bytes(to, from) };
}

/// Stores an 8-byte word 8 times, each like [`store64`].
///
/// # Safety
///
/// `to` is valid for writes of 64 bytes, and a multiple of 8.
#[inline]
pub(super) unsafe fn fill_words(to: *mut u8, word: u64) {
    // SAFETY: guaranteed by the caller.
    unsafe { machine::fill_words(to, word) };
}

/// Eight offsets in one asm statement: the compiler cannot unroll a loop of single ones.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(any(miri, sanitized))))]
macro_rules! eights {
    (
        words $load:literal $loaded:literal $store:literal $stored:literal;
        bytes $load_byte:literal $store_byte:literal $stored_byte:literal;
    ) => {
        eights! { copy copy_words $load $loaded $store $stored 0 8 16 24 32 40 48 56 }
        eights! { copy copy_bytes $load_byte $loaded $store_byte $stored_byte 0 1 2 3 4 5 6 7 }
        eights! { fill $store $stored 0 8 16 24 32 40 48 56 }
    };
    (copy $name:ident $load:literal $loaded:literal $store:literal $stored:literal $($offset:literal)*) => {
        pub(super) unsafe fn $name(to: *mut u8, from: *const u8) {
            // SAFETY: guaranteed by the caller.
            unsafe {
                asm!(
                    $(concat!($load, $offset, $loaded), concat!($store, $offset, $stored),)*
                    from = in(reg) from, to = in(reg) to, word = out(reg) _, options(nostack, preserves_flags)
                );
            }
        }
    };
    (fill $store:literal $stored:literal $($offset:literal)*) => {
        pub(super) unsafe fn fill_words(to: *mut u8, word: u64) {
            // SAFETY: guaranteed by the caller.
            unsafe {
                asm!(
                    $(concat!($store, $offset, $stored),)*
                    to = in(reg) to, word = in(reg) word, options(nostack, preserves_flags)
                );
            }
        }
    };
}

#[cfg(any(miri, sanitized, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! eights {
    () => {
        pub(super) unsafe fn copy_words(to: *mut u8, from: *const u8) {
            for offset in (0..64).step_by(8) {
                // SAFETY: guaranteed by the caller.
                unsafe { store64(to.add(offset), load64(from.add(offset))) };
            }
        }

        pub(super) unsafe fn copy_bytes(to: *mut u8, from: *const u8) {
            for offset in 0..8 {
                // SAFETY: guaranteed by the caller.
                unsafe { store8(to.add(offset), load8(from.add(offset))) };
            }
        }

        pub(super) unsafe fn fill_words(to: *mut u8, word: u64) {
            for offset in (0..64).step_by(8) {
                // SAFETY: guaranteed by the caller.
                unsafe { store64(to.add(offset), word) };
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(any(miri, sanitized))))]
mod machine {
    use std::arch::asm;

    macro_rules! instructions {
        ($($load:ident $store:ident $type:ident $reads:literal $writes:literal $into:ident $from:ident;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let value;
                // SAFETY: guaranteed by the caller. The asm may write all memory, so the compiler
                // moves no accesses across it.
                unsafe {
                    asm!($reads, at = in(reg) from, value = lateout($into) value, options(nostack, preserves_flags));
                }
                value
            }

            pub(super) unsafe fn $store(to: *mut u8, value: $type) {
                // SAFETY: as above.
                unsafe { asm!($writes, at = in(reg) to, value = in($from) value, options(nostack, preserves_flags)) };
            }
        )*};
    }

    instructions! {
        load8 store8 u8 "mov {value}, byte ptr [{at}]" "mov byte ptr [{at}], {value}" reg_byte reg_byte;
        load32 store32 u32 "mov {value:e}, dword ptr [{at}]" "mov dword ptr [{at}], {value:e}" reg reg;
        load64 store64 u64 "mov {value}, qword ptr [{at}]" "mov qword ptr [{at}], {value}" reg reg;
    }

    eights! {
        words "mov {word}, qword ptr [{from} + " "]" "mov qword ptr [{to} + " "], {word}";
        bytes "movzx {word:e}, byte ptr [{from} + " "mov byte ptr [{to} + " "], {word:l}";
    }

    /// # Safety
    ///
    /// `from` is valid for reads and `to` for writes of `lines` times 64 bytes, `lines` is not 0, and the processor has AVX.
    pub(super) unsafe fn copy_lines(to: *mut u8, from: *const u8, lines: usize) {
        // SAFETY: guaranteed by the caller. The compiler knows that all vector registers change.
        unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, ymmword ptr [{from}]",
                "vmovdqu ymm1, ymmword ptr [{from} + 32]",
                "vmovdqu ymmword ptr [{to}], ymm0",
                "vmovdqu ymmword ptr [{to} + 32], ymm1",
                "add {from}, 64",
                "add {to}, 64",
                "dec {lines}",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) from => _, to = inout(reg) to => _, lines = inout(reg) lines => _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack)
            );
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(any(miri, sanitized))))]
mod machine {
    use std::arch::asm;

    macro_rules! instructions {
        ($($load:ident $store:ident $type:ident $reads:literal $writes:literal;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let value;
                // SAFETY: guaranteed by the caller. The asm may write all memory, so the compiler
                // moves no accesses across it.
                unsafe {
                    asm!($reads, at = in(reg) from, value = lateout(reg) value, options(nostack, preserves_flags));
                }
                value
            }

            pub(super) unsafe fn $store(to: *mut u8, value: $type) {
                // SAFETY: as above.
                unsafe { asm!($writes, at = in(reg) to, value = in(reg) value, options(nostack, preserves_flags)) };
            }
        )*};
    }

    instructions! {
        load8 store8 u8 "ldrb {value:w}, [{at}]" "strb {value:w}, [{at}]";
        load32 store32 u32 "ldr {value:w}, [{at}]" "str {value:w}, [{at}]";
        load64 store64 u64 "ldr {value}, [{at}]" "str {value}, [{at}]";
    }

    eights! {
        words "ldr {word}, [{from}, #" "]" "str {word}, [{to}, #" "]";
        bytes "ldrb {word:w}, [{from}, #" "strb {word:w}, [{to}, #" "]";
    }
}

#[cfg(all(not(miri), any(sanitized, not(any(target_arch = "x86_64", target_arch = "aarch64")))))]
mod machine {
    use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

    macro_rules! atomics {
        ($($load:ident $store:ident $type:ident $atomic:ident;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                // SAFETY: guaranteed by the caller. Ordered, because the thread sanitizer does not
                // understand fences.
                unsafe { $atomic::from_ptr(from.cast_mut().cast()) }.load(Ordering::Acquire)
            }

            pub(super) unsafe fn $store(to: *mut u8, value: $type) {
                // SAFETY: as above.
                unsafe { $atomic::from_ptr(to.cast()) }.store(value, Ordering::Release);
            }
        )*};
    }

    atomics! {
        load8 store8 u8 AtomicU8;
        load32 store32 u32 AtomicU32;
        load64 store64 u64 AtomicU64;
    }

    eights! {}
}

#[cfg(miri)]
mod machine {
    use std::sync::{Mutex, PoisonError};

    static MEMORY: Mutex<()> = Mutex::new(());

    macro_rules! locked {
        ($($load:ident $store:ident $type:ident;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let _turn = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: guaranteed by the caller.
                unsafe { from.cast::<$type>().read() }
            }

            pub(super) unsafe fn $store(to: *mut u8, value: $type) {
                let _turn = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: as above.
                unsafe { to.cast::<$type>().write(value) };
            }
        )*};
    }

    locked! {
        load8 store8 u8;
        load32 store32 u32;
        load64 store64 u64;
    }

    eights! {}
}
