//! The child's side: one end of a connection, or both in two threads.

use std::time::Duration;

use super::agree::told;
use super::control::Control;
use super::device::Device;
use super::end::End;
use super::task::{Part, Place, Task};
use super::{client, connected, memory_paths, server};
use crate::model::ProbeResult;
use crate::probe::cpus::keep_to_half;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::task;
use crate::probe::verdict::Subject;

impl task::Task for Task {
    const NAME: &'static str = "rdma";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        connected::count_cpus();
        match &self.part {
            Part::Both(local, remote) => both(self, local, remote, reporter),
            Part::Lead(place) => alone(self, place, false, reporter),
            Part::Follow(place) => alone(self, place, true, reporter),
        }
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let about = Subject::new(&self.subject, "verbs");
        Some(about.impossible("rdma", None, true, memory_paths::advised(error)))
    }
}

/// One end, and the other one is another process's.
fn alone(
    task: &Task,
    place: &Place,
    is_server: bool,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let mut control = Control::over_stdin(task.terms.timeout).map_err(StepError::Socket)?;
    let opened =
        Device::open(&place.port).and_then(|device| open(task, place, device, is_server, reporter));
    let mut end = match opened {
        Ok(end) => end,
        Err(failure) => return Err(told(None, &mut control, failure)),
    };
    match is_server {
        true => server::server(&mut end, task.room, &mut control, Some(reporter)),
        false => client::client(&mut end, &mut control, task, reporter),
    }
}

fn open(
    task: &Task,
    place: &Place,
    device: Device,
    remote: bool,
    reporter: &mut Reporter<'_>,
) -> Result<End, StepError> {
    reporter.doing(format!("{} to open", place.subject))?;
    let end = End::open(place, device, task.room, task.terms.timeout)?;
    reporter.send(&Event::Connected(Box::new(end.probed(place, remote))))?;
    Ok(end)
}

fn both(
    task: &Task,
    local: &Place,
    remote: &Place,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (mut near_control, mut far_control) = Control::pair(task.terms.timeout);
    let device = Device::open(&local.port)?;
    let mut local = open(task, local, device.clone(), false, reporter)?;
    let device = match device {
        // The two ends share it.
        Device::Sim(_) => device,
        Device::Verbs { .. } => Device::open(&remote.port)?,
    };
    let mut remote = open(task, remote, device, true, reporter)?;
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            keep_to_half(false);
            server::server(&mut remote, task.room, &mut far_control, None)
        });
        keep_to_half(true);
        let led = client::client(&mut local, &mut near_control, task, reporter);
        // The follower hears that nobody leads it any more.
        drop(near_control);
        let followed = match follower.join() {
            Ok(followed) => followed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // Where both failed, the one that failed by itself tells more.
        match (led, followed) {
            (Err(failure), Err(cause)) if failure.is_from_peer() => Err(cause),
            (Ok(()), Err(cause)) => Err(cause),
            (led, _) => led,
        }
    })
}
