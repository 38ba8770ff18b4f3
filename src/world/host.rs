//! The report's header. Uses sysinfo, which reads only the live machine, so no verdict depends on it.

use std::path::Path;

use super::Files;
use crate::model::Host;
use crate::output::time_of;

pub fn live() -> Host {
    use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};
    let system = System::new_with_specifics(
        RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram()),
    )
    .ok();
    let cpus = system.as_ref().map_or(&[][..], System::cpus);
    Host {
        source: "live".to_owned(),
        name: System::host_name().ok(),
        os: System::long_os_version().ok(),
        kernel: System::kernel_version().ok(),
        cpu: cpus.first().map(|cpu| cpu.brand().to_owned()),
        cpus: u64::try_from(cpus.len()).ok().filter(|count| *count > 0),
        memory: system.as_ref().map(System::total_memory),
        booted: System::boot_time().ok().filter(|seconds| *seconds > 0).map(time_of),
        ..Host::default()
    }
}

/// A machine in a directory, described by its files.
pub fn recorded(files: &dyn Files, root: &str) -> Host {
    let text = |path: &str| files.text(Path::new(path)).ok();
    let line = |path: &str| text(path).filter(|text| !text.is_empty());
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    Host {
        source: root.to_owned(),
        name: line("/proc/sys/kernel/hostname"),
        os: text("/etc/os-release").and_then(|text| os_name(&text)),
        kernel: line("/proc/sys/kernel/osrelease"),
        cpu: value_of(&cpuinfo, "model name"),
        cpus: text("/sys/devices/system/cpu/online")
            .and_then(|list| list.parse::<crate::model::IdList>().ok())
            .map(|list| list.len()),
        memory: text("/proc/meminfo")
            .and_then(|text| value_of(&text, "MemTotal"))
            .and_then(|value| value.strip_suffix(" kB")?.trim().parse::<u64>().ok())
            .and_then(|kilobytes| kilobytes.checked_mul(1024)),
        ..Host::default()
    }
}

fn os_name(release: &str) -> Option<String> {
    release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned())
}

fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}
