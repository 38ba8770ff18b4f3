//! Runs a child of this binary, with a deadline for each of its steps, so that a hanging driver ends with a message.
//!
//! The child is killed when a step exceeds its timeout or a person presses Ctrl-C; its results until then are kept. A child that
//! is stuck in the kernel is abandoned.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::events::{Event, Step};
use super::interrupts::{Interrupts, is_readable};
use crate::keeper;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often it is checked whether a keeper was killed: what a library forked may hold the pipe open.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Longest line of events.
const MAX_EVENT: usize = 4 << 20;

/// Bytes per read.
const CHUNK: usize = 16384;

/// Capacity of a pipe.
const PIPE: usize = 65536;

/// Longest line of standard error that is shown; longer lines are cut.
const MAX_MESSAGE: usize = 4096;

/// Output of a child.
pub enum Output {
    Event(Event),
    /// A line of standard error, from a library for example.
    Message(String),
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildEnd {
    /// It finished its task.
    Done,
    Interrupted,
    /// [`Wire::stop`] became readable.
    Stopped,
    /// A step exceeded its timeout.
    Hung(Step),
    /// It ended during a step.
    Crashed(Step, ExitStatus),
    /// It wrote a line that is not an event.
    Garbled(String),
}

/// A child's connection to another process.
pub struct Wire {
    /// The child's standard input.
    pub socket: Stdio,
    /// Readable when the child is to be stopped.
    pub stop: UnixStream,
    /// When the child last sent a message, which extends the deadline of its step.
    pub sent: Option<Arc<Mutex<Instant>>>,
}

impl Wire {
    fn last_sent(&self) -> Option<Instant> {
        let sent = self.sent.as_ref()?;
        Some(*sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a child, and passes its output to `report`. `timeout` is for the first step. A child that has sent its last event may still run:
/// it is killed when it is dropped.
pub fn watch(
    command: &mut Command,
    interrupts: &Interrupts,
    mut wire: Option<Wire>,
    timeout: Duration,
    report: &mut dyn FnMut(Output),
) -> io::Result<(ChildEnd, KillOnDrop)> {
    let input = wire.as_mut().map(|wire| std::mem::replace(&mut wire.socket, Stdio::null()));
    let child = command
        .stdin(input.unwrap_or_else(Stdio::null))
        .stdout(Stdio::piped())
        // Keeps escape sequences of libraries from the terminal.
        .stderr(Stdio::piped())
        // Ctrl-C goes to the parent only, which ends the child and prints the report.
        .process_group(0)
        .spawn()?;
    let mut child = KillOnDrop { child, waits: true };
    // Closes the parent's copy of the child's socket, so that the peer sees the end of the child.
    command.stdin(Stdio::null());
    let Some(mut pipe) = child.child.stdout.take() else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let mut messages = Messages { pipe: child.child.stderr.take(), lines: Lines::default() };
    let ended =
        follow(&mut child, &mut pipe, &mut messages, interrupts, wire.as_ref(), timeout, report);
    // Reads at most a full pipe, because a child that hangs may continue to write.
    for _ in 0..PIPE / CHUNK {
        messages.read(report);
    }
    messages.flush(report);
    Ok((ended?, child))
}

fn follow(
    child: &mut KillOnDrop,
    pipe: &mut ChildStdout,
    messages: &mut Messages,
    interrupts: &Interrupts,
    wire: Option<&Wire>,
    timeout: Duration,
    report: &mut dyn FnMut(Output),
) -> io::Result<ChildEnd> {
    let mut lines = Lines::default();
    let mut step =
        Step { what: "this program to start a second time".to_owned(), timeout, done: 0, total: 1 };
    let mut since = Instant::now();
    loop {
        messages.read(report);
        since = since.max(wire.and_then(Wire::last_sent).unwrap_or(since));
        match wait(
            pipe,
            messages,
            interrupts,
            wire.map(|wire| &wire.stop),
            (since + step.timeout).saturating_duration_since(Instant::now()).min(CHECK_INTERVAL),
        )? {
            Ready::Interrupt => return Ok(ChildEnd::Interrupted),
            Ready::Stop => return Ok(ChildEnd::Stopped),
            Ready::Nothing if wire.and_then(Wire::last_sent).is_some_and(|sent| sent > since) => {
                continue;
            }
            Ready::Nothing if since.elapsed() >= step.timeout => return Ok(ChildEnd::Hung(step)),
            Ready::Nothing => {
                keeper::try_wait(&mut child.child)?;
                continue;
            }
            Ready::Child => {}
        }
        if !lines.read(pipe)? {
            // It may have more to write to standard error than a pipe holds.
            return Ok(match child.status(timeout, &mut || messages.read(report))? {
                Some(status) => ChildEnd::Crashed(step, status),
                None => ChildEnd::Hung(step),
            });
        }
        while let Some(line) = lines.next() {
            match serde_json::from_slice(&line) {
                Ok(Event::End) => return Ok(ChildEnd::Done),
                Ok(event) => {
                    if let Event::Doing(next) = &event {
                        step = next.clone();
                    }
                    since = Instant::now();
                    report(Output::Event(event));
                }
                Err(error) => return Ok(ChildEnd::Garbled(error.to_string())),
            }
        }
        if lines.0.len() > MAX_EVENT {
            return Ok(ChildEnd::Garbled("a line without an end".to_owned()));
        }
    }
}

enum Ready {
    Child,
    Interrupt,
    Stop,
    Nothing,
}

fn wait(
    pipe: &ChildStdout,
    messages: &Messages,
    interrupts: &Interrupts,
    stop: Option<&UnixStream>,
    left: Duration,
) -> io::Result<Ready> {
    let timeout = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    let mut waiting = vec![
        PollFd::from_borrowed_fd(interrupts.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
    ];
    waiting.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)));
    let others = waiting.len();
    waiting.extend(
        messages.pipe.as_ref().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)),
    );
    match poll(&mut waiting, Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Ready::Nothing),
        Ok(_) if !waiting[0].revents().is_empty() => Ok(Ready::Interrupt),
        // Events of the child go before a stop.
        Ok(_) if !waiting[1].revents().is_empty() => Ok(Ready::Child),
        Ok(_) if waiting[2..others].iter().any(|stop| !stop.revents().is_empty()) => {
            Ok(Ready::Stop)
        }
        // A line of standard error does not extend the deadline.
        Ok(_) => Ok(Ready::Nothing),
        Err(errno) => Err(errno.into()),
    }
}

