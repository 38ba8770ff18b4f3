//! Reads the log of a job and says which path each pair of ranks used. Pure: runs nothing and reads no machine.
//!
//! `lines` finds NCCL's lines in a stream, `header` what stands before a message, `processes` who printed it, `bare` paths without both,
//! `interface` addresses that other nodes do not reach, `message` what it says, `transport` the path in it, `failure` the failure, `last_error`
//! one in a program's exception, `flat` a traceback in one line, `unnamed` one that gdr has no kind for, `ras` what NCCL's RAS prints, `library`
//! what UCX, NVSHMEM, Open MPI and others say, `program` what Python, PyTorch and launchers say. `members` finds the communicator of a line,
//! `paths` and `collector` keep what counts, with bounded memory; `build` makes the job, `why` explains slower paths.
//!
//! The wording was read in NCCL's sources of tags 2.4.8, 2.7.8, 2.10.3, 2.14.3, 2.18.3, 2.28.9 and 2.30.7.

mod around;
mod bare;
mod build;
mod collector;
mod failure;
mod failures;
mod flat;
mod header;
mod interface;
mod joined;
mod known;
mod last_error;
mod library;
mod lines;
mod matrix;
mod members;
mod message;
mod paths;
mod processes;
mod program;
mod ras;
mod route;
mod transport;
mod unnamed;
mod why;
mod words;

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod tests;

pub use around::{Around, Shown};
pub use library::{Tables, btl, endpoint, selected};
pub use lines::JobReader;
