//! MPI's own figures, for comparison: those of `gdr probe mpi` for host memory, of two ranks.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use mp::launcher::{LaunchedProcess, Launcher, from_environment};

use crate::model::figure::mp::{MPI_BANDWIDTH, MPI_LATENCY};
use crate::model::figure::mpi::MessageMemory;
use crate::model::{ProbeReport, ProbeResult, ProbeVerdict};
use crate::probe::children::{Children, Start, arguments};
use crate::probe::mpi::Task;
use crate::probe::rendezvous::shortened;
use crate::probe::scope::ProbeError;
use crate::probe::terms::Terms;

/// How two ranks of MPI are started, for its own figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpiFigures {
    /// They are left out.
    None,
    /// By this launcher.
    By(PathBuf),
    /// This process is one of them.
    Launched(LaunchedProcess),
}

/// Most characters of a library's version.
const MAX_VERSION: usize = 40;

/// Adds MPI's figures to the report, with this subject.
pub fn beside(
    children: &mut Children<'_>,
    figures: &MpiFigures,
    subject: &str,
    terms: Terms,
) -> Result<(), ProbeError> {
    let mut report = ProbeReport {
        results: Vec::new(),
        notes: Vec::new(),
        complete: true,
        ..children.report.clone()
    };
    let mut own = Children {
        report: &mut report,
        interrupts: children.interrupts,
        timeout: children.timeout,
        progress: &mut *children.progress,
        lister: None,
    };
    let ran = match figures {
        MpiFigures::None => return Ok(()),
        MpiFigures::Launched(place) => own.run(subject, &Task::of_rank(place, terms), &[]),
        MpiFigures::By(launcher) => {
            let mut command = Command::new(launcher);
            command.args(["-n", "2"]).arg(std::env::current_exe()?);
            command.args(arguments(&Task::below(launcher, 2, terms))?);
            // Open MPI starts no more processes than cores, and none for root, without these.
            let environment = [
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ];
            let start = Start { set: &environment, ..Start::default() };
            own.run_command(subject, command, start)
        }
    };
    let (measured, failed): (Vec<_>, Vec<_>) =
        report.results.into_iter().partition(|result| result.verdict != ProbeVerdict::Impossible);
    // As in "Open MPI v4.1.4, package: …" and "MPICH Version: 4.0.2".
    let version = report.mpi.map(|mpi| mpi.version).unwrap_or_default();
    let version = version.split(',').next().unwrap_or_default();
    let named = measured.into_iter().map(|result| ProbeResult {
        name: match result.name {
            name if name == MessageMemory::Host.latency().name => MPI_LATENCY.name.to_owned(),
            name if name == MessageMemory::Host.bandwidth().name => MPI_BANDWIDTH.name.to_owned(),
            name => name,
        },
        subject: subject.to_owned(),
        backend: shortened(version, MAX_VERSION),
        ..result
    });
    children.report.results.extend(named);
    let why = match ran {
        Err(ProbeError::Child(error)) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => Some(gpu::sentence(&error)),
        Ok(_) => failed.into_iter().find_map(|result| result.reason),
    };
    let why = why.or_else(|| report.notes.into_iter().next());
    if let Some(why) = why {
        children.note(format!("MPI's own figures are missing: {why}"));
    }
    Ok(())
}

/// This process, if a launcher of MPI started it and one other.
pub fn launched() -> Option<LaunchedProcess> {
    let place = from_environment(&|name| std::env::var(name).ok()).ok()?;
    place.filter(|place| place.launcher != Launcher::Slurm && place.size == Some(2))
}
