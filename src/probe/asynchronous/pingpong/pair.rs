//! The parent's side: two children at once, each with its deadlines; where one ends badly the other is not waited for.

use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::task::{Task, Which};
use super::way::{self, PART};
use crate::model::ProbeReport;
use crate::probe::children::{Children, Ran, Watcher};
use crate::probe::events::Step;
use crate::probe::scope::ProbeError;
use crate::probe::watch::Wire;

/// How long a child may take to end by itself when the other has.
const GRACE: Duration = Duration::from_secs(2);

/// Runs both; false where there is no going on.
pub fn between(children: &mut Children<'_>, task: &Task) -> Result<bool, ProbeError> {
    let [local, remote] = way::pair()?;
    let (near_stop, stops_near) = UnixStream::pair()?;
    let (far_stop, stops_far) = UnixStream::pair()?;
    let mut theirs = ProbeReport {
        gpus: Vec::new(),
        results: Vec::new(),
        notes: Vec::new(),
        ..children.report.clone()
    };
    let (interrupts, timeout) = (children.interrupts, children.timeout);
    let subject = &task.target.subject;
    let run = |children: &mut Children<'_>, which, socket: Stdio, stop| {
        let task = Task {
            pingpong: Some(which),
            ..task.clone()
        };
        let wire = Wire {
            socket,
            stop,
            sent: None,
        };
        children.run_with(subject, &task, &[], Some(wire))
    };
    let (ran, far_ran) = std::thread::scope(|scope| {
        let theirs = &mut theirs;
        let other = scope.spawn(move || {
            let mut far_children = Children {
                report: theirs,
                interrupts,
                timeout,
                progress: &mut Nobody,
            };
            let ran = run(&mut far_children, Which::Remote, remote, far_stop);
            if !matches!(&ran, Ok(ran) if ran.whole) {
                // The near one hears of it and tells what it has; one that is busy with other things is ended.
                std::thread::sleep(GRACE);
            }
            ran.map(|ran| (ran, stops_near))
        });
        let ran = run(children, Which::Local, local, near_stop);
        let begun = Instant::now();
        while !other.is_finished() && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(stops_far);
        (ran, other.join())
    });
    let ran = ran?;
    let far_ran = match far_ran {
        Ok(ran) => ran?.0,
        Err(_) => Ran::default(),
    };
    add(children.report, theirs);
    untold(children.report, task, &ran, &far_ran);
    Ok(ran.go_on && far_ran.go_on)
}

/// What the far one had to tell besides.
fn add(report: &mut ProbeReport, theirs: ProbeReport) {
    report.complete &= theirs.complete;
    report.results.extend(theirs.results);
    for note in theirs.notes {
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
    }
}

/// The near one was ended before it could tell what became of the other.
fn untold(report: &mut ProbeReport, task: &Task, local: &Ran, remote: &Ran) {
    let subject = &task.target.subject;
    let is_told = |name: &str, of: &str| of == subject && (name.starts_with(PART) || name == "run");
    let told = report
        .results
        .iter()
        .any(|result| is_told(&result.name, &result.subject));
    if let (Some(why), true, false) = (&remote.failure, remote.go_on && local.go_on, told) {
        let about = task.target.about(task.target.cuda(), None);
        let why = format!("the other process did not come to its end: {why}");
        report.results.push(about.impossible(PART, None, true, why));
    }
}

/// Nobody watches the far one: the near one's steps are the same.
struct Nobody;

impl Watcher for Nobody {
    fn step(&mut self, _: &str, _: &Step) {}

    fn word(&mut self, _: &str) {}
}
