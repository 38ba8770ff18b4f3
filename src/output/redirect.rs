//! Standard output of a child whose libraries print.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// While it lives, what libraries print to standard output goes to standard error.
pub struct Redirected(OwnedFd);

impl Redirected {
    pub fn begin() -> io::Result<Self> {
        let kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Self(kept))
    }

    /// The original standard output.
    pub fn original(&self) -> io::Result<File> {
        Ok(File::from(self.0.try_clone()?))
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        // Without it the end of the child's task is not reported, and the parent says so.
        let _ = rustix::stdio::dup2_stdout(&self.0);
    }
}
