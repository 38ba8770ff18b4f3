//! The child that touches the hardware, and the deadline of each of its steps: a driver that hangs ends with a message.
//!
//! The child is this binary again. It is killed where a step outlasts its timeout or a person presses Ctrl-C; what it
//! reported until then is kept. It may be stuck in the kernel: then nobody waits for it.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::events::{Event, Step};

/// The longest line that a child writes.
const LONGEST: usize = 4 << 20;

/// What is read at once.
const CHUNK: usize = 16384;

/// What a pipe holds.
const PIPE: usize = 65536;

/// Of a line on standard error so much is shown.
const LONGEST_MESSAGE: usize = 4096;

/// What comes from a child.
pub enum Output {
    /// A report of its work.
    Event(Event),
    /// A line of its standard error: libraries write there, too.
    Message(String),
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It did all it had to do.
    Done,
    /// Somebody asked to stop.
    Interrupted,
    /// What it works with elsewhere is gone.
    Stopped,
    /// A step outlasted its timeout.
    Hung(Step),
    /// It ended in the middle of a step.
    Crashed(Step, ExitStatus),
    /// It said something that is no event.
    Garbled(String),
}

/// Ctrl-C, and the signals that mean the same.
pub struct Interrupts(UnixStream);

impl Interrupts {
    /// From now on they no longer end this process, but each watch in progress.
    pub fn catch() -> io::Result<Self> {
        let (reading, writing) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, writing.try_clone()?)?;
        }
        Ok(Self(reading))
    }

    pub fn asked(&self) -> bool {
        let mut waiting = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }
}

/// A child's connection to another process.
pub struct Wire {
    /// Its standard input: a socket.
    pub socket: Stdio,
    /// Something comes here, or it is closed, where the child need not go on.
    pub stop: UnixStream,
    /// When the child last sent a message: a sign that its work goes on.
    pub sent: Option<Arc<Mutex<Instant>>>,
}

impl Wire {
    fn last_sent(&self) -> Option<Instant> {
        let sent = self.sent.as_ref()?;
        Some(*sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a child and hands on what it tells. The first step may take as long as `timeout`.
pub fn watch(
    command: &mut Command,
    interrupts: &Interrupts,
    mut wire: Option<Wire>,
    timeout: Duration,
    report: &mut dyn FnMut(Output),
) -> io::Result<Ended> {
    let input = wire
        .as_mut()
        .map(|wire| std::mem::replace(&mut wire.socket, Stdio::null()));
    let mut child = Killed(
        command
            .stdin(input.unwrap_or_else(Stdio::null))
            .stdout(Stdio::piped())
            // A library that writes escape sequences does not write them to the terminal.
            .stderr(Stdio::piped())
            // Ctrl-C is for the parent, which ends the child and prints what there is.
            .process_group(0)
            .spawn()?,
    );
    // The parent's copy of the child's end: the child is to see that the other one is closed.
    command.stdin(Stdio::null());
    let Some(mut pipe) = child.0.stdout.take() else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let mut messages = Messages {
        pipe: child.0.stderr.take(),
        lines: Lines::default(),
    };
    let ended = hear(
        &mut child,
        &mut pipe,
        &mut messages,
        interrupts,
        wire.as_ref(),
        timeout,
        report,
    );
    // What it wrote before: as much as a pipe holds, because a child that hangs may go on writing.
    for _ in 0..PIPE / CHUNK {
        messages.read(report);
    }
    messages.end(report);
    ended
}

fn hear(
    child: &mut Killed,
    pipe: &mut ChildStdout,
    messages: &mut Messages,
    interrupts: &Interrupts,
    wire: Option<&Wire>,
    timeout: Duration,
    report: &mut dyn FnMut(Output),
) -> io::Result<Ended> {
    let mut lines = Lines::default();
    let mut step = Step {
        what: "this program to start a second time".to_owned(),
        timeout,
        done: 0,
        of: 1,
    };
    let mut since = Instant::now();
    loop {
        messages.read(report);
        since = since.max(wire.and_then(Wire::last_sent).unwrap_or(since));
        match wait(
            pipe,
            messages,
            interrupts,
            wire.map(|wire| &wire.stop),
            (since + step.timeout).saturating_duration_since(Instant::now()),
        )? {
            Heard::Interrupt => return Ok(Ended::Interrupted),
            Heard::Stop => return Ok(Ended::Stopped),
            Heard::Nothing
                if wire
                    .and_then(Wire::last_sent)
                    .is_some_and(|sent| sent > since) =>
            {
                continue;
            }
            Heard::Nothing if since.elapsed() >= step.timeout => return Ok(Ended::Hung(step)),
            Heard::Nothing => continue,
            Heard::Child => {}
        }
        if !lines.read(pipe)? {
            // A child that ends may have more to write than a pipe holds.
            return Ok(
                match child.status(timeout, &mut || messages.read(report))? {
                    Some(status) => Ended::Crashed(step, status),
                    None => Ended::Hung(step),
                },
            );
        }
        while let Some(line) = lines.next() {
            match serde_json::from_slice(&line) {
                Ok(Event::End) => return Ok(Ended::Done),
                Ok(event) => {
                    if let Event::Doing(next) = &event {
                        step = next.clone();
                    }
                    since = Instant::now();
                    report(Output::Event(event));
                }
                Err(error) => return Ok(Ended::Garbled(error.to_string())),
            }
        }
        if lines.0.len() > LONGEST {
            return Ok(Ended::Garbled("a line without an end".to_owned()));
        }
    }
}

enum Heard {
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
) -> io::Result<Heard> {
    let timeout = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    let mut waiting = vec![
        PollFd::from_borrowed_fd(interrupts.0.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
    ];
    waiting.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)));
    let others = waiting.len();
    waiting.extend(
        messages
            .pipe
            .as_ref()
            .map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)),
    );
    match poll(&mut waiting, Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Heard::Nothing),
        Ok(_) if !waiting[0].revents().is_empty() => Ok(Heard::Interrupt),
        // What the child has said until then is heard first.
        Ok(_) if !waiting[1].revents().is_empty() => Ok(Heard::Child),
        Ok(_)
            if waiting[2..others]
                .iter()
                .any(|stop| !stop.revents().is_empty()) =>
        {
            Ok(Heard::Stop)
        }
        // A message is no sign that the work goes on.
        Ok(_) => Ok(Heard::Nothing),
        Err(errno) => Err(errno.into()),
    }
}

