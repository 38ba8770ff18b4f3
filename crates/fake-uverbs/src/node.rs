//! The node: which descriptors it has, what it looks like, and the pages of doorbell registers behind each.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::nic::registers::Registers;
use crate::nic::world;
use crate::switches::{Refused, switches};

/// Where libibverbs looks for the device that sysfs calls `uverbs0`.
pub const PATH: &CStr = c"/dev/infiniband/uverbs0";

/// The device's number, 231:192: the one that Linux gives the first uverbs device. The test's sysfs tree says the same in
/// `class/infiniband_verbs/uverbs0/dev`.
const NUMBER: (u32, u32) = (231, 192);

/// `MLX5_MAX_UARS` of libmlx5: more pages than these it never maps when it opens a device.
pub const STATIC_PAGES: usize = 256;

/// Doorbell registers that thread domains may have, `MLX5_MAX_DYN_BFREGS` of Linux' `mlx5_ib.h`: two to a NIC's page.
pub const DYNAMIC_REGISTERS: u32 = 1024;

/// The pages that hold them, where a page is 4 KiB; where it is larger, fewer hold them and the others are not mapped.
const DYNAMIC_PAGES: usize = 512;

/// How many times a process may have the node open at once.
const CONTEXTS: usize = 64;

/// The node's descriptors; -1 where none is. `close` asks of every descriptor of the process, so that there is no lock.
static OPEN: [AtomicI32; CONTEXTS] = [const { AtomicI32::new(-1) }; CONTEXTS];

/// The process that opened the node: what a child of a fork closes before it starts a program is not given back here.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether a descriptor is the node's.
pub fn is(fd: c_int) -> bool {
    fd >= 0 && OPEN.iter().any(|open| open.load(Ordering::Acquire) == fd)
}

/// Opens the node: a memory file of all pages of registers. `EMFILE` where it is open too often.
pub fn open() -> Result<c_int, c_int> {
    // SAFETY: a name that ends with a zero byte.
    let fd = unsafe { libc::memfd_create(c"fake-uverbs".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(libc::ENOMEM);
    }
    enter(fd).inspect_err(|_| {
        // SAFETY: the descriptor of above, which nobody else has heard of. Not `close`, which is this library's own.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    })?;
    Ok(fd)
}

fn enter(fd: c_int) -> Result<(), c_int> {
    let length = (STATIC_PAGES + DYNAMIC_PAGES) * page_bytes();
    // SAFETY: a descriptor of this library's.
    if unsafe { libc::ftruncate(fd, i64::try_from(length).map_err(|_| libc::ENOMEM)?) } != 0 {
        return Err(libc::ENOMEM);
    }
    let registers = if switches().executes {
        Some(Registers::map(fd, length)?)
    } else {
        None
    };
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let mut world = world();
    let free = |open: &&AtomicI32| {
        open.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    OPEN.iter().find(free).ok_or(libc::EMFILE)?;
    world.open(fd, registers);
    Ok(())
}

/// The node is closed, where this descriptor was of it: all that was made through it dies.
pub fn forget(fd: c_int) {
    if !is(fd) || PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let mut world = world();
    for open in &OPEN {
        let _ = open.compare_exchange(fd, -1, Ordering::AcqRel, Ordering::Relaxed);
    }
    world.close(fd);
}

/// A character device of the right number.
///
/// # Safety
///
/// `status` has room for one.
pub unsafe fn describe(status: *mut libc::stat) {
    // SAFETY: integers and times alone: zero is a value of each.
    let mut node: libc::stat = unsafe { std::mem::zeroed() };
    node.st_mode = libc::S_IFCHR | 0o666;
    node.st_rdev = libc::makedev(NUMBER.0, NUMBER.1);
    // SAFETY: this function's condition.
    unsafe { status.write(node) };
}

/// Where in the file the page lies that `mmap` was asked for.
///
/// Of the page number, the low byte is the index, and the byte above it the command (`get_uar_mmap_offset` in libmlx5's
/// `mlx5.c`, `enum mlx5_ib_mmap_cmd`). An index of more than a byte goes on above the command.
pub fn register_page(offset: i64) -> Result<i64, c_int> {
    /// `MLX5_IB_MMAP_REGULAR_PAGE`, `MLX5_IB_MMAP_WC_PAGE`, `MLX5_IB_MMAP_NC_PAGE`: the same page with other caching.
    const REGISTERS: [i64; 3] = [0, 2, 3];
    /// `MLX5_IB_MMAP_ALLOC_WC`: a page for a thread domain.
    const DYNAMIC: i64 = 6;
    let page = page();
    let number = offset / page;
    let refused = switches().refused;
    if refused == Refused::All {
        return Err(libc::EPERM);
    }
    match number >> 8 & 0xff {
        DYNAMIC => {
            let index = number & 0xff | number >> 16 << 8;
            if refused == Refused::Dynamic {
                return Err(libc::EPERM);
            }
            // The kernel knows of no further pages either.
            if !(0..DYNAMIC_PAGES as i64).contains(&index) {
                return Err(libc::EINVAL);
            }
            Ok((STATIC_PAGES as i64 + index) * page)
        }
        command if REGISTERS.contains(&command) => Ok((number & 0xff) * page),
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// The size of a page, in bytes.
pub fn page() -> i64 {
    // SAFETY: a question without arguments in memory.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

/// [`page`], as a length.
pub fn page_bytes() -> usize {
    usize::try_from(page()).unwrap_or(4096)
}
