//! What the exercises look at beside CUDA: this process, its children, and what the GPU has in use.

use std::error::Error;

use gpu::Allocation;

use crate::{Outcome, World, say};

/// Every kind of memory that every backend maps.
pub const ALLOCATIONS: [Allocation; 4] = [
    Allocation::Malloc,
    Allocation::Create {
        exportable: false,
        rdma: true,
    },
    Allocation::Create {
        exportable: true,
        rdma: true,
    },
    Allocation::Pool { exportable: true },
];

#[derive(Debug)]
pub struct Footprint {
    pub files: usize,
    pub mappings: usize,
    /// Bytes of GPU memory in use.
    pub memory: u64,
    /// MiB of BAR1 in use, as nvidia-smi says.
    pub bar1: Option<u64>,
}

pub fn footprint(world: &World) -> Result<Footprint, Box<dyn Error>> {
    world.stream.synchronize()?;
    let (free, total) = world.gpu.memory_info()?;
    Ok(Footprint {
        files: std::fs::read_dir("/proc/self/fd")?.count(),
        mappings: std::fs::read_to_string("/proc/self/maps")?.lines().count(),
        memory: total - free,
        bar1: bar1(world),
    })
}

fn bar1(world: &World) -> Option<u64> {
    if world.gpu.is_sim() {
        return None;
    }
    let output = std::process::Command::new("nvidia-smi")
        .args(["-q", "-d", "MEMORY"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bar1 = text.split("BAR1 Memory Usage").nth(1)?;
    let used = bar1
        .lines()
        .find(|line| line.trim_start().starts_with("Used"))?;
    used.split(':')
        .nth(1)?
        .trim()
        .trim_end_matches(" MiB")
        .parse()
        .ok()
}

#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

pub fn in_child(work: impl FnOnce() -> i32) -> Result<Ended, Box<dyn Error>> {
    // SAFETY: the child calls `work`, which allocates little and takes no lock that another thread
    // may hold, and then _exit.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    if child == 0 {
        let code = work();
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is written by the call and lives through it.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Code(libc::WEXITSTATUS(status))
    })
}

/// User and group 65534 and no others; the kernel drops the capabilities with them.
pub fn become_nobody() -> Outcome {
    // SAFETY: numbers and an empty list; no thread but this one runs yet.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(65534) == 0
            && libc::setuid(65534) == 0
    };
    if !done {
        return Err(std::io::Error::last_os_error().into());
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines = status
        .lines()
        .filter(|line| line.starts_with("Uid") || line.starts_with("CapEff"));
    say(&lines.collect::<Vec<_>>().join(", "))
}
