//! Streams and kernels that send and wait. A kernel performs the memory operations that a stream would.

use std::cell::RefCell;

use gpu::{DeviceMemory, Error, HostMemory, MemOp, Operations};
use mp::{Request, Stream};

use super::session::Session;
use super::talk::Drive;
use crate::probe::failure::StepError;

/// Keeps the operations for a kernel.
#[derive(Debug, Default)]
struct Recorder(RefCell<Vec<MemOp>>);

impl Stream for Recorder {
    fn batch(&self, ops: &[MemOp]) -> Result<(), Error> {
        self.0.borrow_mut().extend_from_slice(ops);
        Ok(())
    }

    fn download(
        &self,
        _: &HostMemory,
        _: usize,
        _: &DeviceMemory,
        _: usize,
        _: usize,
    ) -> Result<(), Error> {
        Err(Error::Pageable)
    }

    fn upload(
        &self,
        _: &DeviceMemory,
        _: usize,
        _: &HostMemory,
        _: usize,
        _: usize,
    ) -> Result<(), Error> {
        Err(Error::Pageable)
    }
}

/// Queued work: `None` for a stream, which has it already.
pub struct Queued(Option<Operations>);

/// Collects the work that `add` gives a stream, for the stream itself or for a kernel.
pub fn queue(
    session: &Session<'_>,
    drive: Drive,
    add: impl FnOnce(&dyn Stream) -> Result<Vec<Request>, StepError>,
) -> Result<(Queued, Vec<Request>), StepError> {
    if drive != Drive::Kernel {
        return Ok((Queued(None), add(&session.stream)?));
    }
    let recorder = Recorder::default();
    let requests = add(&recorder)?;
    let operations = session.reader.load(&recorder.0.into_inner(), session.ranks.timeout())?;
    Ok((Queued(Some(operations)), requests))
}

impl Queued {
    /// Launches the kernel.
    pub fn launch(&self, session: &Session<'_>) -> Result<(), StepError> {
        match &self.0 {
            Some(operations) => Ok(session.stream.perform(operations)?),
            None => Ok(()),
        }
    }

    /// Checks that the kernel waited for everything; the stream is idle.
    pub fn check(&self) -> Result<(), StepError> {
        match self.0.as_ref().map(Operations::late).transpose()?.flatten() {
            Some(position) => Err(StepError::Released(format!(
                "a kernel waited too long at operation {position}"
            ))),
            None => Ok(()),
        }
    }
}