/// Splits a pipe into lines; holds an incomplete one.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Reads once; false at the end of the file.
    fn read(&mut self, pipe: &impl AsFd) -> io::Result<bool> {
        let mut buffer = [0; CHUNK];
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.0.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let rest = self.0.split_off(end + 1);
        Some(std::mem::replace(&mut self.0, rest))
    }
}

/// A child's standard error.
struct Messages {
    pipe: Option<ChildStderr>,
    lines: Lines,
}

impl Messages {
    /// Reports complete lines, without blocking.
    fn read(&mut self, report: &mut dyn FnMut(Output)) {
        if let Some(pipe) = &self.pipe
            && is_readable(pipe)
            && !matches!(self.lines.read(pipe), Ok(true))
        {
            self.pipe = None;
        }
        while let Some(line) = self.lines.next() {
            report_line(&line, report);
        }
        if self.lines.0.len() > MAX_MESSAGE {
            self.flush(report);
        }
    }

    /// Reports an incomplete line.
    fn flush(&mut self, report: &mut dyn FnMut(Output)) {
        report_line(&std::mem::take(&mut self.lines.0), report);
    }
}

fn report_line(line: &[u8], report: &mut dyn FnMut(Output)) {
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_MESSAGE)]);
    let line = line.trim_end();
    if !line.is_empty() {
        report(Output::Message(line.to_owned()));
    }
}

/// A child that is killed when this is dropped.
pub struct KillOnDrop {
    child: Child,
    /// The drop waits for its end.
    waits: bool,
}

impl KillOnDrop {
    /// It has answered, so its end delays nobody.
    pub fn into_idle(mut self) -> Self {
        self.waits = false;
        self
    }

