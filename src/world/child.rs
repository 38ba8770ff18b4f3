//! Child processes with a deadline: they end in time or are killed.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::keeper;

/// How often it is checked whether a keeper was killed: what a library forked may hold the pipe open.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Limit of a child's output.
pub const MOST: usize = 16 << 20;

pub struct Running {
    child: Child,
    deadline: Instant,
    kind: Kind,
    /// The child closed its standard output.
    answered: bool,
}

/// What is killed with the child.
#[derive(Clone, Copy)]
enum Kind {
    Alone,
    /// The process group that it leads.
    Group,
    /// Everything that it started, by the keeper that it is.
    Kept,
}

impl Running {
    /// Starts a command without input and without standard error.
    pub fn start(command: &mut Command, allowed: Duration) -> io::Result<Self> {
        Self::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()), allowed)
    }

    /// Starts a command without input; the caller chose its output.
    pub fn spawn(command: &mut Command, allowed: Duration) -> io::Result<Self> {
        Self::begin(command, allowed, Kind::Alone)
    }

    /// Starts a [`keeper`] without input and without standard error.
    pub fn start_kept(command: &mut Command, timeout: Duration) -> io::Result<Self> {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        Self::begin(command, timeout, Kind::Kept)
    }

    /// Like `spawn`, in a new process group: its descendants are killed with it, and an interrupt from the
    /// terminal reaches only gdr, so that the command can finish.
    pub fn spawn_group(command: &mut Command, timeout: Duration) -> io::Result<Self> {
        Self::begin(command.process_group(0), timeout, Kind::Group)
    }

    fn begin(command: &mut Command, timeout: Duration, kind: Kind) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Self { child, deadline: Instant::now() + timeout, kind, answered: false })
    }

    /// Waits for the exit status; `TimedOut` after the deadline.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        loop {
            let ended = match self.kind {
                Kind::Kept => keeper::try_wait(&mut self.child)?,
                Kind::Alone | Kind::Group => self.child.try_wait()?,
            };
            if let Some(status) = ended {
                return Ok(status);
            }
            if Instant::now() >= self.deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads all standard output; `TimedOut` after the deadline. The child may still be exiting: closing a GPU
    /// takes the kernel milliseconds.
    pub fn output(&mut self) -> io::Result<Vec<u8>> {
        let Some(pipe) = self.child.stdout.take() else {
            return Ok(Vec::new());
        };
        let mut output = Vec::new();
        let mut buffer = [0; 16384];
        loop {
            // Reads what arrived in time, even if this thread ran late.
            let left = self.deadline.saturating_duration_since(Instant::now());
            let waits = match self.kind {
                Kind::Kept => left.min(CHECK_INTERVAL),
                Kind::Alone | Kind::Group => left,
            };
            let timeout = Timespec {
                tv_sec: i64::try_from(waits.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: waits.subsec_nanos().into(),
            };
            let mut waiting = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
            match poll(&mut waiting, Some(&timeout)) {
                Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                Ok(0) => {
                    if matches!(self.kind, Kind::Kept) {
                        keeper::try_wait(&mut self.child)?;
                    }
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            match rustix::io::read(&pipe, &mut buffer) {
                Ok(0) => {
                    self.answered = true;
                    return Ok(output);
                }
                Ok(count) => output.extend_from_slice(&buffer[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if output.len() > MOST {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
    }
}

impl Drop for Running {
    /// Kills the child. One that is stuck in the kernel dies later; do not wait for it.
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // The only error of a signal: it has ended already.
        match self.kind {
            Kind::Kept if self.answered => return keeper::end_meanwhile(&mut self.child),
            Kind::Kept => return keeper::end(&mut self.child),
            Kind::Alone | Kind::Group if matches!(self.child.try_wait(), Ok(Some(_))) => return,
            Kind::Alone => {
                let _ = self.child.kill();
            }
            Kind::Group => {
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        let _ = self.child.try_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, allowed: u64) -> io::Result<(Vec<u8>, ExitStatus)> {
        let mut command = Command::new("/bin/sh");
        let mut running =
            Running::start(command.args(["-c", script]), Duration::from_millis(allowed))?;
        Ok((running.output()?, running.status()?))
    }

    #[test]
    fn returns_output_and_exit_status() {
        let (output, status) = run("printf hello; exit 3", 10_000).expect("an answer");
        assert_eq!(output, b"hello");
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn reads_output_written_in_time_after_deadline() {
        let mut command = Command::new("/bin/sh");
        let allowed = Duration::from_millis(10);
        let mut running =
            Running::start(command.args(["-c", "printf hello"]), allowed).expect("a child");
        running.child.wait().expect("its end");
        std::thread::sleep(2 * allowed);
        assert_eq!(running.output().expect("an answer"), b"hello");
    }

    #[test]
    fn kills_descendants() {
        let pid = tempfile::NamedTempFile::new().expect("a file");
        let script = format!("sleep 600 & echo $! > {}; wait", pid.path().display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running =
            Running::spawn_group(&mut command, Duration::from_millis(300)).expect("a child");
        assert_eq!(running.status().expect_err("it hangs").kind(), io::ErrorKind::TimedOut);
        drop(running);
        let pid = std::fs::read_to_string(pid.path()).expect("its number");
        let stat = format!("/proc/{}/stat", pid.trim());
        let is_gone = || {
            std::fs::read_to_string(&stat).is_err()
                || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_gone() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_gone(), "process {pid} goes on");
    }

    #[test]
    fn kills_child_at_deadline() {
        let start = Instant::now();
        for script in ["sleep 60", "exec >&-; sleep 60"] {
            let error = run(script, 100).expect_err("it hangs");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
