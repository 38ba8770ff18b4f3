//! Whole pages around a range of device addresses: a pin covers whole pages.

use gpu::DevicePtr;

/// GPU page size of pins in bytes.
pub const GPU_PAGE: u64 = 1 << 16;

/// Whole pages around a range, and the range's offset in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Device address of the first page.
    pub(crate) start: DevicePtr,
    /// Length in bytes, a multiple of the page size.
    pub(crate) length: u64,
    /// Bytes from `start` to the requested address.
    pub(crate) lead: u64,
}

/// Pages of `page` bytes that hold `length` bytes at `address`; `None` for an empty range or on
/// address overflow.
pub(crate) fn around(address: DevicePtr, length: u64, page: u64) -> Option<Pages> {
    let mask = page - 1;
    let end = address.get().checked_add(length)?.checked_add(mask)? & !mask;
    let start = address.get() & !mask;
    (length > 0).then(|| Pages {
        start: DevicePtr::new(start),
        length: end - start,
        lead: address.get() - start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_to_whole_pages() {
        // Three suballocations of one block, as placed by CUDA on an H200.
        let pages = around(DevicePtr::new(0x7f00_0000_0200), 512, GPU_PAGE).unwrap();
        assert_eq!(
            pages,
            Pages { start: DevicePtr::new(0x7f00_0000_0000), length: 65536, lead: 512 }
        );
        let pages = around(DevicePtr::new(0x7f00_0001_2400), 65536, GPU_PAGE).unwrap();
        assert_eq!(
            pages,
            Pages { start: DevicePtr::new(0x7f00_0001_0000), length: 131_072, lead: 0x2400 }
        );
        assert_eq!(around(DevicePtr::new(0x7f00_0000_0000), 0, GPU_PAGE), None);
        assert_eq!(around(DevicePtr::new(u64::MAX - 10), 11, GPU_PAGE), None);
    }

    proptest! {
        #[test]
        fn pages_are_minimal(address in 0..1u64 << 56, length in 1..1u64 << 40) {
            let pages = around(DevicePtr::new(address), length, GPU_PAGE).unwrap();
            let (start, end) = (pages.start.get(), pages.start.get() + pages.length);
            prop_assert!(start.is_multiple_of(65536) && pages.length.is_multiple_of(65536));
            prop_assert!(start <= address && address + length <= end);
            prop_assert!(address - start < 65536 && end - (address + length) < 65536);
            prop_assert_eq!(start + pages.lead, address);
        }
    }
}
