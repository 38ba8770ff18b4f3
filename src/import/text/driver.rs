//! Files of the NVIDIA driver in /proc, recognized by their content.

use super::nccl::GPU;
use super::summary::is_model;
use super::{Kind, Starts};
use crate::model::Bdf;

pub const VERSION: Kind = Kind {
    name: "/proc/driver/nvidia/version",
    starts: Starts::Output,
    begins: |line| line.starts_with("NVRM version: NVIDIA "),
    yields: "version and flavour of the kernel modules",
    example: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@host)
GCC version:  gcc version 11.4.0
",
    read: |text, recording| {
        let line = text.lines().next().unwrap_or_default().trim();
        recording.pasted_file("/proc/driver/nvidia/version", format!("{line}\n"))
    },
};

pub const PARAMS: Kind = Kind {
    name: "/proc/driver/nvidia/params",
    starts: Starts::Output,
    begins: |line| line.starts_with("ResmanDebugLevel: "),
    yields: "parameters of the loaded driver",
    example: "ResmanDebugLevel: 4294967295
RmLogonRC: 1
EnableStreamMemOPs: 0
PeerMappingOverride: 0
",
    read: |text, recording| {
        let is_line = |line: &&str| {
            line.split_once(": ").is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
        };
        let lines: Vec<&str> = text.lines().map(str::trim).take_while(is_line).collect();
        recording.pasted_file("/proc/driver/nvidia/params", lines.join("\n") + "\n")
    },
};

pub const INFORMATION: Kind = Kind {
    name: "/proc/driver/nvidia/gpus/*/information",
    starts: Starts::Line,
    begins: |line| {
        let model = line.strip_prefix("Model:").map(str::trim_start);
        model.is_some_and(|model| is_model(model) || model == "Unknown")
    },
    yields: "GPUs that the driver drives: address, model, UUID",
    example: "Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 254
GPU UUID: \t GPU-01234567-89ab-cdef-0123-456789abcdef
Bus Location: \t 0000:17:00.0
Device Minor: \t 0
",
    read: |text, recording| {
        for block in blocks(text) {
            let bus = block.iter().find_map(|line| {
                line.trim().strip_prefix("Bus Location:")?.trim().parse::<Bdf>().ok()
            });
            if let Some(bdf) = bus {
                recording.function(bdf, GPU);
                let path = format!("/proc/driver/nvidia/gpus/{bdf}/information");
                recording.pasted_file(&path, block.join("\n") + "\n")?;
            }
        }
        Ok(())
    },
};

/// The lines of each GPU.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        if (INFORMATION.begins)(line.trim()) {
            blocks.push(Vec::new());
        }
        if let Some(block) = blocks.last_mut().filter(|_| line.contains(':')) {
            block.push(line);
        }
    }
    blocks
}
