//! The software around GPUDirect: MPI, tools, libraries, environment.
use super::Check;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[];
