//! MPI's functions, as the running process has them: Open MPI's or MPICH's (MVAPICH, Intel MPI and Cray MPICH have its ABI). Neither is
//! linked: a program that is linked with one finds that one.
//!
//! The two ABIs differ in their handles: Open MPI's are pointers, MPICH's integers of 32 bits. Both are passed in one register on
//! x86_64 and aarch64, of which MPICH's functions read the lower half, so one signature serves both.
//!
//! The only unsafe code of this crate.

mod communicator;
mod functions;
mod transfer;

pub use communicator::Communicator;
pub use functions::{Abi, CudaSupport, Mpi};
pub use transfer::{Memory, Request};

use std::path::PathBuf;
use std::time::Duration;

/// Why an MPI operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No MPI library is in this process, or none could be opened.
    #[error(
        "no MPI library {0}: link the program with one (mpicc), or use another bootstrap than MPI"
    )]
    Absent(&'static str),
    /// The file cannot be loaded.
    #[error("cannot load {}: {why}", file.display())]
    Load {
        /// The file.
        file: PathBuf,
        /// The loader's message.
        why: String,
    },
    /// Neither Open MPI's ABI nor MPICH's.
    #[error("unknown MPI library: {version}; the ABIs of Open MPI and MPICH are supported")]
    Unknown {
        /// What the library says of itself.
        version: String,
    },
    /// The library lacks a function of MPI 3.
    #[error("the MPI library has no {0}: MPI 3 is required")]
    Missing(&'static str),
    /// `MPI_Init` was not called, or `MPI_Finalize` was.
    #[error("MPI is not initialized: call this between MPI_Init and MPI_Finalize")]
    NotInitialized,
    /// A function returned an error. By default MPI ends the process instead.
    #[error("{function} returned {code}")]
    Failed {
        /// The function.
        function: &'static str,
        /// Its error code.
        code: i32,
    },
    /// A collective operation did not complete: a rank has not called it, or died.
    #[error("{function} did not complete within {} ms: a rank has not called it, or has ended", .timeout.as_millis())]
    TimedOut {
        /// The function.
        function: &'static str,
        /// The timeout.
        timeout: Duration,
    },
    /// A message is not within its memory.
    #[error("{bytes} bytes at offset {offset} are not within the memory")]
    Range {
        /// Offset in the memory.
        offset: usize,
        /// Bytes of the message.
        bytes: usize,
    },
    /// More bytes than MPI's counts hold.
    #[error("{bytes} bytes are too many for one MPI operation")]
    Length {
        /// The bytes.
        bytes: usize,
    },
}