/// What came through the pipe and is no whole line yet.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Reads what there is; false at the end.
    fn read(&mut self, pipe: &impl std::os::fd::AsFd) -> io::Result<bool> {
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
    /// Whether there is something to read, or it has ended.
    fn is_ready(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| {
            let mut waiting = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|count| count > 0)
        })
    }

    /// Hands on what there is, if there is anything.
    fn read(&mut self, report: &mut dyn FnMut(Output)) {
        if let Some(pipe) = &self.pipe
            && self.is_ready()
            && !matches!(self.lines.read(pipe), Ok(true))
        {
            self.pipe = None;
        }
        while let Some(line) = self.lines.next() {
            report_line(&line, report);
        }
        if self.lines.0.len() > LONGEST_MESSAGE {
            self.end(report);
        }
    }

    /// Hands on a line without an end.
    fn end(&mut self, report: &mut dyn FnMut(Output)) {
        report_line(&std::mem::take(&mut self.lines.0), report);
    }
}

fn report_line(line: &[u8], report: &mut dyn FnMut(Output)) {
    let line = String::from_utf8_lossy(&line[..line.len().min(LONGEST_MESSAGE)]);
    let line = line.trim_end();
    if !line.is_empty() {
        report(Output::Message(line.to_owned()));
    }
}

/// A child that does not outlive the watch.
struct Killed(Child);

