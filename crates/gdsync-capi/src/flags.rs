//! What `flags` parameters say: whose memory a word is, and what comes with it.

use std::ffi::c_int;

use gpu::Compare;

use crate::abi;
use crate::call_error::CallError;

/// Whose memory a word is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryType {
    /// The address is the GPU's own: device memory, or pinned host memory that CUDA gave.
    Gpu,
    /// Ordinary memory of the process.
    Host,
    /// Registers of another device, mapped into the process.
    Io,
}

/// No flags are known.
pub(crate) fn none(flags: c_int) -> Result<(), CallError> {
    match flags {
        0 => Ok(()),
        _ => Err(CallError::Flags { flags, allowed: 0 }),
    }
}

/// The memory type of `flags`, of which no bits may be set but its own and `others`.
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

/// The condition that a `gds_wait_cond_flag_t` names.
pub(crate) fn compare(condition: u32) -> Result<Compare, CallError> {
    match condition {
        0 => Ok(Compare::Geq),
        1 => Ok(Compare::Eq),
        2 => Ok(Compare::And),
        3 => Ok(Compare::Nor),
        other => Err(CallError::Value {
            of: "gds_wait_cond_flag_t",
            value: other.into(),
        }),
    }
}

/// The address of a word of 32 bits, or of the first of several.
pub(crate) fn word(what: &'static str, pointer: *const u8) -> Result<usize, CallError> {
    let address = pointer.expose_provenance();
    if address == 0 {
        return Err(CallError::Null { what });
    }
    if !address.is_multiple_of(4) {
        return Err(CallError::Misaligned {
            what,
            address,
            alignment: 4,
        });
    }
    Ok(address)
}

/// As many bytes as are written by value.
pub(crate) fn bytes(count: usize) -> Result<usize, CallError> {
    let is_whole = count.is_multiple_of(4) && (4..=engine::lower::MOST_BYTES).contains(&count);
    is_whole.then_some(count).ok_or(CallError::Bytes { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_type_is_one_bit() {
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
