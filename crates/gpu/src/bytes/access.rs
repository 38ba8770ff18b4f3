//! One load or store of one instruction each, in which no ordering is implied.
//!
//! Rust's atomics would not do: two that overlap, of different sizes and unordered, are undefined behaviour, and a program may write a word
//! of 4 bytes, a GPU or a card 8, and a third one read 64 of them, all at once and rightly so. Volatile accesses would not do either: of
//! memory that Rust knows they are data races. What an instruction of our own does to memory is the machine's business: an access of
//! 1, 4 or 8 bytes at a multiple of its size is not torn (Intel SDM 3A 10.1.1; Arm ARM B2.2.1).
//!
//! Sanitizers see atomics alone, and so get those (`--cfg sanitized`), as processors do for which there are no instructions here. Miri
//! knows no instructions: there a lock stands for the machine, and finds what is out of range, freed, or not ours to touch.

macro_rules! accesses {
    ($($load:ident $store:ident $type:ident;)*) => {$(
        /// # Safety
        ///
        /// `from` is valid for a read of this type, and a multiple of its size.
        #[inline]
        pub(super) unsafe fn $load(from: *const u8) -> $type {
            // SAFETY: this function's condition.
            unsafe { machine::$load(from) }
        }

        /// # Safety
        ///
        /// `to` is valid for a write of this type, and a multiple of its size.
        #[inline]
        pub(super) unsafe fn $store(to: *mut u8, value: $type) {
            // SAFETY: this function's condition.
            unsafe { machine::$store(to, value) };
        }
    )*};
}

accesses! {
    load8 store8 u8;
    load32 store32 u32;
    load64 store64 u64;
}

#[cfg(all(target_arch = "x86_64", not(any(miri, sanitized))))]
mod machine {
    use std::arch::asm;

    macro_rules! instructions {
        ($($load:ident $store:ident $type:ident $reads:literal $writes:literal $into:ident $from:ident;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let value;
                // SAFETY: the caller's promise. It counts as one that may write all memory, so that nothing is moved past it.
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
}

#[cfg(all(target_arch = "aarch64", not(any(miri, sanitized))))]
mod machine {
    use std::arch::asm;

    macro_rules! instructions {
        ($($load:ident $store:ident $type:ident $reads:literal $writes:literal;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let value;
                // SAFETY: the caller's promise. It counts as one that may write all memory, so that nothing is moved past it.
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
}

#[cfg(all(not(miri), any(sanitized, not(any(target_arch = "x86_64", target_arch = "aarch64")))))]
mod machine {
    use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

    macro_rules! atomics {
        ($($load:ident $store:ident $type:ident $atomic:ident;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                // SAFETY: the caller's promise. Ordered, since the thread sanitizer does not see fences.
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
}

#[cfg(miri)]
mod machine {
    use std::sync::{Mutex, PoisonError};

    static MEMORY: Mutex<()> = Mutex::new(());

    macro_rules! locked {
        ($($load:ident $store:ident $type:ident;)*) => {$(
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let _turn = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller's promise.
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
}
