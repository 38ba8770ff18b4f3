//! Kinds of memory, and dropping root.

use gpu::Allocation;

use crate::{Outcome, print_line};

/// Kinds of memory that all backends map.
pub const ALLOCATIONS: [Allocation; 4] = [
    Allocation::Malloc,
    Allocation::Create { exportable: false, rdma: true },
    Allocation::Create { exportable: true, rdma: true },
    Allocation::Pool { exportable: true },
];

/// Switches to user and group 65534, which drops all capabilities.
pub fn become_nobody() -> Outcome {
    // SAFETY: numbers and an empty list; this is the only thread.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(65534) == 0
            && libc::setuid(65534) == 0
    };
    if !done {
        return Err(std::io::Error::last_os_error().into());
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines = status.lines().filter(|line| line.starts_with("Uid") || line.starts_with("CapEff"));
    print_line(&lines.collect::<Vec<_>>().join(", "))
}
