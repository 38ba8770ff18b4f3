//! Resources of this process and of the GPU, and child processes.

use std::error::Error;

use gpu::Allocation;

use crate::{Outcome, World, say};

/// Kinds of memory that all backends map.
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
    /// MiB of BAR1 in use, from nvidia-smi.
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
    let lines = status
        .lines()
        .filter(|line| line.starts_with("Uid") || line.starts_with("CapEff"));
    say(&lines.collect::<Vec<_>>().join(", "))
}
