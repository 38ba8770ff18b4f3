//! The work of one node: another gdr with a deadline. Its output goes to files, so it never waits for a reader.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::model::Absence;
use crate::probe::gather::Outcome;

const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Most bytes of a report.
const MAX_REPORT: u64 = 64 << 20;
/// Most bytes of its messages that are read.
const MAX_MESSAGES: u64 = 64 << 10;

/// Runs gdr with these arguments; the outcome is its standard output.
pub fn run(
    arguments: &[OsString],
    timeout: Duration,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Outcome {
    let failed =
        |error: io::Error| (Absence::Ended, format!("cannot start gdr on this node: {error}"));
    let mut output = tempfile::tempfile().map_err(failed)?;
    let mut messages = tempfile::tempfile().map_err(failed)?;
    let copy = |file: &File| file.try_clone().map_err(failed);
    let child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(copy(&output)?)
        .stderr(copy(&messages)?)
        .spawn()
        .map_err(failed)?;
    let ended = wait(Running(child), Instant::now() + timeout, interrupted).map_err(failed)?;
    let printed = read(&mut messages, MAX_MESSAGES).map_err(failed)?;
    let last = printed.lines().last().map_or(String::new(), |line| format!(": {line}"));
    match ended {
        Ended::Exited(status) if matches!(status.code(), Some(0 | 1 | 3)) => {
            read(&mut output, MAX_REPORT).map_err(failed)
        }
        Ended::Exited(status) => Err((Absence::Ended, format!("gdr ended with {status}{last}"))),
        Ended::TimedOut => {
            let seconds = timeout.as_secs();
            Err((
                Absence::TimedOut,
                format!("gdr did not finish within {seconds} s and was killed{last}"),
            ))
        }
        Ended::Interrupted => Err((Absence::Ended, "it was interrupted".to_owned())),
    }
}

enum Ended {
    Exited(ExitStatus),
    TimedOut,
    Interrupted,
}

/// Kills the child on drop. One that is stuck in the kernel dies later: nothing waits for it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Ignored: it has ended already.
        let _ = self.0.kill();
        let _ = self.0.try_wait();
    }
}

fn wait(mut child: Running, until: Instant, interrupted: &dyn Fn() -> bool) -> io::Result<Ended> {
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(Ended::Exited(status));
        }
        if interrupted() {
            return Ok(Ended::Interrupted);
        }
        if Instant::now() >= until {
            return Ok(Ended::TimedOut);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn read(file: &mut File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
