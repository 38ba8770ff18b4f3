//! A message of a process to itself, from GPU memory to GPU memory, without the launcher: it shows whether the library takes GPU
//! pointers. One that does not ends this process.

use std::time::Duration;

use gpu::Pattern;
use mp::mpi::{Communicator, Memory};

use super::buffer::Buffer;
use super::library::Candidate;
use super::opened::{open, open_gpu, probed};
use super::task::Task;
use crate::model::figure::mpi::{GPU_TRIAL, HOST_TRIAL, MessageMemory};
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::verdict::Subject;

/// The step in which a library without CUDA crashes.
pub const STEP: &str = "MPI to send GPU memory";
/// Sizes of messages that libraries send in different ways: at once, in fragments, and after a rendezvous.
const SIZES: [usize; 3] = [64, 64 << 10, 4 << 20];
/// How long MPI_Init and a message may take.
const INIT: Duration = Duration::from_secs(20);
const MESSAGE: Duration = Duration::from_secs(4);

pub fn run(task: &Task, files: &[Candidate], reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    // A crash is expected, and its core dump of no use.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // Ignored: then there is a core dump.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    reporter.doing("the MPI library to load")?;
    let (mpi, candidate) = open(files)?;
    let gpu = open_gpu(task, reporter)?;
    let mut trial = || -> Result<(), StepError> {
        reporter.doing_for("MPI_Init of one process", INIT)?;
        mpi.init()?;
        reporter.send(&Event::Mpi(Box::new(probed(&mpi, candidate)?)))?;
        let world = mpi.world()?;
        world.return_errors()?;
        let most = SIZES[SIZES.len() - 1];
        reporter.doing_for("MPI to send host memory", MESSAGE)?;
        let host = [Buffer::on_host(most)?, Buffer::on_host(most)?];
        transfer(&world, MessageMemory::Host, &host, reporter)?;
        if let Some(gpu) = &gpu {
            let device = [Buffer::on_gpu(gpu, most)?, Buffer::on_gpu(gpu, most)?];
            reporter.doing_for(STEP, MESSAGE)?;
            transfer(&world, MessageMemory::Gpu, &device, reporter)?;
        }
        reporter.doing("MPI_Finalize")?;
        Ok(mpi.finalize()?)
    };
    match &gpu {
        Some(gpu) => gpu.with_current(trial)?,
        None => trial(),
    }
}

/// Sends messages of each size to itself, and compares them.
fn transfer(
    world: &Communicator,
    kind: MessageMemory,
    [out, into]: &[Buffer; 2],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (own, mut verified) = (world.rank(), 0);
    let name = match kind {
        MessageMemory::Gpu => GPU_TRIAL,
        MessageMemory::Host => HOST_TRIAL,
    };
    let about = Subject::new("trial", "mpi");
    for (seed, bytes) in (1..).step_by(2).zip(SIZES) {
        let [sent, before] = [Pattern::new(seed), Pattern::new(seed + 1)];
        out.fill(bytes, sent)?;
        into.fill(bytes, before)?;
        exchange(world, [&out.memory, &into.memory], bytes, own)?;
        verified += bytes;
        if let Some(wrong) = into.check(bytes, sent)? {
            return Ok(reporter.result(about.wrong(name, Some(bytes), wrong))?);
        }
    }
    Ok(reporter.result(about.right(name, None, verified))?)
}

fn exchange(
    world: &Communicator,
    [out, into]: [&Memory; 2],
    bytes: usize,
    own: u32,
) -> Result<(), StepError> {
    let mut requests = [world.irecv(into, (0, bytes), own)?, world.isend(out, (0, bytes), own)?];
    // A message that never ends is stopped by the parent.
    for request in &mut requests {
        while !request.is_done()? {
            std::thread::yield_now();
        }
    }
    Ok(())
}