impl Killed {
    /// Its exit status, once it has one; none where it does not end. `meanwhile` is called until then.
    fn status(
        &mut self,
        timeout: Duration,
        meanwhile: &mut dyn FnMut(),
    ) -> io::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        loop {
            meanwhile();
            match self.0.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if begun.elapsed() >= timeout => return Ok(None),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Drop for Killed {
    /// A process that holds a GPU takes the kernel a moment to end, and one that hangs in the driver never ends.
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // The only error is that it has ended meanwhile.
            let _ = self.0.kill();
            let _ = self.status(Duration::from_millis(500), &mut || {});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, timeout: Duration) -> (Ended, Vec<Event>) {
        let interrupts = Interrupts(UnixStream::pair().expect("a pair").0);
        run_with(script, timeout, &interrupts)
    }

    fn run_with(script: &str, timeout: Duration, interrupts: &Interrupts) -> (Ended, Vec<Event>) {
        let mut events = Vec::new();
        let mut command = Command::new("/bin/sh");
        let ended = watch(
            command.args(["-c", script]),
            interrupts,
            None,
            timeout,
            &mut |output| match output {
                Output::Event(event) => events.push(event),
                Output::Message(message) => events.push(Event::Note(format!("stderr: {message}"))),
            },
        );
        (ended.expect("a watch"), events)
    }

    #[test]
    fn what_it_writes_to_standard_error_is_handed_on_in_lines() {
        let (reading, _writing) = UnixStream::pair().expect("a pair");
        let script = r#"printf 'one\ntw' >&2; sleep 0.05; printf 'o\n\nx\033[2J' >&2
            head -c 100000 /dev/zero | tr '\0' a >&2; echo '"end"'; exec sleep 60"#;
        let (ended, events) = run_with(script, GENEROUS, &Interrupts(reading));
        assert_eq!(ended, Ended::Done);
        let messages: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                Event::Note(note) => note.strip_prefix("stderr: "),
                _ => None,
            })
            .collect();
        assert_eq!(messages[..2], ["one", "two"]);
        assert!(
            messages[2].starts_with("x\u{1b}[2Jaaa"),
            "{:?}",
            &messages[2][..10]
        );
        assert!(
            messages
                .iter()
                .all(|message| message.len() <= LONGEST_MESSAGE)
        );
    }

    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn a_child_that_says_it_is_done_is_done() {
        // The writing end must live: its end would be an interrupt.
        let (reading, _writing) = UnixStream::pair().expect("a pair");
        let script = r#"echo '{"note":"one"}'; printf '{"no'; sleep 0.05; echo 'te":"two"}'; echo '"end"'; exec sleep 60"#;
        let begun = Instant::now();
        let (ended, events) = run_with(script, GENEROUS, &Interrupts(reading));
        assert_eq!(ended, Ended::Done);
        assert_eq!(
            events,
            [Event::Note("one".to_owned()), Event::Note("two".to_owned())]
        );
        assert!(begun.elapsed() < GENEROUS / 2, "it was waited for");
    }

    #[test]
    fn a_child_that_writes_messages_without_end_is_given_up_all_the_same() {
        let (reading, _writing) = UnixStream::pair().expect("a pair");
        let begun = Instant::now();
        let (ended, _) = run_with(
            "exec yes >&2",
            Duration::from_millis(200),
            &Interrupts(reading),
        );
        assert!(matches!(ended, Ended::Hung(_)), "{ended:?}");
        assert!(begun.elapsed() < GENEROUS / 2);
    }

    #[test]
    fn a_step_that_outlasts_its_patience_is_named() {
        let (reading, _writing) = UnixStream::pair().expect("a pair");
        let script = r#"echo '{"doing":{"what":"the moon","timeout":{"secs":0,"nanos":50000000},"done":3,"of":4}}'
            exec sleep 60"#;
        let (ended, events) = run_with(script, GENEROUS, &Interrupts(reading));
        let Ended::Hung(step) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!((step.what.as_str(), events.len()), ("the moon", 1));
    }

    #[test]
    fn a_crash_and_nonsense_are_told_apart() {
        let (reading, _writing) = UnixStream::pair().expect("a pair");
        let interrupts = Interrupts(reading);
        let (ended, _) = run_with(
            "echo '{\"note\":\"one\"}'; kill -SEGV $$",
            GENEROUS,
            &interrupts,
        );
        let Ended::Crashed(_, status) = ended else {
            panic!("{ended:?}");
        };
        assert!(
            status.to_string().contains("SEGV") || status.to_string().contains("11"),
            "{status}"
        );
        let (ended, _) = run_with("echo nonsense", GENEROUS, &interrupts);
        assert!(matches!(ended, Ended::Garbled(_)), "{ended:?}");
    }

    #[test]
    fn an_interrupt_ends_the_child_and_keeps_what_it_told() {
        let (reading, mut writing) = UnixStream::pair().expect("a pair");
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::io::Write::write_all(&mut writing, b"x").expect("a signal");
            std::thread::sleep(GENEROUS);
        });
        let (ended, events) = run_with(
            "echo '{\"note\":\"one\"}'; exec sleep 60",
            GENEROUS,
            &Interrupts(reading),
        );
        assert_eq!(ended, Ended::Interrupted);
        assert_eq!(events.len(), 1);
        let (ended, _) = run("exec sleep 60", GENEROUS);
        assert_eq!(ended, Ended::Interrupted, "a closed pipe is one too");
    }
}
