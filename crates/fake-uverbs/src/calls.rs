//! The C library functions that this library overrides. Calls that do not concern the node go to the kernel through `syscall`,
//! which avoids looking up the overridden function.
//!
//! `open`, `openat` and `ioctl` are variadic in C. On Linux x86-64 and aarch64 the first integer arguments of a variadic function
//! are passed as usual, so an omitted third or fourth parameter is an unused garbage value.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::{command, ioctl, node};

/// The result of a system call; `syscall` has set `errno`.
fn int(result: c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}

/// Sets `errno` and returns -1.
pub fn fail(error: c_int) -> c_int {
    // SAFETY: the C library gives each thread its own errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// True if a path is the node's.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn is_node(path: *const c_char) -> bool {
    // SAFETY: the caller's guarantee.
    !path.is_null() && unsafe { CStr::from_ptr(path) } == node::PATH
}

/// `open`. libibverbs opens the node with it (rdma-core, `util/open_cdev.c`).
///
/// # Safety
///
/// As `open(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's path.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// `openat`.
///
/// # Safety
///
/// As `openat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    // SAFETY: the caller's path.
    if unsafe { is_node(path) } {
        return node::open().unwrap_or_else(fail);
    }
    // SAFETY: the caller's arguments; the kernel ignores an omitted mode.
    int(unsafe { libc::syscall(libc::SYS_openat, directory, path, flags, mode) })
}

/// `stat`. libibverbs checks that the node exists (`try_access_device` in `init.c`).
///
/// # Safety
///
/// As `stat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat(path: *const c_char, status: *mut libc::stat) -> c_int {
    // SAFETY: the caller's path.
    if unsafe { is_node(path) } {
        // SAFETY: the caller's buffer.
        unsafe { node::describe(status) };
        return 0;
    }
    // SAFETY: the caller's arguments; on 64-bit machines kernel and C library share the structure.
    int(unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, status, 0) })
}

/// `fstat`. libibverbs checks that it opened a character device with the right number.
///
/// # Safety
///
/// As `fstat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstat(fd: c_int, status: *mut libc::stat) -> c_int {
    if node::is(fd) {
        // SAFETY: the caller's buffer.
        unsafe { node::describe(status) };
        return 0;
    }
    // SAFETY: the caller's arguments.
    int(unsafe { libc::syscall(libc::SYS_fstat, fd, status) })
}

/// `write`: executes a command if the descriptor is the node's.
///
/// # Safety
///
/// As `write(2)`; the command contains the address of its response.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, length: usize) -> isize {
    if node::is(fd) {
        // SAFETY: the caller's bytes with the response's address, as libibverbs writes them.
        return match unsafe { command::execute(fd, from.cast(), length) } {
            Ok(()) => isize::try_from(length).unwrap_or(-1),
            Err(error) => fail(error) as isize,
        };
    }
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_write, fd, from, length) as isize }
}

/// `ioctl`: executes a method if the descriptor is the node's and the ioctl protocol is enabled.
///
/// # Safety
///
/// As `ioctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if node::is(fd) {
        // SAFETY: the caller's argument, as libibverbs writes it.
        return match unsafe { ioctl::answer(fd, request, argument) } {
            Ok(()) => 0,
            Err(error) => fail(error),
        };
    }
    // SAFETY: the caller's arguments; the kernel ignores an omitted one.
    int(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) })
}

/// `mmap`: maps a page of doorbell registers if the descriptor is the node's.
///
/// # Safety
///
/// As `mmap(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    let (protection, offset) = if node::is(fd) {
        match node::register_page(offset) {
            // The provider asks for write access only; tests also read.
            Ok(place) => (protection | libc::PROT_READ, place),
            Err(error) => {
                fail(error);
                return libc::MAP_FAILED;
            }
        }
    } else {
        (protection, offset)
    };
    // SAFETY: the caller's arguments, or an offset within the node's file.
    unsafe {
        libc::syscall(libc::SYS_mmap, at, length, protection, flags, fd, offset) as *mut c_void
    }
}

/// `close`.
///
/// # Safety
///
/// As `close(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if node::is(fd) {
        ioctl::forget(fd);
    }
    node::forget(fd);
    // SAFETY: the caller's descriptor.
    int(unsafe { libc::syscall(libc::SYS_close, fd) })
}

/// `socket`: refuses NETLINK_RDMA, so that libibverbs ignores the machine's own devices and reads the sysfs tree
/// (`find_sysfs_devs_nl` in `ibdev_nl.c`).
///
/// # Safety
///
/// As `socket(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    // `NETLINK_RDMA` of linux/netlink.h.
    const NETLINK_RDMA: c_int = 20;
    if family == libc::AF_NETLINK && protocol == NETLINK_RDMA {
        return fail(libc::EPROTONOSUPPORT);
    }
    // SAFETY: the caller's arguments.
    int(unsafe { libc::syscall(libc::SYS_socket, family, kind, protocol) })
}
