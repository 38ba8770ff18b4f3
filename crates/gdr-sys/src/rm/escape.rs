//! RM escape ioctls: `_IOC(READ | WRITE, 'F', number, size of the structure)` (nv-ioctl-numbers.h,
//! `nv_escape.h`, `nv-unix-nvos-params-wrappers.h`, nvos.h, nv-ioctl.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `NV_ESC_RM_FREE` with [`Free`].
pub const FREE: u32 = number(0x29, size_of::<Free>());
/// `NV_ESC_RM_CONTROL` with [`Control`].
pub const CONTROL: u32 = number(0x2A, size_of::<Control>());
/// `NV_ESC_RM_ALLOC` with [`Allocate`], the 32-byte form that every release accepts.
pub const ALLOCATE: u32 = number(0x2B, size_of::<Allocate>());
/// `NV_ESC_RM_DUP_OBJECT` with [`Duplicate`].
pub const DUPLICATE: u32 = number(0x34, size_of::<Duplicate>());
/// `NV_ESC_RM_MAP_MEMORY` with [`MapMemory`].
pub const MAP_MEMORY: u32 = number(0x4E, size_of::<MapMemory>());
/// `NV_ESC_RM_UNMAP_MEMORY` with [`UnmapMemory`].
pub const UNMAP_MEMORY: u32 = number(0x4F, size_of::<UnmapMemory>());
/// `NV_ESC_CARD_INFO` with [`CARDS`] of [`CardInfo`].
pub const CARD_INFO: u32 = number(0xC8, CARDS * size_of::<CardInfo>());
/// `NV_ESC_REGISTER_FD` with [`RegisterFd`]; the only one issued on a GPU's node.
pub const REGISTER_FD: u32 = number(0xC9, size_of::<RegisterFd>());
/// `NV_ESC_CHECK_VERSION_STR` with [`Version`].
pub const CHECK_VERSION: u32 = number(0xD2, size_of::<Version>());
/// Entries in the [`CARD_INFO`] table; a table smaller than the number of GPUs fails with `EINVAL`.
pub const CARDS: usize = 32;
/// Query value of [`Version::command`] (`NV_RM_API_VERSION_CMD_QUERY`, from 530.30.02; older
/// releases leave the string empty).
pub const VERSION_QUERY: u32 = b'2' as u32;

const BUSY_RETRIES: u32 = 1000;

const fn number(number: u32, size: usize) -> u32 {
    // 3 = read | write.
    (3 << 30) | ((size as u32) << 16) | ((b'F' as u32) << 8) | number
}

/// `NVOS00_PARAMETERS`: frees an object and its descendants.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Free {
    pub client: u32,
    /// Parent object; ignored by RM.
    pub parent: u32,
    /// Object to free.
    pub object: u32,
    /// Out: an NV status.
    pub status: u32,
}

/// `NVOS54_PARAMETERS`: a control call.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Control {
    pub client: u32,
    /// Target object.
    pub object: u32,
    pub command: u32,
    /// Zero.
    pub flags: u32,
    /// Address of the command's parameters.
    pub parameters: u64,
    /// Parameter size in bytes; RM accepts only the exact size.
    pub parameters_size: u32,
    /// Out: an NV status.
    pub status: u32,
}

/// `NVOS21_PARAMETERS`: allocates an object. 535 swapped the last two words ([`Allocate::status`]).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Allocate {
    /// Client; zero when allocating the client itself.
    pub client: u32,
    /// Parent of the new object.
    pub parent: u32,
    /// Handle of the new object; zero lets RM choose.
    pub object: u32,
    pub class: u32,
    /// Address of the class parameters, or zero.
    pub parameters: u64,
    /// Before 535 the status; from 535 the parameter size, where zero means the size from RM's
    /// class table.
    pub status_or_size: u32,
    /// From 535 the status; before 535 padding.
    pub padding_or_status: u32,
}

