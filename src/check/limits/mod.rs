//! What this process and its control group may use.

mod memlock;

use super::Check;
use crate::model::Severity;
use memlock::memlock;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[Check {
    id: "limits.memlock",
    rule: "This process may lock as much memory as RDMA needs.",
    sources: "/proc/self/limits, /proc/self/status, /proc/self/uid_map",
    severity: Severity::Warn,
    why: "Registered memory is pinned and counts against this limit unless the process may lock at will. Registration then answers ENOMEM (Cannot allocate memory), or EPERM where the limit is 0.",
    cure: "Raise it: ulimit -l unlimited, limits.d, LimitMEMLOCK= of the service that starts the program, --ulimit memlock=-1 of the container.",
    references: &["https://man7.org/linux/man-pages/man2/getrlimit.2.html"],
    judge: memlock,
}];
