//! What this process and its control group may use.

mod map_count;
mod memlock;
mod rdma_cgroup;
mod shm;

use super::Check;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[memlock::CHECK, rdma_cgroup::CHECK, map_count::CHECK, shm::CHECK];