    /// Waits for its exit status, and calls `meanwhile` repeatedly; `None` after the timeout.
    fn status(
        &mut self,
        timeout: Duration,
        meanwhile: &mut dyn FnMut(),
    ) -> io::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        loop {
            meanwhile();
            match keeper::try_wait(&mut self.child)? {
                Some(status) => return Ok(Some(status)),
                None if begun.elapsed() >= timeout => return Ok(None),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Drop for KillOnDrop {
    /// The kernel needs a moment to end a process that uses a GPU; one that hangs in the driver never ends.
    fn drop(&mut self) {
        if self.waits {
            keeper::end(&mut self.child);
        } else {
            keeper::end_meanwhile(&mut self.child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENEROUS: Duration = Duration::from_secs(60);

    fn run(script: &str, timeout: Duration) -> (ChildEnd, Vec<Event>) {
        // A closed writing end would be an interrupt.
        let (reading, _writing) = UnixStream::pair().expect("a pair");
        run_with(script, timeout, &Interrupts::of(reading))
    }

    fn run_with(
        script: &str,
        timeout: Duration,
        interrupts: &Interrupts,
    ) -> (ChildEnd, Vec<Event>) {
        let mut events = Vec::new();
        let mut command = Command::new("/bin/sh");
        let ended = watch(command.args(["-c", script]), interrupts, None, timeout, &mut |output| {
            match output {
                Output::Event(event) => events.push(event),
                Output::Message(message) => events.push(Event::Note(format!("stderr: {message}"))),
            }
        });
        (ended.expect("a watch").0, events)
    }

    #[test]
    fn splits_standard_error_into_lines() {
        let script = r#"printf 'one\ntw' >&2; sleep 0.05; printf 'o\n\nx\033[2J' >&2
            head -c 100000 /dev/zero | tr '\0' a >&2; echo '"end"'; exec sleep 60"#;
        let (ended, events) = run(script, GENEROUS);
        assert_eq!(ended, ChildEnd::Done);
        let messages: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                Event::Note(note) => note.strip_prefix("stderr: "),
                _ => None,
            })
            .collect();
        assert_eq!(messages[..2], ["one", "two"]);
        assert!(messages[2].starts_with("x\u{1b}[2Jaaa"), "{:?}", &messages[2][..10]);
        assert!(messages.iter().all(|message| message.len() <= MAX_MESSAGE));
    }

    #[test]
    fn reads_events_until_end() {
        let script = r#"echo '{"note":"one"}'; printf '{"no'; sleep 0.05; echo 'te":"two"}'; echo '"end"'; exec sleep 60"#;
        let begun = Instant::now();
        let (ended, events) = run(script, GENEROUS);
        assert_eq!(ended, ChildEnd::Done);
        assert_eq!(events, [Event::Note("one".to_owned()), Event::Note("two".to_owned())]);
        assert!(begun.elapsed() < GENEROUS / 2, "waited for the exit");
    }

    #[test]
    fn endless_messages_do_not_extend_the_deadline() {
        let begun = Instant::now();
        let (ended, _) = run("exec yes >&2", Duration::from_millis(200));
        assert!(matches!(ended, ChildEnd::Hung(_)), "{ended:?}");
        assert!(begun.elapsed() < GENEROUS / 2);
    }

    #[test]
    fn reports_hung_step() {
        let script = r#"echo '{"doing":{"what":"the moon","timeout":{"secs":0,"nanos":50000000},"done":3,"total":4}}'
            exec sleep 60"#;
        let (ended, events) = run(script, GENEROUS);
        let ChildEnd::Hung(step) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!((step.what.as_str(), events.len()), ("the moon", 1));
    }

    #[test]
    fn distinguishes_crash_from_malformed_line() {
        let (ended, _) = run("echo '{\"note\":\"one\"}'; kill -SEGV $$", GENEROUS);
        let ChildEnd::Crashed(_, status) = ended else {
            panic!("{ended:?}");
        };
        assert!(
            status.to_string().contains("SEGV") || status.to_string().contains("11"),
            "{status}"
        );
        let (ended, _) = run("echo nonsense", GENEROUS);
        assert!(matches!(ended, ChildEnd::Garbled(_)), "{ended:?}");
    }

    #[test]
    fn interrupt_ends_child_and_keeps_events() {
        let (reading, mut writing) = UnixStream::pair().expect("a pair");
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::io::Write::write_all(&mut writing, b"x").expect("a signal");
            std::thread::sleep(GENEROUS);
        });
        let (ended, events) = run_with(
            "echo '{\"note\":\"one\"}'; exec sleep 60",
            GENEROUS,
            &Interrupts::of(reading),
        );
        assert_eq!(ended, ChildEnd::Interrupted);
        assert_eq!(events.len(), 1);
        let closed = Interrupts::of(UnixStream::pair().expect("a pair").0);
        let (ended, _) = run_with("exec sleep 60", GENEROUS, &closed);
        assert_eq!(ended, ChildEnd::Interrupted, "a closed pipe is an interrupt");
    }
}
