//! MPI's own figures, for comparison: messages in host memory between two ranks of an MPI library, which it moves itself.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gpu::Pattern;
use mp::launcher::{Launcher, from_environment};
use mpi_abi::{Communicator, Mpi};
use serde::{Deserialize, Serialize};

use super::plan::Amount;
use crate::model::{ProbeReport, ProbeResult, ProbeVerdict};
use crate::probe::bytes::compare;
use crate::probe::children::{Children, Start, arguments};
use crate::probe::depth::Terms;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::rdma::rendezvous::shortened;
use crate::probe::scope::ProbeError;
use crate::probe::task;
use crate::probe::verdict::Subject;

/// Time for MPI to start, and for each figure.
const STEP_TIME: Duration = Duration::from_secs(60);
/// Most characters of a library's version.
const MAX_VERSION: usize = 40;

/// One of two ranks of an MPI library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MpiTask {
    pub subject: String,
    pub terms: Terms,
    pub sizes: Vec<usize>,
    /// Bytes for the messages of one direction.
    pub room: usize,
    /// True if the ranks share the output of a launcher: only rank 0 writes.
    pub is_shared: bool,
}

impl MpiTask {
    /// True if this process writes the output.
    pub fn writes(&self) -> bool {
        let place = from_environment(&|name| std::env::var(name).ok());
        !self.is_shared || place.is_ok_and(|place| place.is_none_or(|place| place.rank == 0))
    }
}

impl task::Task for MpiTask {
    const NAME: &'static str = "mp_mpi";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        reporter.doing_for("an MPI library to start", STEP_TIME)?;
        let mpi = Mpi::open()?;
        mpi.init()?;
        let world = mpi.world()?;
        if world.size() != 2 {
            let why = format!("MPI has {} ranks, and two are needed", world.size());
            return Err(StepError::Option(why));
        }
        let version = mpi.version().lines().next().unwrap_or_default();
        // As in "Open MPI v4.1.4, package: …" and "MPICH Version: 4.0.2".
        let version = version.split(',').next().unwrap_or_default();
        let version = version.split_whitespace().collect::<Vec<_>>().join(" ");
        let pair = Pair {
            world,
            about: Subject::new(&self.subject, &shortened(&version, MAX_VERSION)),
        };
        for bytes in &self.sizes {
            let amount = self.terms.mp_amount(*bytes, self.room);
            for name in [LATENCY, BANDWIDTH] {
                reporter.doing_for(format!("{name} of {bytes} bytes"), STEP_TIME)?;
                if let Some(result) = pair.measure(name, *bytes, amount)? {
                    reporter.result(result)?;
                }
            }
        }
        Ok(mpi.finalize()?)
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let about = Subject::new(&self.subject, "mpi");
        Some(about.impossible("mp.mpi", None, false, gpu::sentence(error)))
    }
}

const LATENCY: &str = "mp.mpi.latency";
const BANDWIDTH: &str = "mp.mpi.bandwidth";

/// This rank and the other one.
struct Pair {
    world: Communicator,
    about: Subject,
}

impl Pair {
    /// The figure; `None` at rank 1, which follows.
    fn measure(
        &self,
        name: &str,
        bytes: usize,
        amount: Amount,
    ) -> Result<Option<ProbeResult>, StepError> {
        let (rank, is_latency) = (self.world.rank(), name == LATENCY);
        let (mut times, mut wrong) = (Vec::new(), None);
        let message = |number: u64, rank: u32| {
            let mut message = vec![0; bytes];
            Pattern::new(2 * number + u64::from(rank)).fill(&mut message, 0);
            message
        };
        let mut number = 1;
        // The first batch warms up.
        for batch in 0..=amount.batches {
            let numbers = number..number + u64::from(amount.batch);
            number = numbers.end;
            let outgoing: Vec<_> = numbers
                .clone()
                .map(|number| message(number, rank))
                .collect();
            let mut incoming = vec![vec![0xc5; bytes]; outgoing.len()];
            let mut more = Vec::new();
            let begun = Instant::now();
            for (outgoing, incoming) in outgoing.iter().zip(&mut incoming) {
                let sent = Instant::now();
                match (rank, is_latency) {
                    (0, true) => {
                        self.world.send(outgoing, 1)?;
                        self.world.receive(incoming, 1)?;
                        more.push(sent.elapsed().as_secs_f64() / 2.0);
                    }
                    (0, false) => self.world.send(outgoing, 1)?,
                    (_, is_answered) => {
                        self.world.receive(incoming, 0)?;
                        if is_answered {
                            self.world.send(outgoing, 0)?;
                        }
                    }
                }
            }
            let mut end = [0];
            match rank {
                0 => self.world.receive(&mut end, 1)?,
                _ => self.world.send(&end, 0)?,
            }
            if !is_latency {
                more.push(begun.elapsed().as_secs_f64() / f64::from(amount.batch));
            }
            if rank == 1 || is_latency {
                let other = 1 - rank;
                let expected = numbers.map(|number| message(number, other));
                let mut pairs = expected.zip(&incoming);
                let mismatch = pairs.find_map(|(expected, found)| compare(&expected, found));
                wrong = wrong.or(mismatch.map(|mismatch| mismatch.to_string()));
            }
            if batch > 0 {
                times.extend(more);
            }
        }
        let mut is_wrong = [u8::from(wrong.is_some())];
        if rank == 1 {
            self.world.send(&is_wrong, 0)?;
            return Ok(None);
        }
        self.world.receive(&mut is_wrong, 1)?;
        if is_wrong != [0] {
            wrong = Some("at rank 1".to_owned());
        }
        let messages = (amount.batch * (amount.batches + 1)) as usize;
        let about = &self.about;
        let result = match is_latency {
            true => about.latency(name, Some(bytes), 2 * messages * bytes, &times),
            false => about.bandwidth(name, bytes, messages * bytes, &times, None),
        };
        Ok(Some(about.checked(result, wrong)))
    }
}

/// Adds MPI's figures: of two processes that `launcher` starts, or of the two that a launcher of MPI has started.
pub fn beside(
    children: &mut Children<'_>,
    launcher: Option<&Path>,
    task: &MpiTask,
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
    };
    let ran = match launcher {
        None => own.run(&task.subject, task, &[]),
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.args(["-n", "2"]).arg(std::env::current_exe()?);
            command.args(arguments(task)?);
            // Open MPI starts no more processes than cores, and none for root, without these.
            let environment = [
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ];
            let start = Start {
                set: &environment,
                ..Start::default()
            };
            own.run_command(&task.subject, command, start)
        }
    };
    let (measured, failed): (Vec<_>, Vec<_>) = report
        .results
        .into_iter()
        .partition(|result| result.verdict != ProbeVerdict::Impossible);
    children.report.results.extend(measured);
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

/// True if a launcher of MPI started this process and one other.
pub fn is_launched() -> bool {
    let place = from_environment(&|name| std::env::var(name).ok());
    place.is_ok_and(|place| {
        place.is_some_and(|place| place.launcher != Launcher::Slurm && place.size == Some(2))
    })
}
