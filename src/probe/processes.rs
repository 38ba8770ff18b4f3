//! Two children of one machine that talk to each other, each with deadlines. If one fails, the other is stopped.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::children::{ChildResult, Children, Watcher};
use super::events::Step;
use super::scope::ProbeError;
use super::task::Task;
use super::verdict::Subject;
use super::watch::Wire;
use crate::model::ProbeReport;

/// Time for a child to end by itself after the other one.
const GRACE: Duration = Duration::from_secs(2);

/// What both did.
pub struct Both {
    local: ChildResult,
    remote: ChildResult,
}

/// Standard input for both children, connected.
pub fn sockets() -> io::Result<[Stdio; 2]> {
    let (local, remote) = UnixStream::pair()?;
    Ok([local, remote].map(|socket| Stdio::from(OwnedFd::from(socket))))
}

/// Runs the local and the remote child, over the sockets of their standard input.
pub fn run<T: Task + Sync>(
    children: &mut Children<'_>,
    subject: &str,
    [local, remote]: [&T; 2],
    [local_socket, remote_socket]: [Stdio; 2],
) -> Result<Both, ProbeError> {
    let (local_stop, stops_local) = UnixStream::pair()?;
    let (remote_stop, stops_remote) = UnixStream::pair()?;
    let mut remote_report = ProbeReport {
        gpus: Vec::new(),
        results: Vec::new(),
        notes: Vec::new(),
        ..children.report.clone()
    };
    let (interrupts, timeout) = (children.interrupts, children.timeout);
    let local_ended = AtomicBool::new(false);
    let run = |children: &mut Children<'_>, task, socket: Stdio, stop| {
        let wire = Wire { socket, stop, sent: None };
        children.run_with(subject, task, &[], Some(wire))
    };
    let (ran, remote_ran) = std::thread::scope(|scope| {
        let (remote_report, local_ended) = (&mut remote_report, &local_ended);
        let other = scope.spawn(move || {
            let mut remote_children = Children {
                report: remote_report,
                interrupts,
                timeout,
                progress: &mut Silent,
                lister: None,
            };
            let ran = run(&mut remote_children, remote, remote_socket, remote_stop);
            if matches!(&ran, Ok(ran) if ran.whole) {
                return ran.map(|ran| (ran, Some(stops_local)));
            }
            // The local process notices that and reports its results; after the grace period it is stopped. A signal ends both at once.
            wait_until(|| interrupts.pending() || local_ended.load(Ordering::Relaxed));
            drop(stops_local);
            ran.map(|ran| (ran, None))
        });
        let ran = run(children, local, local_socket, local_stop);
        local_ended.store(true, Ordering::Relaxed);
        wait_until(|| other.is_finished());
        drop(stops_remote);
        (ran, other.join())
    });
    let local = ran?;
    let remote = match remote_ran {
        Ok(ran) => ran?.0,
        Err(_) => ChildResult::default(),
    };
    merge(children.report, remote_report);
    Ok(Both { local, remote })
}

/// Waits for a condition, at most for the grace period.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() && begun.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Adds the results and notes of the remote process.
fn merge(report: &mut ProbeReport, remote: ProbeReport) {
    report.complete &= remote.complete;
    report.results.extend(remote.results);
    for note in remote.notes {
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
    }
}

impl Both {
    /// True if the probe can continue.
    pub fn go_on(&self) -> bool {
        self.local.go_on && self.remote.go_on
    }

    /// Reports the remote process's failure as `name`, if the local one was stopped before it could.
    pub fn report_remote_failure(&self, report: &mut ProbeReport, about: &Subject, name: &str) {
        let is_reported = report.results.iter().any(|result| {
            let is_part = result.name.starts_with(name) || result.name == "run";
            result.subject == about.subject && is_part
        });
        if let (Some(why), true, false) = (&self.remote.failure, self.go_on(), is_reported) {
            let why = format!("the other process did not finish: {why}");
            report.results.push(about.impossible(name, None, true, why));
        }
    }
}

/// Shows no progress of the remote process, whose steps are those of the local one.
struct Silent;

impl Watcher for Silent {
    fn step(&mut self, _: &str, _: &Step) {}

    fn message(&mut self, _: &str) {}
}
