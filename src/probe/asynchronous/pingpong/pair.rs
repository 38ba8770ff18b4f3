//! The parent's side: runs both children, each with deadlines. If one fails, the other is stopped.

use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::task::{Side, Task};
use super::peer::{self, PART};
use crate::model::ProbeReport;
use crate::probe::children::{ChildResult, Children, Watcher};
use crate::probe::events::Step;
use crate::probe::scope::ProbeError;
use crate::probe::watch::Wire;

/// Time for a child to end by itself after the other one.
const GRACE: Duration = Duration::from_secs(2);

/// Runs both; false if the probe cannot continue.
pub fn between(children: &mut Children<'_>, task: &Task) -> Result<bool, ProbeError> {
    let [local, remote] = peer::pair()?;
    let (local_stop, stops_local) = UnixStream::pair()?;
    let (remote_stop, stops_remote) = UnixStream::pair()?;
    let mut remote_report = ProbeReport {
        gpus: Vec::new(),
        results: Vec::new(),
        notes: Vec::new(),
        ..children.report.clone()
    };
    let (interrupts, timeout) = (children.interrupts, children.timeout);
    let subject = &task.target.subject;
    let run = |children: &mut Children<'_>, side, socket: Stdio, stop| {
        let task = Task {
            pingpong: Some(side),
            ..task.clone()
        };
        let wire = Wire {
            socket,
            stop,
            sent: None,
        };
        children.run_with(subject, &task, &[], Some(wire))
    };
    let (ran, remote_ran) = std::thread::scope(|scope| {
        let remote_report = &mut remote_report;
        let other = scope.spawn(move || {
            let mut remote_children = Children {
                report: remote_report,
                interrupts,
                timeout,
                progress: &mut Silent,
            };
            let ran = run(&mut remote_children, Side::Remote, remote, remote_stop);
            if !matches!(&ran, Ok(ran) if ran.whole) {
                // The local process notices that and reports its results; after the grace period it is stopped.
                std::thread::sleep(GRACE);
            }
            ran.map(|ran| (ran, stops_local))
        });
        let ran = run(children, Side::Local, local, local_stop);
        let begun = Instant::now();
        while !other.is_finished() && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(stops_remote);
        (ran, other.join())
    });
    let ran = ran?;
    let remote_ran = match remote_ran {
        Ok(ran) => ran?.0,
        Err(_) => ChildResult::default(),
    };
    merge(children.report, remote_report);
    report_remote_failure(children.report, task, &ran, &remote_ran);
    Ok(ran.go_on && remote_ran.go_on)
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

/// Reports the remote process's failure if the local one was stopped before it could.
fn report_remote_failure(
    report: &mut ProbeReport,
    task: &Task,
    local: &ChildResult,
    remote: &ChildResult,
) {
    let subject = &task.target.subject;
    let is_reported = report.results.iter().any(|result| {
        let is_part = result.name.starts_with(PART) || result.name == "run";
        result.subject == *subject && is_part
    });
    if let (Some(why), true, false) = (&remote.failure, remote.go_on && local.go_on, is_reported) {
        let about = task.target.about(task.target.cuda(), None);
        let why = format!("the other process did not finish: {why}");
        report.results.push(about.impossible(PART, None, true, why));
    }
}

/// Shows no progress of the remote process, whose steps are those of the local one.
struct Silent;

impl Watcher for Silent {
    fn step(&mut self, _: &str, _: &Step) {}

    fn message(&mut self, _: &str) {}
}
