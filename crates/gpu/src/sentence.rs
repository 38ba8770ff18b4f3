//! Formats an error and its causes on one line.

use std::error::Error;

/// The error and its causes, outermost first, separated by colons.
///
/// ```
/// let error = gpu::pointer::describe(gpu::DevicePtr::new(0)).unwrap_err();
/// assert!(!gpu::sentence(&error).contains('\n'));
/// ```
#[must_use]
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = words(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = words(error);
        // Transparent errors repeat their cause.
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text.replace('\n', "; ")
}

/// Message of one error. System errors are worded here: the C library's `strerror` takes locale
/// locks, which may be held in a forked child.
fn words(error: &(dyn Error + 'static)) -> String {
    let io = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    let errno =
        io.or_else(|| error.downcast_ref::<rustix::io::Errno>().map(|errno| errno.raw_os_error()));
    match errno {
        Some(errno) => format!("{} (os error {errno})", gdr_sys::process::os_text(errno)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("cannot open the library")]
        Open(#[source] std::io::Error),
        #[error(transparent)]
        Through(Box<Failure>),
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri words errors otherwise than the C library")]
    fn system_errors_match_std() {
        for errno in [2, 13, 22, 110, 525] {
            let error = std::io::Error::from_raw_os_error(errno);
            assert_eq!(sentence(&error), error.to_string());
            assert_eq!(sentence(&rustix::io::Errno::from_raw_os_error(errno)), error.to_string());
        }
        let through = Failure::Open(std::io::Error::from_raw_os_error(13));
        assert_eq!(sentence(&through), "cannot open the library: Permission denied (os error 13)");
    }

    #[test]
    fn causes_are_joined_once() {
        let cause = || std::io::Error::other("no such\nfile");
        let plain = Failure::Open(cause());
        assert_eq!(sentence(&plain), "cannot open the library: no such; file");
        let through = Failure::Through(Box::new(Failure::Open(cause())));
        assert_eq!(sentence(&through), "cannot open the library: no such; file");
        assert_eq!(sentence(&cause()), "no such; file");
    }
}