impl Allocate {
    /// Status from whichever word this release writes; the other word stays zero.
    pub const fn status(&self) -> u32 {
        self.status_or_size | self.padding_or_status
    }
}

/// `NVOS55_PARAMETERS`: duplicates another client's object and takes a reference.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Duplicate {
    /// Our client.
    pub client: u32,
    /// Parent of the new object.
    pub parent: u32,
    /// The new handle.
    pub object: u32,
    /// Client that owns the source object.
    pub source_client: u32,
    /// Source object handle.
    pub source_object: u32,
    /// Zero.
    pub flags: u32,
    /// Out: an NV status.
    pub status: u32,
}

/// `nv_ioctl_nvos33_parameters_with_fd`: prepares a CPU mapping for one mmap of `fd`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct MapMemory {
    pub client: u32,
    /// Device whose BAR1 maps the memory. RM does not check that it owns the memory.
    pub device: u32,
    pub memory: u32,
    pub padding: u32,
    /// Byte offset in the memory.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Out: value for [`UnmapMemory`].
    pub linear_address: u64,
    /// Out: an NV status.
    pub status: u32,
    /// Zero: readable and writable, caching as RM chooses.
    pub flags: u32,
    /// Newly opened file of the GPU's node: each file supports one mapping.
    pub fd: i32,
    pub padding_end: u32,
}

/// `NVOS34_PARAMETERS`: undoes [`MapMemory`]; call it only after munmap.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct UnmapMemory {
    pub client: u32,
    /// Device used for the mapping.
    pub device: u32,
    pub memory: u32,
    pub padding: u32,
    /// [`MapMemory::linear_address`].
    pub linear_address: u64,
    /// Out: an NV status.
    pub status: u32,
    /// Zero.
    pub flags: u32,
}

/// `nv_ioctl_register_fd_t`: binds a file of a GPU's node to a client's control file and keeps that
/// open.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct RegisterFd {
    /// The file of `/dev/nvidiactl`.
    pub control: i32,
}

/// `nv_ioctl_rm_api_version_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Version {
    /// [`VERSION_QUERY`]; other values may log a kernel error.
    pub command: u32,
    /// Out: 1 if the string was recognised.
    pub reply: u32,
    /// Out: NUL-terminated release.
    pub text: [u8; 64],
}

/// `nv_ioctl_card_info_t`: one GPU, even if this process may not open its node.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct CardInfo {
    /// Nonzero if this entry is used.
    pub valid: u8,
    pub padding: [u8; 3],
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u8,
    /// PCI device.
    pub slot: u8,
    /// PCI function; never set, so zero.
    pub function: u8,
    pub padding_pci: u8,
    /// PCI vendor.
    pub vendor: u16,
    /// PCI device ID.
    pub device: u16,
    /// RM's GPU ID: domain, bus and device combined.
    pub gpu_id: u32,
    /// Interrupt line.
    pub interrupt: u16,
    pub padding_interrupt: [u8; 2],
    /// Physical address of BAR0.
    pub registers_address: u64,
    /// BAR0 size in bytes.
    pub registers_size: u64,
    /// Physical address of BAR1.
    pub bar1_address: u64,
    /// BAR1 size in bytes (the header calls it framebuffer).
    pub bar1_size: u64,
    /// N of `/dev/nvidiaN`.
    pub minor: u32,
    /// Human-readable device name.
    pub name: [u8; 10],
    pub padding_end: [u8; 2],
}

/// `NV0080_ALLOC_PARAMETERS` of [`super::CLASS_DEVICE`].
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct DeviceParameters {
    /// Device instance, not the minor or CUDA ordinal.
    pub device: u32,
    /// Our own client.
    pub client_share: u32,
    /// Zero.
    pub target_client: u32,
    /// Zero.
    pub target_device: u32,
    /// Zero.
    pub flags: u32,
    pub padding: u32,
    /// Zero.
    pub address_space_size: u64,
    /// Zero.
    pub address_space_start: u64,
    /// Zero.
    pub address_space_limit: u64,
    /// Zero.
    pub address_space_mode: u32,
    pub padding_end: u32,
}

