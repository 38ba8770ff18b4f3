//! The escapes, one an ioctl: `_IOC(READ | WRITE, 'F', number, size of the structure)` (nv-ioctl-numbers.h,
//! `nv_escape.h`, `nv-unix-nvos-params-wrappers.h`, nvos.h, nv-ioctl.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `NV_ESC_RM_FREE` with [`Free`].
pub const FREE: u32 = number(0x29, size_of::<Free>());
/// `NV_ESC_RM_CONTROL` with [`Control`].
pub const CONTROL: u32 = number(0x2A, size_of::<Control>());
/// `NV_ESC_RM_ALLOC` with [`Allocate`], the form of 32 bytes that every release takes.
pub const ALLOCATE: u32 = number(0x2B, size_of::<Allocate>());
/// `NV_ESC_RM_DUP_OBJECT` with [`Duplicate`].
pub const DUPLICATE: u32 = number(0x34, size_of::<Duplicate>());
/// `NV_ESC_RM_MAP_MEMORY` with [`MapMemory`].
pub const MAP_MEMORY: u32 = number(0x4E, size_of::<MapMemory>());
/// `NV_ESC_RM_UNMAP_MEMORY` with [`UnmapMemory`].
pub const UNMAP_MEMORY: u32 = number(0x4F, size_of::<UnmapMemory>());
/// `NV_ESC_CARD_INFO` with [`CARDS`] of [`CardInfo`].
pub const CARD_INFO: u32 = number(0xC8, CARDS * size_of::<CardInfo>());
/// `NV_ESC_REGISTER_FD` with [`RegisterFd`]; the only one that goes to a GPU's node.
pub const REGISTER_FD: u32 = number(0xC9, size_of::<RegisterFd>());
/// `NV_ESC_CHECK_VERSION_STR` with [`Version`].
pub const CHECK_VERSION: u32 = number(0xD2, size_of::<Version>());
/// Places in the table that [`CARD_INFO`] fills; fewer than the GPUs of the machine answer `EINVAL`.
pub const CARDS: usize = 32;
/// [`Version::command`] that asks (`NV_RM_API_VERSION_CMD_QUERY`, from 530.30.02; before it the string stays empty).
pub const VERSION_QUERY: u32 = b'2' as u32;

const BUSY_RETRIES: u32 = 1000;

const fn number(number: u32, size: usize) -> u32 {
    // Three: the kernel reads the structure and writes it.
    (3 << 30) | ((size as u32) << 16) | ((b'F' as u32) << 8) | number
}

/// `NVOS00_PARAMETERS`: frees an object and all below it.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Free {
    pub client: u32,
    /// Ignored by RM; the object's parent.
    pub parent: u32,
    /// What is freed.
    pub object: u32,
    /// Out: an NV status.
    pub status: u32,
}

/// `NVOS54_PARAMETERS`: a control call.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Control {
    pub client: u32,
    /// The object the command goes to.
    pub object: u32,
    pub command: u32,
    /// Zero.
    pub flags: u32,
    /// Address of the command's own structure.
    pub parameters: u64,
    /// Its size in bytes; RM takes the exact one alone.
    pub parameters_size: u32,
    /// Out: an NV status.
    pub status: u32,
}

/// `NVOS21_PARAMETERS`: makes an object. Its last two words changed places in 535 ([`Allocate::status`]).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Allocate {
    /// The client; zero when the client itself is made.
    pub client: u32,
    /// The new object's parent.
    pub parent: u32,
    /// The new object's handle: chosen by the caller, or zero and RM chooses.
    pub object: u32,
    pub class: u32,
    /// Address of the class's structure, or zero.
    pub parameters: u64,
    /// Before 535 the status; from 535 the size of the parameters, which RM takes from its class table when it is zero.
    pub status_or_size: u32,
    /// From 535 the status, before it padding.
    pub padding_or_status: u32,
}

impl Allocate {
    /// The status, in whichever word this release writes it: the other one stays zero as it was sent.
    pub const fn status(&self) -> u32 {
        self.status_or_size | self.padding_or_status
    }
}

