//! Signals end every command with the status that a shell expects, even while nobody reads its output.

use std::io::{PipeReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Gdr, Machine};

/// Longest time from a signal to the end of a process on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn end_of(mut child: Child, what: &str) -> ExitStatus {
    let begun = Instant::now();
    loop {
        match child.try_wait().expect("a status") {
            Some(status) => return status,
            None if begun.elapsed() > SOON => {
                child.kill().expect("it runs");
                panic!("{what} goes on");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Starts gdr with this output, and waits until its child does.
fn probing(args: &[&str], stdout: Stdio) -> Child {
    let child = Gdr::new()
        .args(args)
        .command()
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let begun = Instant::now();
    while std::fs::read_to_string(&children).is_ok_and(|list| list.is_empty())
        && begun.elapsed() < SOON
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// A pipe without room: what is written to it waits until somebody reads.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reading, mut writing) = std::io::pipe().expect("a pipe");
    writing.write_all(&[b' '; 65536]).expect("room");
    (reading, Stdio::from(writing))
}

#[test]
fn a_probe_prints_what_it_has_and_ends_by_the_signal() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let args = ["probe", "async", "--sim", "--full", "--format", "json"];
        let mut child = probing(&args, Stdio::piped());
        send(&child, signal);
        let mut text = String::new();
        let mut out = child.stdout.take().expect("a pipe");
        out.read_to_string(&mut text).expect("text");
        let status = end_of(child, "the probe");
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status} {text}");
        assert!(text.contains("Interrupted: "), "{text}");
    }
}

/// The probes that end by themselves within seconds, and print more than a page.
#[test]
#[ignore = "slow: whole probes"]
fn a_signal_ends_a_blocked_write() {
    for (probe, signal) in [("copy", Signal::INT), ("p2p", Signal::TERM), ("mp", Signal::HUP)] {
        let (reading, writing) = full_pipe();
        let args = ["probe", probe, "--sim", "--quick", "--format", "json"];
        let child = probing(&args, writing);
        let call = format!("/proc/{}/syscall", child.id());
        let begun = Instant::now();
        // write (1 on x86-64, 64 on aarch64) to standard output.
        let is_blocked = || {
            std::fs::read_to_string(&call)
                .is_ok_and(|call| call.starts_with("1 0x1 ") || call.starts_with("64 0x1 "))
        };
        while !is_blocked() && begun.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_blocked(), "{probe} writes");
        let sent = Instant::now();
        send(&child, signal);
        let status = end_of(child, probe);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{probe}: {status}");
        assert!(sent.elapsed() < Duration::from_secs(3), "{probe}: at once");
        drop(reading);
    }
}

/// The report of an interrupted probe waits for its reader for a few seconds, not forever.
#[test]
#[ignore = "slow: waits until gdr gives up"]
fn an_interrupted_probe_does_not_wait_for_a_reader_forever() {
    let (reading, writing) = full_pipe();
    let args = ["probe", "async", "--sim", "--full", "--format", "json"];
    let child = probing(&args, writing);
    send(&child, Signal::TERM);
    let status = end_of(child, "the probe");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
    drop(reading);
}

#[test]
fn unwritable_file_fails_before_anything_is_done() {
    let root = Machine::load("sound").laid_out();
    let missing = root.path().join("no/such/file");
    let missing = missing.to_str().expect("text");
    let directory = root.path().to_str().expect("text");
    for file in [missing, directory] {
        let begun = Instant::now();
        let probe = ["probe", "copy", "--sim", "--full", "--save", file];
        let run = Gdr::new().args(probe).run();
        run.assert_code(2);
        run.assert_stderr(format!("--save: cannot write {file}; nothing was measured"));
        assert_eq!(run.stdout, "");
        // The whole probe takes minutes.
        assert!(begun.elapsed() < SOON);
        let snapshot = ["snapshot", "-v", "-o", file];
        let run = Gdr::new().args(snapshot).sysroot(root.path()).run();
        run.assert_code(2);
        run.assert_stderr(format!("cannot write {file}"));
    }
}
