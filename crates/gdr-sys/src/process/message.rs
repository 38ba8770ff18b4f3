//! Messages of a library in another program's process: to standard error, without locks that a
//! forked child could inherit locked.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the library is loaded, if the process then has no standard error. The next file that
/// the program opens gets this descriptor, and messages in it would destroy its contents.
static HAS_NO_STDERR: AtomicBool = AtomicBool::new(false);

extern "C" fn look_at_stderr() {
    // SAFETY: F_GETFD reads a flag of a descriptor, which need not be open.
    let flags = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) };
    HAS_NO_STDERR.store(flags < 0, Ordering::Relaxed);
}

/// The loader calls it before the program can open a file.
// SAFETY: the section holds pointers to functions, and this one needs nothing initialised: it makes
// a system call and stores to an atomic.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = look_at_stderr;

/// Writes a message to standard error by system call, in as few calls as possible so that lines of
/// several threads stay whole. Ignores failures: closing stderr is the caller's choice. Where it was
/// closed when the library was loaded, nothing is written.
pub fn write_error(message: &[u8]) {
    if HAS_NO_STDERR.load(Ordering::Relaxed) {
        return;
    }
    let mut rest = message;
    while !rest.is_empty() {
        // SAFETY: the bytes are a live slice.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(_) if is_interrupted() => {}
            Err(_) => return,
        }
    }
}

fn is_interrupted() -> bool {
    // SAFETY: errno belongs to the calling thread.
    unsafe { *libc::__errno_location() == libc::EINTR }
}

/// A number inside the kernel, which the C library does not name; drivers return it all the same.
const ENOTSUPP: i32 = 524;

/// Text of an errno, because the C library's `strerror` takes locale locks.
#[must_use]
pub fn os_text(errno: i32) -> Cow<'static, str> {
    match TEXTS.iter().find(|(known, _)| *known == errno) {
        Some((_, text)) => Cow::Borrowed(text),
        None if errno == ENOTSUPP => {
            Cow::Borrowed("Operation not supported by the driver, ENOTSUPP")
        }
        None => Cow::Owned(format!("Unknown error {errno}")),
    }
}

/// Errors of the kernel, drivers and network.
const TEXTS: [(i32, &str); 43] = [
    (libc::EPERM, "Operation not permitted"),
    (libc::ENOENT, "No such file or directory"),
    (libc::ESRCH, "No such process"),
    (libc::EINTR, "Interrupted system call"),
    (libc::EIO, "Input/output error"),
    (libc::ENXIO, "No such device or address"),
    (libc::E2BIG, "Argument list too long"),
    (libc::EBADF, "Bad file descriptor"),
    (libc::EAGAIN, "Resource temporarily unavailable"),
    (libc::ENOMEM, "Cannot allocate memory"),
    (libc::EACCES, "Permission denied"),
    (libc::EFAULT, "Bad address"),
    (libc::EBUSY, "Device or resource busy"),
    (libc::EEXIST, "File exists"),
    (libc::ENODEV, "No such device"),
    (libc::ENOTDIR, "Not a directory"),
    (libc::EISDIR, "Is a directory"),
    (libc::EINVAL, "Invalid argument"),
    (libc::ENFILE, "Too many open files in system"),
    (libc::EMFILE, "Too many open files"),
    (libc::ENOTTY, "Inappropriate ioctl for device"),
    (libc::ENOSPC, "No space left on device"),
    (libc::EROFS, "Read-only file system"),
    (libc::EPIPE, "Broken pipe"),
    (libc::ERANGE, "Numerical result out of range"),
    (libc::ENAMETOOLONG, "File name too long"),
    (libc::ENOSYS, "Function not implemented"),
    (libc::ELOOP, "Too many levels of symbolic links"),
    (libc::ENODATA, "No data available"),
    (libc::EPROTO, "Protocol error"),
    (libc::EOVERFLOW, "Value too large for defined data type"),
    (libc::EMSGSIZE, "Message too long"),
    (libc::EPROTONOSUPPORT, "Protocol not supported"),
    (libc::EOPNOTSUPP, "Operation not supported"),
    (libc::EADDRINUSE, "Address already in use"),
    (libc::EADDRNOTAVAIL, "Cannot assign requested address"),
    (libc::ENETUNREACH, "Network is unreachable"),
    (libc::ECONNRESET, "Connection reset by peer"),
    (libc::ETIMEDOUT, "Connection timed out"),
    (libc::ECONNREFUSED, "Connection refused"),
    (libc::EHOSTUNREACH, "No route to host"),
    (libc::EREMOTEIO, "Remote I/O error"),
    (libc::ECANCELED, "Operation canceled"),
];

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn texts_match_c_library() {
        for (errno, text) in TEXTS {
            // SAFETY: strerror returns a string for every number, valid until this thread's next
            // call.
            let theirs = unsafe { CStr::from_ptr(libc::strerror(errno)) };
            assert_eq!(theirs.to_str(), Ok(text), "{errno}");
        }
        assert_eq!(os_text(libc::EACCES), "Permission denied");
        assert_eq!(os_text(524), "Operation not supported by the driver, ENOTSUPP");
        assert_eq!(os_text(525), "Unknown error 525");
    }
}
