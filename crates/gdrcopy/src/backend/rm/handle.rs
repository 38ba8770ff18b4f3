//! Parsers of the 64-byte CUDA IPC handle, which names the memory object, and of pool export data,
//! which gives the position in the pool.
//!
//! CUDA does not document the layouts; they come from driver 580.159.04. [`super::trust`] verifies
//! each on our own memory before use, so another layout fails there.

use gdr_sys::rm;

/// Position of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) client: u32,
    pub(crate) memory: u32,
    /// Object size in bytes.
    pub(crate) object_size: u64,
    /// Offset of the allocation in the object.
    pub(crate) offset: u64,
    /// Allocation size in bytes.
    pub(crate) size: u64,
}

/// Unit of the object size in the handle, in bytes.
const PAGE: u64 = 4096;

/// Position of an allocation in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolPlace {
    /// Offset in bytes.
    pub(crate) offset: u64,
    /// Allocation size in bytes.
    pub(crate) size: u64,
}

/// Parses the result of `cuMemPoolExportPointer`; `None` if it does not fit this layout.
pub(crate) fn parse_pool(bytes: &[u8; 64]) -> Option<PoolPlace> {
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let place = PoolPlace { offset: long(24)?, size: long(32)? };
    let sound = place.size > 0 && place.offset.checked_add(place.size).is_some();
    sound.then_some(place)
}

/// Parses a handle; `None` if it does not fit this layout.
pub(crate) fn parse(handle: &[u8; 64]) -> Option<Position> {
    let word = |at: usize| Some(u32::from_le_bytes(handle.get(at..at + 4)?.try_into().ok()?));
    let size = u64::from(word(0x10)?) | (u64::from(word(0x14)?) << 32);
    let place = Position {
        client: word(0x30)?,
        memory: word(0x34)?,
        object_size: u64::from(word(0x18)?) * PAGE,
        offset: u64::from(word(0x1c)?),
        size,
    };
    let inside = place.offset.checked_add(size).is_some_and(|end| end <= place.object_size);
    let plausible =
        place.client & rm::CLIENT_HANDLE_MASK == rm::CLIENT_HANDLE_BASE && place.memory != 0;
    (plausible && inside && size > 0).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words from driver 580.159.04 on an H200 for 64 KiB, the third suballocation of a 2 MiB
    /// object.
    fn recorded() -> [u8; 64] {
        let mut words = [0_u32; 16];
        words[0] = 0x954a_ebf0;
        words[1] = 0x0000_5577;
        words[2] = 4711;
        words[4] = 0x10000;
        words[6] = 0x200;
        words[7] = 0x20000;
        words[12] = 0xc1d0_0019;
        words[13] = 0x5c00_0096;
        let mut bytes = [0; 64];
        for (at, word) in bytes.chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn parses_suballocation() {
        let place = parse(&recorded()).unwrap();
        assert_eq!((place.client, place.memory), (0xc1d0_0019, 0x5c00_0096));
        assert_eq!((place.object_size, place.offset, place.size), (2 << 20, 128 << 10, 64 << 10));
    }

    #[test]
    fn parses_pool_export() {
        // Driver 580.159.04, H200: 512 bytes after 1 MiB, 64 KiB and 40 MiB of the same pool.
        let words =
            [0x1a0_u32, 0, 1, 0, 0x1f48_6633, 5, 0x291_0000, 0, 0x200, 0, 0x6d, 0, 0, 0, 0, 0];
        let mut bytes = [0; 64];
        for (at, word) in bytes.chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let place = parse_pool(&bytes).unwrap();
        assert_eq!((place.offset, place.size), ((1 << 20) + (64 << 10) + (40 << 20), 512));
        assert_eq!(parse_pool(&[0; 64]), None);
        assert_eq!(parse_pool(&[0xff; 64]), None);
    }

    #[test]
    fn rejects_other_layouts() {
        for (at, byte) in [(0x33, 0x5c), (0x37, 0), (0x1e, 0xff), (0x12, 0)] {
            let mut bytes = recorded();
            if at == 0x37 {
                bytes[0x34..0x38].fill(0);
            }
            bytes[at] = byte;
            assert_eq!(parse(&bytes), None, "byte {at:#x}");
        }
        assert_eq!(parse(&[0; 64]), None);
        assert_eq!(parse(&[0xff; 64]), None);
    }
}
