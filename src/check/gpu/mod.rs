//! The GPUs and their driver.

mod bar1;
mod capable;
mod cdmm;
mod dmabuf;
mod domain;
mod driver;
mod fabric;
mod flavour;
mod imex;
mod libcuda;
mod min_driver;
mod node;
mod nouveau;
mod nvlink;
mod ordering;
mod p2p;
mod present;
pub mod reading;
mod sharing;

pub use imex::is_of_domain;

use super::Check;
pub use cdmm::is_by_driver;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    present::CHECK,
    driver::CHECK,
    min_driver::CHECK,
    flavour::CHECK,
    nouveau::CHECK,
    capable::CHECK,
    dmabuf::CHECK,
    ordering::CHECK,
    bar1::CHECK,
    sharing::MIG,
    sharing::VGPU,
    sharing::CONFIDENTIAL,
    sharing::PERSISTENCE,
    fabric::CHECK,
    nvlink::CHECK,
    imex::CHECK,
    domain::CHECK,
    cdmm::CHECK,
    p2p::CHECK,
];
