//! An error with its causes on one line: for people, logs and reports.

use std::error::Error;

/// The error and what caused it, outermost first, with colons between them.
///
/// ```
/// let error = gpu::pointer::describe(gpu::DevicePtr::new(0)).unwrap_err();
/// assert!(!gpu::sentence(&error).contains('\n'));
/// ```
#[must_use]
pub fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // Transparent errors repeat their cause.
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text.replace('\n', "; ")
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
    fn causes_follow_once_each_and_on_one_line() {
        let cause = || std::io::Error::other("no such\nfile");
        let plain = Failure::Open(cause());
        assert_eq!(sentence(&plain), "cannot open the library: no such; file");
        let through = Failure::Through(Box::new(Failure::Open(cause())));
        assert_eq!(sentence(&through), "cannot open the library: no such; file");
        assert_eq!(sentence(&cause()), "no such; file");
    }
}
