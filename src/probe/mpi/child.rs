//! The child: a rank of MPI, or both ranks of a simulation in two threads.

use std::fs;
use std::io;
use std::time::Duration;

use gpu::Gpu;
use mp::mpi::Mpi;

use super::buffer::Buffer;
use super::client::{Buffers, Client};
use super::library::{Candidate, found};
use super::message::{Hello, hosts};
use super::opened::{open, open_gpu, probed};
use super::server::serve;
use super::task::{Library, Part, Task};
use super::trial;
use super::world::{MeasuredRank, Ranks, simulated};
use crate::model::figure::mpi::{GPU_TRIAL, MessageMemory};
use crate::model::{ProbeResult, ProbedMpi};
use crate::output::Redirected;
use crate::probe::depth::SIMULATED;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::rendezvous::host_name;
use crate::probe::task;
use crate::probe::verdict::Subject;

/// Until all ranks have called MPI_Init: each has a trial before.
const INIT: Duration = Duration::from_secs(60);

impl task::Task for Task {
    const NAME: &'static str = "mpi";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let files = match &self.library {
            Library::Sim => return run_simulated(self, reporter),
            Library::Files(files) => files.clone(),
            Library::Launcher => found(),
        };
        let output = Redirected::begin().map_err(StepError::Io)?;
        let mut writer: Box<dyn io::Write> =
            if self.writes() { Box::new(output.original()?) } else { Box::new(io::sink()) };
        let mut reporter = Reporter::new(&mut *writer, self.terms.timeout);
        match &self.part {
            Part::Trial => trial::run(self, &files, &mut reporter),
            Part::Rank { launcher, size, .. } => {
                run_rank(self, &files, (launcher.clone(), *size), &mut reporter)
            }
        }
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let (subject, name) = match &self.part {
            Part::Trial => ("trial".to_owned(), GPU_TRIAL),
            Part::Rank { rank, .. } => (format!("rank {rank}"), "mpi"),
        };
        let backend = match self.library {
            Library::Sim => "mpi-sim",
            Library::Files(_) | Library::Launcher => "mpi",
        };
        let about = Subject::new(&subject, backend);
        Some(about.impossible(name, None, true, self.sentence(error)))
    }
}

impl Task {
    /// The error, with the library's text for its error code.
    fn sentence(&self, error: &StepError) -> String {
        let text = gpu::sentence(error);
        match error {
            StepError::Mpi(mp::mpi::Error::Failed { code, .. }) => {
                let meaning = Mpi::find().map(|mpi| mpi.meaning(*code)).unwrap_or_default();
                format!("{text}: {meaning}")
            }
            _ => text,
        }
    }

    /// The sizes to measure, ascending.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = self.terms.rdma_sizes();
        if self.terms.sizes.is_empty() && self.library == Library::Sim {
            sizes.retain(|size| *size <= SIMULATED);
        }
        sizes
    }
}

fn run_rank(
    task: &Task,
    files: &[Candidate],
    (launcher, size): (Option<String>, Option<u32>),
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing("the MPI library to load")?;
    let (mpi, candidate) = open(files)?;
    // Some libraries need CUDA's context before MPI_Init.
    let gpu = open_gpu(task, reporter)?;
    let mut rank = || -> Result<(), StepError> {
        reporter.doing_for("all ranks to call MPI_Init", INIT)?;
        mpi.init()?;
        let mut world = MeasuredRank::new(Ranks::Mpi(mpi.world()?))?;
        if size.is_some_and(|size| size != world.size()) {
            return Err(foreign(&mpi, launcher.as_deref(), size, world.size()));
        }
        reporter.doing("what the other ranks are")?;
        let hellos = world.exchange(&hello(task, mpi.version())?)?;
        let known = ProbedMpi {
            launcher: launcher.clone(),
            rank: world.rank(),
            ranks: world.size(),
            hosts: hosts(&hellos),
            ..probed(&mpi, candidate)?
        };
        let backend = known.abi.clone();
        reporter.send(&Event::Mpi(Box::new(known)))?;
        run_world(task, &world, &hellos, gpu.as_ref(), &backend, reporter)?;
        reporter.doing("MPI_Finalize")?;
        Ok(mpi.finalize()?)
    };
    match &gpu {
        Some(gpu) => gpu.with_current(rank)?,
        None => rank(),
    }
}

/// The error of a library that does not know the launcher's other processes.
fn foreign(mpi: &Mpi, launcher: Option<&str>, size: Option<u32>, found: u32) -> StepError {
    let file = mpi.file().map_or_else(String::new, |file| file.display().to_string());
    StepError::Option(format!(
        "the launcher ({}) started {} processes, and the library {file} ({}) knows {found}: it belongs to another launcher; start gdr \
         with that one's mpirun, or name this launcher's library (gdr probe mpi --mpi FILE)",
        launcher.unwrap_or("unknown"),
        size.unwrap_or(0),
        mpi.version()
    ))
}

fn hello(task: &Task, version: &str) -> Result<Hello, StepError> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Ok(Hello {
        host: host_name().unwrap_or_default(),
        boot: boot.trim().to_owned(),
        gpu: task.gpu.as_ref().map(|target| target.subject.clone()),
        room: room(task),
        version: version.to_owned(),
    })
}

fn room(task: &Task) -> usize {
    task.sizes().last().copied().unwrap_or(1)
}

/// Runs one rank, once the ranks know each other.
fn run_world(
    task: &Task,
    world: &MeasuredRank,
    hellos: &[Hello],
    gpu: Option<&Gpu>,
    backend: &str,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let room = room(task);
    // Other options would end in messages of the wrong size.
    if hellos.iter().any(|hello| hello.room != room) {
        return Err(StepError::OutOfStep);
    }
    reporter.doing("memory for the messages")?;
    let mut buffers = vec![Buffers {
        kind: MessageMemory::Host,
        out: Buffer::on_host(room)?,
        into: Buffer::on_host(room)?,
    }];
    if let Some(gpu) = gpu {
        buffers.push(Buffers {
            kind: MessageMemory::Gpu,
            out: Buffer::on_gpu(gpu, room)?,
            into: Buffer::on_gpu(gpu, room)?,
        });
    }
    match world.rank() {
        0 => {
            let client = Client {
                world,
                reporter,
                terms: &task.terms,
                sizes: task.sizes(),
                backend,
                buffers: &buffers,
                seed: 0,
            };
            client.run(hellos)
        }
        _ => serve(world, &buffers, room, reporter),
    }
}

fn run_simulated(task: &Task, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let gpu = open_gpu(task, reporter)?;
    let [first, second] = simulated();
    let rank = |ranks: Ranks, reporter: &mut Reporter<'_>| {
        let mut world = MeasuredRank::new(ranks)?;
        let hellos = world.exchange(&hello(task, "simulated")?)?;
        if world.rank() == 0 {
            reporter.send(&Event::Mpi(Box::new(ProbedMpi {
                chosen: "--sim".to_owned(),
                version: "simulated".to_owned(),
                abi: "sim".to_owned(),
                ranks: world.size(),
                hosts: hosts(&hellos),
                ..ProbedMpi::default()
            })))?;
        }
        run_world(task, &world, &hellos, gpu.as_ref(), "mpi-sim", reporter)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut nowhere = io::sink();
            rank(second, &mut Reporter::new(&mut nowhere, task.terms.timeout))
        });
        let done = rank(first, reporter);
        match other.join() {
            Ok(Err(cause)) if done.as_ref().is_err_and(StepError::is_from_peer) => Err(cause),
            Ok(_) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
