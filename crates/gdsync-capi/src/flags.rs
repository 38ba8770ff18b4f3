//! Validates `flags` parameters, conditions and addresses.

use std::ffi::c_int;
use std::ptr::NonNull;

use gpu::Compare;

use crate::abi;
use crate::call_error::CallError;

/// Type of the memory of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryType {
    /// A GPU address: device memory, or pinned host memory of CUDA.
    Gpu,
    /// Ordinary memory of the process.
    Host,
    /// Registers of another device, mapped into the process.
    Io,
}

/// Checks that no flag is set.
pub(crate) fn none(flags: c_int) -> Result<(), CallError> {
    match flags {
        0 => Ok(()),
        _ => Err(CallError::Flags { flags, allowed: 0 }),
    }
}

/// The memory type of `flags`. Other bits than `others` are rejected.
pub(crate) fn memory_type(flags: c_int, others: c_int) -> Result<MemoryType, CallError> {
    let allowed = abi::MEMORY_MASK | others;
    if flags & !allowed != 0 {
        return Err(CallError::Flags { flags, allowed });
    }
    match flags & abi::MEMORY_MASK {
        abi::MEMORY_GPU => Ok(MemoryType::Gpu),
        abi::MEMORY_HOST => Ok(MemoryType::Host),
        abi::MEMORY_IO => Ok(MemoryType::Io),
        _ => Err(CallError::MemoryType { flags }),
    }
}

/// The comparison of a `gds_wait_cond_flag_t`.
pub(crate) fn compare(condition: u32) -> Result<Compare, CallError> {
    match condition {
        0 => Ok(Compare::Geq),
        1 => Ok(Compare::Eq),
        2 => Ok(Compare::And),
        3 => Ok(Compare::Nor),
        other => Err(CallError::Value { of: "gds_wait_cond_flag_t", value: other.into() }),
    }
}

/// Checks a pointer for NULL.
pub(crate) fn not_null<T>(what: &'static str, pointer: *const T) -> Result<(), CallError> {
    if pointer.is_null() {
        return Err(CallError::Null { what });
    }
    Ok(())
}

/// Checks a pointer for NULL and alignment.
pub(crate) fn check<T>(what: &'static str, pointer: *const T) -> Result<(), CallError> {
    not_null(what, pointer)?;
    if !pointer.is_aligned() {
        let (address, alignment) = (pointer.addr(), align_of::<T>());
        return Err(CallError::Misaligned { what, address, alignment });
    }
    Ok(())
}

/// A pointer that is neither NULL nor misaligned.
pub(crate) fn aligned<T>(what: &'static str, pointer: *mut T) -> Result<NonNull<T>, CallError> {
    check(what, pointer)?;
    NonNull::new(pointer).ok_or(CallError::Null { what })
}

/// The address of a 32-bit word, not NULL and aligned.
pub(crate) fn word(what: &'static str, pointer: *const u8) -> Result<usize, CallError> {
    let address = pointer.expose_provenance();
    if address == 0 {
        return Err(CallError::Null { what });
    }
    if !address.is_multiple_of(4) {
        return Err(CallError::Misaligned { what, address, alignment: 4 });
    }
    Ok(address)
}

/// Checks the length of a write by value.
pub(crate) fn bytes(count: usize) -> Result<usize, CallError> {
    let is_whole = count.is_multiple_of(4) && (4..=engine::lower::MAX_BYTES).contains(&count);
    is_whole.then_some(count).ok_or(CallError::Bytes { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_exactly_one_memory_type() {
        for (flags, expected) in [
            (1, Some(MemoryType::Gpu)),
            (2, Some(MemoryType::Host)),
            (4, Some(MemoryType::Io)),
            (0, None),
            (3, None),
            (5, None),
            (7, None),
            (2 | 8, Some(MemoryType::Host)),
            (2 | 16, None),
            (-1, None),
        ] {
            assert_eq!(memory_type(flags, 8).ok(), expected, "{flags:#x}");
        }
    }
}
