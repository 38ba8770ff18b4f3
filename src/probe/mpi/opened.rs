//! Opens the MPI library and the GPU of a child.

use gpu::Gpu;
use mp::mpi::{Abi, Mpi};

use super::library::Candidate;
use super::task::Task;
use crate::model::ProbedMpi;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;

/// Opens the first library that can be opened; the error is that of the first one.
pub fn open(files: &[Candidate]) -> Result<(Mpi, &Candidate), StepError> {
    let mut first = None;
    for candidate in files {
        match Mpi::open_file(&candidate.file) {
            Ok(mpi) => return Ok((mpi, candidate)),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    Err(StepError::Mpi(
        first.unwrap_or(mp::mpi::Error::Absent("was found for this launcher; name one with --mpi")),
    ))
}

/// What is known of a library once it is initialized.
pub fn probed(mpi: &Mpi, candidate: &Candidate) -> Result<ProbedMpi, StepError> {
    let support = mpi.cuda_support()?;
    Ok(ProbedMpi {
        file: mpi.file().map(|file| file.display().to_string()),
        chosen: candidate.reason.clone(),
        version: mpi.version().to_owned(),
        abi: match mpi.abi() {
            Abi::OpenMpi => "open-mpi",
            Abi::Mpich => "mpich",
        }
        .to_owned(),
        query: support.map(|support| support.function.to_owned()),
        claims_gpu: support.map(|support| support.supported),
        ..ProbedMpi::default()
    })
}

pub fn open_gpu(task: &Task, reporter: &mut Reporter<'_>) -> Result<Option<Gpu>, StepError> {
    let Some(target) = &task.gpu else {
        return Ok(None);
    };
    reporter.doing("CUDA to open the GPU")?;
    let gpu = target.open()?;
    reporter.send(&Event::Gpu(Box::new(target.probed(&gpu.device().name))))?;
    Ok(Some(gpu))
}
