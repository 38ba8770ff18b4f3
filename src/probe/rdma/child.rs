//! The child: one end of a connection, or both in two threads.

use std::sync::Arc;
use std::time::Duration;

use super::agree::report_failure;
use super::control::Control;
use super::counters::report_counters;
use super::device::Device;
use super::end::End;
use super::task::{LocalEnd, Part, Task};
use super::{client, connected, server};
use crate::model::{ProbeResult, WITHOUT_GPUDIRECT};
use crate::probe::cpus::{bind, keep_to_half, on_node, usable};
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
        connected::count_cpus(fewest_cpus(&self.part));
        match &self.part {
            Part::Both(local, remote) => run_both_ends(self, local, remote, reporter),
            Part::Client(place) => run_one_end(self, place, false, reporter),
            Part::Server(place) => run_one_end(self, place, true, reporter),
        }
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let about = Subject::new(&self.subject, "verbs");
        Some(about.impossible("rdma", None, true, error.advised()))
    }
}

/// The CPUs of the end that has the fewest.
fn fewest_cpus(part: &Part) -> u64 {
    let cpus = |place: &LocalEnd| match &place.node {
        Some((_, cpus)) => usable(cpus).len(),
        None => std::thread::available_parallelism().map_or(2, |cpus| cpus.get() as u64),
    };
    match part {
        Part::Both(local, remote) => cpus(local).min(cpus(remote)),
        Part::Client(place) | Part::Server(place) => cpus(place),
    }
}

/// Runs one end; the other end is in another process.
fn run_one_end(
    task: &Task,
    place: &LocalEnd,
    is_server: bool,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let mut control = Control::over_stdin(task.terms.timeout).map_err(StepError::Socket)?;
    if let Some((node, cpus)) = &place.node {
        bind(*node, cpus).map_err(|error| report_failure(None, &mut control, error.into()))?;
    }
    let opened =
        Device::open(&place.port).and_then(|device| open(task, place, device, is_server, reporter));
    let mut end = match opened {
        Ok(end) => end,
        Err(failure) => return Err(report_failure(None, &mut control, failure)),
    };
    report_gpudirect(&end, place, reporter)?;
    let done = if is_server {
        server::server(&mut end, task.room, &mut control, Some(reporter))
    } else {
        client::client(&mut end, &mut control, task, reporter)
    };
    // After a failure too: they may say why.
    report_counters(reporter, &task.subject, false, end.counters.rises())?;
    done
}

fn open(
    task: &Task,
    place: &LocalEnd,
    device: Device,
    remote: bool,
    reporter: &mut Reporter<'_>,
) -> Result<End, StepError> {
    reporter.doing(format!("{} to open", place.subject))?;
    let end = End::open(place, device, task.room, task.terms.timeout)?;
    reporter.send(&Event::Connected(Box::new(end.probed(place, remote))))?;
    if let Some(note) = end.counters.missing() {
        reporter.note(note)?;
    }
    Ok(end)
}

/// Fails the probe if staged copies are what is left for a GPU's memory. A comparison of curves (`gdr probe transfer`) has a curve for
/// them, and says which it could not measure.
fn report_gpudirect(
    end: &End,
    place: &LocalEnd,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    if place.curve.is_none()
        && let Some(why) = end.selection.without_gpudirect(&place.memory)
    {
        let about = Subject::new(&place.subject, "verbs");
        reporter.result(about.impossible(WITHOUT_GPUDIRECT, None, true, why))?;
    }
    Ok(())
}

fn run_both_ends(
    task: &Task,
    local: &LocalEnd,
    remote: &LocalEnd,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (mut client_control, mut server_control) = Control::pair(task.terms.timeout);
    let (local_place, remote_place) = (local, remote);
    let nodes = [&local.node, &remote.node];
    let is_one_node = local.node == remote.node;
    let (device, mut local) = on_node(local.node.as_ref(), || {
        let device = Device::open(&local.port)?;
        let end = open(task, local, device.clone(), false, reporter)?;
        Ok::<_, StepError>((device, end))
    })??;
    let is_loop = local.port == remote.port;
    let mut remote = on_node(remote.node.as_ref(), || {
        let device = match device {
            // The two ends share it.
            Device::Sim(_) => device,
            Device::Verbs { .. } => Device::open(&remote.port)?,
        };
        open(task, remote, device, true, reporter)
    })??;
    report_gpudirect(&local, local_place, reporter)?;
    if remote_place.subject != local_place.subject {
        report_gpudirect(&remote, remote_place, reporter)?;
    }
    // Two ends on one node share its CPUs.
    let keep = |is_first: bool| {
        if let Some((node, cpus)) = nodes[usize::from(!is_first)] {
            bind(*node, cpus)?;
        }
        if is_one_node {
            keep_to_half(is_first);
        }
        Ok::<_, StepError>(())
    };
    let counters = [&local, &remote].map(|end| Arc::clone(&end.counters));
    let done = std::thread::scope(|scope| {
        let server_thread = scope.spawn(move || {
            keep(false)?;
            server::server(&mut remote, task.room, &mut server_control, None)
        });
        let client_result = keep(true)
            .and_then(|()| client::client(&mut local, &mut client_control, task, reporter));
        // Ends the server's wait if the client failed.
        drop(client_control);
        let server_result = match server_thread.join() {
            Ok(server_result) => server_result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // If both failed, the error that is not the echo of the other is the cause.
        match (client_result, server_result) {
            (Err(failure), Err(cause)) if failure.is_from_peer() => Err(cause),
            (Ok(()), Err(cause)) => Err(cause),
            (client_result, _) => client_result,
        }
    });
    for (end, is_remote) in counters.iter().zip([false, true]) {
        // The ends of a loop have one port.
        if !is_remote || !is_loop {
            report_counters(reporter, &task.subject, is_remote, end.rises())?;
        }
    }
    done
}