/// `NV2080_ALLOC_PARAMETERS` of [`super::CLASS_SUBDEVICE`].
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct SubdeviceParameters {
    /// Zero: the first subdevice.
    pub subdevice: u32,
}

/// Issues an escape ioctl, retrying on `EINTR`.
///
/// # Safety
/// `request` must be an escape whose structure is `T`, with valid files and addresses in
/// `argument`: RM reads and writes through every address.
///
/// # Errors
/// Kernel error. NV status is not an error here: the caller reads it from `argument`.
pub unsafe fn escape<T>(file: BorrowedFd<'_>, request: u32, argument: &mut T) -> io::Result<()> {
    let mut busy = 0;
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
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // RM lock timeout: retry a bounded number of times.
            Some(libc::EAGAIN) if busy < BUSY_RETRIES => {
                busy += 1;
                std::thread::yield_now();
            }
            _ => return Err(error),
        }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Free>() == 16 && offset_of!(Free, status) == 12 && FREE == 0xC010_4629);
    assert!(
        size_of::<Control>() == 32
            && offset_of!(Control, parameters) == 16
            && CONTROL == 0xC020_462A
    );
    assert!(offset_of!(Control, parameters_size) == 24 && offset_of!(Control, status) == 28);
    assert!(
        size_of::<Allocate>() == 32
            && offset_of!(Allocate, parameters) == 16
            && ALLOCATE == 0xC020_462B
    );
    assert!(
        offset_of!(Allocate, status_or_size) == 24 && offset_of!(Allocate, padding_or_status) == 28
    );
    assert!(
        size_of::<Duplicate>() == 28
            && offset_of!(Duplicate, status) == 24
            && DUPLICATE == 0xC01C_4634
    );
    assert!(
        size_of::<MapMemory>() == 56
            && offset_of!(MapMemory, offset) == 16
            && MAP_MEMORY == 0xC038_464E
    );
    assert!(offset_of!(MapMemory, length) == 24 && offset_of!(MapMemory, linear_address) == 32);
    assert!(offset_of!(MapMemory, status) == 40 && offset_of!(MapMemory, flags) == 44);
    assert!(offset_of!(MapMemory, fd) == 48);
    assert!(size_of::<UnmapMemory>() == 32 && offset_of!(UnmapMemory, linear_address) == 16);
    assert!(offset_of!(UnmapMemory, status) == 24 && UNMAP_MEMORY == 0xC020_464F);
    assert!(size_of::<RegisterFd>() == 4 && REGISTER_FD == 0xC004_46C9);
    assert!(
        size_of::<Version>() == 72
            && offset_of!(Version, text) == 8
            && CHECK_VERSION == 0xC048_46D2
    );
    assert!(size_of::<CardInfo>() == 72 && CARD_INFO == 0xC900_46C8);
    assert!(
        offset_of!(CardInfo, domain) == 4
            && offset_of!(CardInfo, bus) == 8
            && offset_of!(CardInfo, slot) == 9
    );
    assert!(offset_of!(CardInfo, vendor) == 12 && offset_of!(CardInfo, gpu_id) == 16);
    assert!(
        offset_of!(CardInfo, registers_address) == 24 && offset_of!(CardInfo, bar1_address) == 40
    );
    assert!(offset_of!(CardInfo, bar1_size) == 48 && offset_of!(CardInfo, minor) == 56);
    assert!(offset_of!(CardInfo, name) == 60);
    assert!(
        size_of::<DeviceParameters>() == 56
            && offset_of!(DeviceParameters, address_space_size) == 24
    );
    assert!(offset_of!(DeviceParameters, address_space_mode) == 48);
    assert!(size_of::<SubdeviceParameters>() == 4);
};
