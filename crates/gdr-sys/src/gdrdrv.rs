//! The ioctl ABI of gdrdrv, gdrcopy's kernel module: numbers and layouts of versions 2.0 to 2.6
//! (gdrdrv.h).
//!
//! Most numbers encode a pointer size although the structure is larger, as upstream's header does
//! and the module expects.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// With [`PinBuffer`]; from 2.0.
pub const PIN_BUFFER: u32 = number(1, 40);
/// With [`Unpin`]; from 2.0.
pub const UNPIN_BUFFER: u32 = number(2, POINTER);
/// With [`CallbackFlag`]; from 2.0.
pub const CALLBACK_FLAG: u32 = number(3, POINTER);
/// With [`Information`]; from 2.0.
pub const INFORMATION: u32 = number(4, POINTER);
/// With [`InformationV2`]; from 2.4.
pub const INFORMATION_V2: u32 = number(5, POINTER);
/// With [`Attribute`]; from 2.5.
pub const ATTRIBUTE: u32 = number(6, POINTER);
/// With [`PinBufferV2`]; from 2.5.
pub const PIN_BUFFER_V2: u32 = number(7, 32);
/// With [`RequestMappingType`]; from 2.5.
pub const REQUEST_MAPPING_TYPE: u32 = number(8, POINTER);
/// With [`Version`]; from 2.0.
pub const VERSION: u32 = number(255, POINTER);

/// Pins cover whole GPU pages of 64 KiB.
pub const GPU_PAGE: u64 = 1 << 16;
/// [`Attribute::attribute`]: 1 if pins outlive the free of the memory.
pub const ATTRIBUTE_PERSISTENT: u32 = 1;
/// [`Attribute::attribute`]: 1 if [`PIN_FORCE_PCIE`] is supported.
pub const ATTRIBUTE_FORCE_PCIE: u32 = 2;
/// [`PinBufferV2::flags`]: map through PCIe on a coherent machine.
pub const PIN_FORCE_PCIE: u32 = 1;

const POINTER: u32 = 8;

const fn number(number: u32, size: u32) -> u32 {
    (3 << 30) | (size << 16) | (0xDA << 8) | number
}

/// `GDRDRV_IOC_PIN_BUFFER_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct PinBuffer {
    /// Device address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Zero: tokens are deprecated.
    pub token: u64,
    /// Zero.
    pub address_space: u32,
    pub padding: u32,
    /// Out: the handle; 0 is a valid handle.
    pub handle: u64,
}

/// `GDRDRV_IOC_PIN_BUFFER_V2_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct PinBufferV2 {
    /// Device address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Zero or [`PIN_FORCE_PCIE`].
    pub flags: u32,
    pub padding: u32,
    /// Out: the handle.
    pub handle: u64,
}

/// `GDRDRV_IOC_UNPIN_BUFFER_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Unpin {
    pub handle: u64,
}

/// `GDRDRV_IOC_GET_CB_FLAG_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct CallbackFlag {
    pub handle: u64,
    /// Out: 1 once the pinned memory was freed.
    pub flag: u32,
    pub padding: u32,
}

/// `GDRDRV_IOC_GET_INFO_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Information {
    pub handle: u64,
    /// Out: device address of the first pinned page.
    pub va: u64,
    /// Out: pinned bytes, in whole pages.
    pub mapped_size: u64,
    /// Out: page size in bytes.
    pub page_size: u32,
    /// Out: kHz of the clock behind `cycles`.
    pub khz: u32,
    /// Out: cycles spent pinning.
    pub cycles: u64,
    /// Out: 1 while mapped.
    pub mapped: u32,
    /// Out: 1 if the mapping is write-combined.
    pub write_combining: u32,
}

/// `GDRDRV_IOC_GET_INFO_V2_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct InformationV2 {
    pub handle: u64,
    /// Out: device address of the first pinned page.
    pub va: u64,
    /// Out: pinned bytes, in whole pages.
    pub mapped_size: u64,
    /// Out: page size in bytes.
    pub page_size: u32,
    /// Out: kHz of the clock behind `cycles`.
    pub khz: u32,
    /// Out: cycles spent pinning.
    pub cycles: u64,
    /// Out: 0 not mapped, 1 write-combined, 2 cached, 3 device.
    pub mapping_type: u32,
    pub padding: u32,
}

/// `GDRDRV_IOC_GET_ATTR_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Attribute {
    /// In: attribute number.
    pub attribute: u32,
    /// Out: its value.
    pub value: u32,
}

/// `GDRDRV_IOC_REQ_MAPPING_TYPE_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct RequestMappingType {
    pub handle: u64,
    /// Type of the next mmap, as in [`InformationV2::mapping_type`].
    pub mapping_type: u32,
    pub padding: u32,
}

/// `GDRDRV_IOC_GET_VERSION_PARAMS`; each word is major << 16 | minor.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Version {
    /// Out: the module's version.
    pub driver: u32,
    /// Out: oldest supported library version.
    pub minimum_library: u32,
}

/// Issues an ioctl, retrying on `EINTR`.
///
/// # Safety
/// `request` must be one of this module's numbers and `T` its structure.
///
/// # Errors
/// Error of the kernel module.
pub unsafe fn ioctl<T>(file: BorrowedFd<'_>, request: u32, argument: &mut T) -> io::Result<()> {
    loop {
        // SAFETY: the caller guarantees that `request` reads and writes a `T`, which `argument`
        // borrows for the call.
        let answer = unsafe {
            libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, std::ptr::from_mut(argument))
        };
        if answer >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        PIN_BUFFER == 0xC028_DA01 && UNPIN_BUFFER == 0xC008_DA02 && CALLBACK_FLAG == 0xC008_DA03
    );
    assert!(
        INFORMATION == 0xC008_DA04 && INFORMATION_V2 == 0xC008_DA05 && ATTRIBUTE == 0xC008_DA06
    );
    assert!(
        PIN_BUFFER_V2 == 0xC020_DA07
            && REQUEST_MAPPING_TYPE == 0xC008_DA08
            && VERSION == 0xC008_DAFF
    );
    assert!(size_of::<PinBuffer>() == 40 && offset_of!(PinBuffer, address_space) == 24);
    assert!(offset_of!(PinBuffer, handle) == 32);
    assert!(size_of::<PinBufferV2>() == 32 && offset_of!(PinBufferV2, flags) == 16);
    assert!(offset_of!(PinBufferV2, handle) == 24);
    assert!(size_of::<Unpin>() == 8);
    assert!(size_of::<CallbackFlag>() == 16 && offset_of!(CallbackFlag, flag) == 8);
    assert!(size_of::<Information>() == 48 && offset_of!(Information, page_size) == 24);
    assert!(offset_of!(Information, khz) == 28 && offset_of!(Information, cycles) == 32);
    assert!(
        offset_of!(Information, mapped) == 40 && offset_of!(Information, write_combining) == 44
    );
    assert!(size_of::<InformationV2>() == 48 && offset_of!(InformationV2, mapping_type) == 40);
    assert!(size_of::<Attribute>() == 8 && offset_of!(Attribute, value) == 4);
    assert!(
        size_of::<RequestMappingType>() == 16 && offset_of!(RequestMappingType, mapping_type) == 8
    );
    assert!(size_of::<Version>() == 8 && offset_of!(Version, minimum_library) == 4);
};
