//! The parent's side: runs both children.

use super::super::task::{Side, Task};
use super::peer::{self, PART};
use crate::probe::children::Children;
use crate::probe::processes;
use crate::probe::scope::ProbeError;

/// Runs both; false if the probe cannot continue.
pub fn between(children: &mut Children<'_>, task: &Task) -> Result<bool, ProbeError> {
    let [local, remote] =
        [Side::Local, Side::Remote].map(|side| Task { pingpong: Some(side), ..task.clone() });
    let subject = &task.target.subject;
    let both = processes::run(children, subject, [&local, &remote], peer::pair()?)?;
    let about = task.target.about(task.target.cuda(), None);
    both.report_remote_failure(children.report, &about, PART);
    Ok(both.go_on())
}