/// `NVOS55_PARAMETERS`: a second handle of another client's object, and a reference to it.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Duplicate {
    /// Our client.
    pub client: u32,
    /// Our parent for the new object.
    pub parent: u32,
    /// The new handle.
    pub object: u32,
    /// The client whose object it is.
    pub source_client: u32,
    /// Its handle there.
    pub source_object: u32,
    /// Zero.
    pub flags: u32,
    /// Out: an NV status.
    pub status: u32,
}

/// `nv_ioctl_nvos33_parameters_with_fd`: prepares a CPU mapping, which one mmap of `fd` then makes.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct MapMemory {
    pub client: u32,
    /// The device whose BAR1 shows the memory. RM does not check that the memory is that device's.
    pub device: u32,
    pub memory: u32,
    pub padding: u32,
    /// First byte within the memory.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Out: what [`UnmapMemory`] wants back.
    pub linear_address: u64,
    /// Out: an NV status.
    pub status: u32,
    /// Zero: readable and writable, caching as RM chooses.
    pub flags: u32,
    /// A fresh open file of the GPU's node: a file takes one mapping in its life.
    pub fd: i32,
    pub padding_end: u32,
}

/// `NVOS34_PARAMETERS`: undoes [`MapMemory`]; after munmap, never before.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct UnmapMemory {
    pub client: u32,
    /// The device it was mapped with.
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

/// `nv_ioctl_register_fd_t`: binds a file of a GPU's node to a client's control file, which it then keeps open.
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
    /// [`VERSION_QUERY`]; anything else may log an error in the kernel.
    pub command: u32,
    /// Out: 1 when the string was recognised.
    pub reply: u32,
    /// Out: the release, ended by a zero.
    pub text: [u8; 64],
}

/// `nv_ioctl_card_info_t`: one GPU of the machine, whether or not this process may open its node.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct CardInfo {
    /// Not zero where this place of the table is filled.
    pub valid: u8,
    pub padding: [u8; 3],
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u8,
    /// PCI device.
    pub slot: u8,
    /// PCI function; never filled, so zero.
    pub function: u8,
    pub padding_pci: u8,
    /// PCI vendor.
    pub vendor: u16,
    /// PCI device identification.
    pub device: u16,
    /// RM's number of the GPU: domain, bus and device put together.
    pub gpu_id: u32,
    /// Interrupt line.
    pub interrupt: u16,
    pub padding_interrupt: [u8; 2],
    /// Physical address of BAR0.
    pub registers_address: u64,
    /// Bytes of BAR0.
    pub registers_size: u64,
    /// Physical address of BAR1.
    pub bar1_address: u64,
    /// Bytes of BAR1 (the header calls it framebuffer).
    pub bar1_size: u64,
    /// N of `/dev/nvidiaN`.
    pub minor: u32,
    /// A name of the device, for reading.
    pub name: [u8; 10],
    pub padding_end: [u8; 2],
}

/// `NV0080_ALLOC_PARAMETERS` of [`super::CLASS_DEVICE`].
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct DeviceParameters {
    /// The device's instance, not its minor and not CUDA's ordinal.
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
    /// Zero: the first.
    pub subdevice: u32,
}

/// Sends one escape and waits out interruptions.
///
/// # Safety
/// `request` must be the number of an escape whose structure is `T`, with the files and addresses in `argument` as that
/// escape wants them: RM reads and writes through every address given to it.
///
/// # Errors
/// What the kernel answered. An NV status is no error here: the caller reads it from `argument`.
pub unsafe fn escape<T>(file: BorrowedFd<'_>, request: u32, argument: &mut T) -> io::Result<()> {
    let mut busy = 0;
    loop {
        // SAFETY: the caller promises that `request` reads and writes a `T`, which `argument` borrows for the call.
        let answer = unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                request as libc::Ioctl,
                std::ptr::from_mut(argument),
            )
        };
        if answer >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // A lock not taken in time; to be repeated, but not for ever.
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
