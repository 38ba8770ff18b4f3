//! Resources that this process and the GPU have in use.

use std::error::Error;

use crate::Setup;

#[derive(Debug)]
pub struct Footprint {
    pub files: usize,
    pub mappings: usize,
    /// Bytes of GPU memory in use.
    pub memory: u64,
    /// MiB of BAR1 in use, from nvidia-smi.
    pub bar1: Option<u64>,
}

pub fn footprint(setup: &Setup) -> Result<Footprint, Box<dyn Error>> {
    setup.stream.synchronize()?;
    let (free, total) = setup.gpu.memory_info()?;
    Ok(Footprint {
        files: std::fs::read_dir("/proc/self/fd")?.count(),
        mappings: std::fs::read_to_string("/proc/self/maps")?.lines().count(),
        memory: total - free,
        bar1: bar1(setup),
    })
}

fn bar1(setup: &Setup) -> Option<u64> {
    if setup.gpu.is_sim() {
        return None;
    }
    let output =
        std::process::Command::new("nvidia-smi").args(["-q", "-d", "MEMORY"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bar1 = text.split("BAR1 Memory Usage").nth(1)?;
    let used = bar1.lines().find(|line| line.trim_start().starts_with("Used"))?;
    used.split(':').nth(1)?.trim().trim_end_matches(" MiB").parse().ok()
}
