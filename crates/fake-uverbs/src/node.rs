//! The node: which descriptor it is, what it looks like, and the pages of doorbell registers behind it.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

/// Where libibverbs looks for the device that sysfs calls `uverbs0`.
pub const PATH: &CStr = c"/dev/infiniband/uverbs0";

/// The device's number, 231:192: the one that Linux gives the first uverbs device. The test's sysfs tree says the same in
/// `class/infiniband_verbs/uverbs0/dev`.
const NUMBER: (u32, u32) = (231, 192);

/// `MLX5_MAX_UARS` of libmlx5: more pages it never maps.
const PAGES: i64 = 256;

/// The node's descriptor while it is open; a process has it open once.
static OPEN: AtomicI32 = AtomicI32::new(-1);

/// Whether a descriptor is the node's.
pub fn is(fd: c_int) -> bool {
    fd >= 0 && fd == OPEN.load(Ordering::Acquire)
}

/// Opens the node: a memory file of all pages of registers. `EBUSY` where it is open already.
pub fn open() -> Result<c_int, c_int> {
    if OPEN.load(Ordering::Acquire) >= 0 {
        return Err(libc::EBUSY);
    }
    // SAFETY: a name that ends with a zero byte.
    let fd = unsafe { libc::memfd_create(c"fake-uverbs".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(libc::ENOMEM);
    }
    // SAFETY: the descriptor of a line before.
    if unsafe { libc::ftruncate(fd, PAGES * page()) } != 0 {
        return Err(libc::ENOMEM);
    }
    OPEN.store(fd, Ordering::Release);
    Ok(fd)
}

/// The node is closed, where this descriptor was it.
pub fn forget(fd: c_int) {
    if is(fd) {
        OPEN.store(-1, Ordering::Release);
    }
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

/// Where in the file the page lies that `mmap` was asked for: the page number's low byte is its index, the byte above is the
/// command (`get_uar_mmap_offset` in libmlx5's `mlx5.c`, `enum mlx5_ib_mmap_cmd`).
pub fn register_page(offset: i64) -> Result<i64, c_int> {
    /// `MLX5_IB_MMAP_REGULAR_PAGE`, `MLX5_IB_MMAP_WC_PAGE`, `MLX5_IB_MMAP_NC_PAGE`: the same page with other caching.
    const REGISTERS: [i64; 3] = [0, 2, 3];
    let page = page();
    let number = offset / page;
    if !REGISTERS.contains(&(number >> 8)) {
        return Err(libc::EOPNOTSUPP);
    }
    Ok((number & 0xff) * page)
}

/// The size of a page, in bytes.
pub fn page() -> i64 {
    // SAFETY: a question without arguments in memory.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}
