//! An MPI communicator as bootstrap.

use std::time::Duration;

use super::{Bootstrap, Error};
use crate::mpi;

/// The ranks of an MPI communicator. Calls come from the thread that uses MPI.
#[derive(Debug)]
pub struct Mpi(mpi::Communicator);

impl Mpi {
    /// `MPI_COMM_WORLD` of the MPI library in this process, which is initialized.
    ///
    /// # Errors
    ///
    /// [`Error::Mpi`].
    pub fn world() -> Result<Self, Error> {
        Ok(Self(mpi::Mpi::find()?.world()?))
    }

    /// A program's communicator.
    #[must_use]
    pub fn new(communicator: mpi::Communicator) -> Self {
        Self(communicator)
    }
}

impl Bootstrap for Mpi {
    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn size(&self) -> u32 {
        self.0.size()
    }

    fn all_gather(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.0.all_gather(bytes, timeout)?)
    }
}
