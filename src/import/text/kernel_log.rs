//! Kernel logs, by dmesg or journalctl: what they state of the boot and the driver. Failures in them are `gdr explain`'s.

use super::Kind;
use crate::import::ImportError;
use crate::import::support::Recording;

pub const KERNEL_LOG: Kind = Kind {
    name: "kernel log (dmesg, journalctl -k)",
    begins: |line| {
        is_timed(line)
            || line.contains(" kernel: ")
            || line.starts_with("NVRM: ")
            || line.starts_with("iommu: Default domain type")
    },
    yields: "kernel, its command line, the default IOMMU domain and the version of the NVIDIA driver; failures: gdr explain FILE",
    example: "[    0.000000] Linux version 6.8.0-45-generic (buildd@host) (gcc 13.2.0) #45-Ubuntu SMP
[    0.000000] Command line: BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/sda1 iommu=pt
[   12.345678] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Thu Feb 22 01:44:30 UTC 2024
",
    read,
};

/// `[   12.345678] message`.
fn is_timed(line: &str) -> bool {
    let time = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let time =
        time.and_then(|(time, rest)| rest.starts_with(' ').then(|| time.trim().split_once('.')));
    time.flatten().is_some_and(|(seconds, fraction)| {
        fraction.len() == 6 && seconds.parse::<u64>().is_ok() && fraction.parse::<u32>().is_ok()
    })
}

/// A log may have several boots and drivers: what it states differently is unknown.
fn read(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut lines = [Once::default(), Once::default(), Once::default()];
    for line in text.lines() {
        recording.kernel_line(line);
        let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest.trim());
        if let Some(rest) = after("Linux version ") {
            lines[0].add(rest.split(' ').next().unwrap_or_default());
        } else if let Some(rest) = after("] Command line: ").or(after("kernel: Command line: ")) {
            lines[1].add(rest);
        } else if let Some(rest) = after("NVRM: loading ") {
            lines[2].add(rest);
        }
    }
    let [release, command_line, module] = lines;
    if let Some(release) = release.only() {
        recording.pasted_file("/proc/sys/kernel/osrelease", release)?;
    }
    if let Some(line) = command_line.only() {
        recording.pasted_file("/proc/cmdline", format!("{line}\n"))?;
    }
    if let Some(module) = module.only() {
        recording
            .pasted_file("/proc/driver/nvidia/version", format!("NVRM version: {module}\n"))?;
    }
    Ok(())
}

/// A value that all lines agree on.
#[derive(Default)]
struct Once {
    value: Option<String>,
    differs: bool,
}

impl Once {
    fn add(&mut self, value: &str) {
        match &self.value {
            Some(known) => self.differs |= known != value,
            None => self.value = Some(value.to_owned()),
        }
    }

    fn only(self) -> Option<String> {
        self.value.filter(|value| !self.differs && !value.is_empty())
    }
}
