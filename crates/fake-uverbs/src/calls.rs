//! The functions of the C library that the double stands before, by their C names. What is not about the node is passed to
//! the kernel by `syscall`, which needs no look-up of the function that was hidden.
//!
//! `open`, `openat` and `ioctl` are variadic in C. On Linux' x86-64 and aarch64 a variadic function finds its first integer
//! arguments where any other does, so a third or fourth parameter that the caller left out is a value nobody looks at.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::{command, ioctl, node};

/// As the kernel's result, with `errno` set by `syscall`.
fn int(result: c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}

/// `errno`, and the result that says so.
pub fn fail(error: c_int) -> c_int {
    // SAFETY: the C library gives each thread its own errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Whether a path is the node's.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn is_node(path: *const c_char) -> bool {
    // SAFETY: this function's condition.
    !path.is_null() && unsafe { CStr::from_ptr(path) } == node::PATH
}

/// `open`. libibverbs opens the node by it (rdma-core, `util/open_cdev.c`).
///
/// # Safety
///
/// As `open(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's path, as the manual page asks for.
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
    // SAFETY: the caller's arguments; a mode that was not given is not read by the kernel either.
    int(unsafe { libc::syscall(libc::SYS_openat, directory, path, flags, mode) })
}

/// `stat`. libibverbs looks whether the node is there (`try_access_device` in `init.c`).
///
/// # Safety
///
/// As `stat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat(path: *const c_char, status: *mut libc::stat) -> c_int {
    // SAFETY: the caller's path.
    if unsafe { is_node(path) } {
        // SAFETY: the caller's room for a status.
        unsafe { node::describe(status) };
        return 0;
    }
    // SAFETY: the caller's arguments; on 64-bit machines the kernel's structure is the C library's.
    int(unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, status, 0) })
}

/// `fstat`. libibverbs checks that what it opened is a character device of the right number.
///
/// # Safety
///
/// As `fstat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstat(fd: c_int, status: *mut libc::stat) -> c_int {
    if node::is(fd) {
        // SAFETY: the caller's room for a status.
        unsafe { node::describe(status) };
        return 0;
    }
    // SAFETY: the caller's arguments.
    int(unsafe { libc::syscall(libc::SYS_fstat, fd, status) })
}

/// `write`: a command, where it goes to the node.
///
/// # Safety
///
/// As `write(2)`; a command's answer goes where the command says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, length: usize) -> isize {
    if node::is(fd) {
        // SAFETY: the caller's bytes, and the answer's address in them, as libibverbs makes them.
        return match unsafe { command::execute(fd, from.cast(), length) } {
            Ok(()) => isize::try_from(length).unwrap_or(-1),
            Err(error) => fail(error) as isize,
        };
    }
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_write, fd, from, length) as isize }
}

/// `ioctl`: a method of the newer protocol, where it is the node's and that is spoken.
///
/// # Safety
///
/// As `ioctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if node::is(fd) {
        // SAFETY: the caller's argument, as libibverbs makes it.
        return match unsafe { ioctl::answer(fd, request, argument) } {
            Ok(()) => 0,
            Err(error) => fail(error),
        };
    }
    // SAFETY: the caller's arguments; one that was not given is not read by the kernel either.
    int(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) })
}

/// `mmap`: a page of doorbell registers, where it is of the node.
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
            // The provider asks for writing alone; a test reads what it wrote.
            Ok(place) => (protection | libc::PROT_READ, place),
            Err(error) => {
                fail(error);
                return libc::MAP_FAILED;
            }
        }
    } else {
        (protection, offset)
    };
    // SAFETY: the caller's arguments, or a place within the node's file.
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

/// `socket`: none to the kernel's RDMA part, so that the machine's own devices, or their absence, say nothing and libibverbs
/// reads the sysfs tree (`find_sysfs_devs_nl` in `ibdev_nl.c`).
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
