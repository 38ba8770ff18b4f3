//! SIGINT, SIGTERM and SIGHUP of a command that ends its children and prints what it has.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// How long children may take to end, and a report to be read, after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// Added to a signal's number, as shells do.
const BY_SIGNAL: u8 = 128;

/// The signals that arrived.
pub struct Interrupts {
    /// Readable after a signal.
    pipe: UnixStream,
    /// The number of the last signal; 0 before the first.
    last: Arc<AtomicUsize>,
    /// A signal ends this process at once, because nothing is left but to print the report.
    prints: Arc<AtomicBool>,
}

impl Interrupts {
    /// From now on a signal ends the running child instead of this process. A second one ends this process at once, and so
    /// does one after [`printing`](Self::printing): a pipe that nobody reads would block it forever.
    pub fn catch() -> io::Result<Self> {
        let (pipe, for_children) = UnixStream::pair()?;
        let (mut signals, for_guard) = UnixStream::pair()?;
        let caught = Self { pipe, last: Arc::default(), prints: Arc::default() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Actions run in this order: who reads a pipe finds the number.
            let number = usize::try_from(signal).unwrap_or_default();
            flag::register_usize(signal, Arc::clone(&caught.last), number)?;
            low_level::pipe::register(signal, for_children.try_clone()?)?;
            low_level::pipe::register(signal, for_guard.try_clone()?)?;
        }
        let (last, prints) = (Arc::clone(&caught.last), Arc::clone(&caught.prints));
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut byte = [0];
            if signals.read_exact(&mut byte).is_ok() {
                if !prints.load(Ordering::Relaxed) {
                    // Either a second signal comes or the time is over.
                    let _ = signals.set_read_timeout(Some(GRACE));
                    let _ = signals.read_exact(&mut byte);
                }
                end_by(status(&last).unwrap_or(BY_SIGNAL));
            }
        })?;
        Ok(caught)
    }

    /// True after a signal.
    pub fn pending(&self) -> bool {
        is_readable(&self.pipe)
    }

    /// Readable after a signal.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// The measurements are over, and what is left is to print them.
    pub fn printing(&self) {
        self.prints.store(true, Ordering::Relaxed);
    }

    /// The exit status after a signal: 130 after Ctrl-C, 143 after SIGTERM.
    pub fn status(&self) -> Option<u8> {
        status(&self.last)
    }

    /// Interrupts from the other end of this socket.
    #[cfg(test)]
    pub fn of(pipe: UnixStream) -> Self {
        Self { pipe, last: Arc::default(), prints: Arc::default() }
    }
}

/// True if a read would not block: there is data, or the other end is closed.
pub fn is_readable(file: &impl AsFd) -> bool {
    let mut waiting = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
    poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

fn status(last: &AtomicUsize) -> Option<u8> {
    match u8::try_from(last.load(Ordering::SeqCst)) {
        Ok(0) | Err(_) => None,
        Ok(signal) => Some(BY_SIGNAL + signal),
    }
}

/// Ends this process with a status. One above 128 is a signal's, which then ends the process: otherwise a shell would go on
/// with a loop after Ctrl-C.
pub fn end_by(status: u8) -> ! {
    let code = i32::from(status);
    // The kernel spares the first process of a container.
    if status > BY_SIGNAL && std::process::id() != 1 {
        // Returns only if it does not know the signal.
        let _ = low_level::emulate_default_handler(code - i32::from(BY_SIGNAL));
    }
    std::process::exit(code)
}
