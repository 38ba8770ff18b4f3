//! The platform: guest or bare metal, container, kernel.

mod cma;
mod container;
mod guest;
mod kernel;
mod lockdown;

use super::Check;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] =
    &[guest::CHECK, container::CHECK, lockdown::CHECK, kernel::CHECK, cma::CHECK];
