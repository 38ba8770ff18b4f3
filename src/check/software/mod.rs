//! Software that uses GPUDirect: MPI, tools, libraries, environment. Judged from files; no program is run.

mod environment;
mod known_bad;
mod libraries;
mod mpi;
mod net_plugin;
mod perftest;
mod toolkit;
mod transports;

use super::Check;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    mpi::CHECK,
    perftest::CHECK,
    net_plugin::CHECK,
    known_bad::CHECK,
    libraries::CHECK,
    toolkit::CHECK,
    environment::CHECK,
];
