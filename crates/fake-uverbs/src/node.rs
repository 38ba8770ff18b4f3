//! The node: its descriptors, its metadata, and the doorbell register pages behind each descriptor.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::nic::objects;
use crate::nic::registers::Registers;
use crate::switches::{Denied, switches};

/// Where libibverbs looks for sysfs device `uverbs0`.
pub const PATH: &CStr = c"/dev/infiniband/uverbs0";

/// Device number 231:192, Linux's first uverbs device, as in the test's `class/infiniband_verbs/uverbs0/dev`.
const NUMBER: (u32, u32) = (231, 192);

/// `MLX5_MAX_UARS` of libmlx5: the maximum of pages mapped when a device is opened.
pub const STATIC_PAGES: usize = 256;

/// Doorbell registers for thread domains, `MLX5_MAX_DYN_BFREGS` of Linux `mlx5_ib.h`: two per NIC page.
pub const DYNAMIC_REGISTERS: u32 = 1024;

/// Pages that hold them with 4 KiB pages; with larger pages some stay unused.
const DYNAMIC_PAGES: usize = 512;

/// Maximum of open descriptors in a process.
const CONTEXTS: usize = 64;

/// The node's descriptors, -1 if free. Lock-free, because `close` checks every descriptor of the process.
static OPEN: [AtomicI32; CONTEXTS] = [const { AtomicI32::new(-1) }; CONTEXTS];

/// The process that opened the node: a forked child that closes descriptors before exec must not destroy objects.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// True if a descriptor is the node's.
pub fn is(fd: c_int) -> bool {
    fd >= 0 && OPEN.iter().any(|open| open.load(Ordering::Acquire) == fd)
}

/// Opens the node: a memfd that holds all register pages. `EMFILE` if too many are open.
pub fn open() -> Result<c_int, c_int> {
    // SAFETY: a C string literal.
    let fd = unsafe { libc::memfd_create(c"fake-uverbs".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(libc::ENOMEM);
    }
    enter(fd).inspect_err(|_| {
        // SAFETY: the descriptor just made. Not `close`, which this library overrides.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    })?;
    Ok(fd)
}

fn enter(fd: c_int) -> Result<(), c_int> {
    let length = (STATIC_PAGES + DYNAMIC_PAGES) * page_bytes();
    // SAFETY: a descriptor of this library.
    if unsafe { libc::ftruncate(fd, i64::try_from(length).map_err(|_| libc::ENOMEM)?) } != 0 {
        return Err(libc::ENOMEM);
    }
    let registers = if switches().executes { Some(Registers::map(fd, length)?) } else { None };
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let mut objects = objects();
    let free = |open: &&AtomicI32| {
        open.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    OPEN.iter().find(free).ok_or(libc::EMFILE)?;
    objects.open(fd, registers);
    Ok(())
}

/// Destroys the objects of a descriptor that is being closed.
pub fn forget(fd: c_int) {
    if !is(fd) || PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let mut objects = objects();
    for open in &OPEN {
        let _ = open.compare_exchange(fd, -1, Ordering::AcqRel, Ordering::Relaxed);
    }
    objects.close(fd);
}

/// Fills in a character device with the right number.
///
/// # Safety
///
/// `status` is valid for a write.
pub unsafe fn describe(status: *mut libc::stat) {
    // SAFETY: integers and times: all zeros is valid.
    let mut node: libc::stat = unsafe { std::mem::zeroed() };
    node.st_mode = libc::S_IFCHR | 0o666;
    node.st_rdev = libc::makedev(NUMBER.0, NUMBER.1);
    // SAFETY: the caller's guarantee.
    unsafe { status.write(node) };
}

/// The file offset of the page for an `mmap` offset.
///
/// Bits 0-7 of the page number are the index, bits 8-15 the command (`get_uar_mmap_offset` in libmlx5's `mlx5.c`,
/// `enum mlx5_ib_mmap_cmd`), higher bits continue the index.
pub fn register_page(offset: i64) -> Result<i64, c_int> {
    /// `MLX5_IB_MMAP_REGULAR_PAGE`, `MLX5_IB_MMAP_WC_PAGE`, `MLX5_IB_MMAP_NC_PAGE`: the same page with different caching.
    const REGISTERS: [i64; 3] = [0, 2, 3];
    /// `MLX5_IB_MMAP_ALLOC_WC`: a page for a thread domain.
    const DYNAMIC: i64 = 6;
    let page = page();
    let number = offset / page;
    let denied = switches().denied;
    if denied == Denied::All {
        return Err(libc::EPERM);
    }
    match number >> 8 & 0xff {
        DYNAMIC => {
            let index = number & 0xff | number >> 16 << 8;
            if denied == Denied::Dynamic {
                return Err(libc::EPERM);
            }
            // The kernel has the same limit.
            if !(0..DYNAMIC_PAGES as i64).contains(&index) {
                return Err(libc::EINVAL);
            }
            Ok((STATIC_PAGES as i64 + index) * page)
        }
        command if REGISTERS.contains(&command) => Ok((number & 0xff) * page),
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// The page size in bytes.
pub fn page() -> i64 {
    // SAFETY: no pointer arguments.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

/// [`page`] as a `usize`.
pub fn page_bytes() -> usize {
    usize::try_from(page()).unwrap_or(4096)
}
