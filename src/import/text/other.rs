//! The system: its modules, CPUs and command line; lspci; and texts of programs that say nothing about GPUs and NICs.

use super::Kind;
use crate::import::lspci;

pub const LSPCI: Kind = Kind {
    name: "lspci",
    begins: lspci::is_head,
    yields: "PCI functions: place, links, ACS, BARs, NUMA node, as far as the options and the rights of the user go",
    example: "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tNUMA node: 0
\tKernel driver in use: nvidia
",
    // lspci is read as a whole: its runs may be parts of one machine.
    read: |_, _| Ok(()),
};

pub const LSMOD: Kind = Kind {
    name: "lsmod",
    begins: |line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words == ["Module", "Size", "Used", "by"]
    },
    yields: "loaded kernel modules",
    example: "Module                  Size  Used by
nvidia_peermem         16384  0
nvidia              56717312  1 nvidia_peermem
ib_core               434176  1 nvidia_peermem
",
    read: |text, recording| recording.command("lsmod", text),
};

pub const COMMAND_LINE: Kind = Kind {
    name: "/proc/cmdline",
    begins: |line| line.starts_with("BOOT_IMAGE="),
    yields: "command line of the kernel",
    example: "BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/sda1 ro iommu=pt
",
    read: |text, recording| {
        let line = text.lines().next().unwrap_or_default().trim();
        recording.pasted_file("/proc/cmdline", format!("{line}\n"))
    },
};

pub const UNAME: Kind = Kind {
    name: "uname -a",
    begins: |line| {
        line.starts_with("Linux ") && line.contains(" #") && !line.contains("Linux version")
    },
    yields: "name of the machine and release of the kernel",
    example: "Linux node1 6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC x86_64 GNU/Linux
",
    read: |text, recording| recording.uname(text.lines().next().unwrap_or_default().trim()),
};

pub const NUMACTL: Kind = Kind {
    name: "numactl -H",
    begins: |line| line.strip_prefix("available: ").is_some_and(|rest| rest.contains(" nodes (")),
    yields: "NUMA nodes and their CPUs",
    example: "available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 1 cpus: 4 5 6 7
",
    read: |text, recording| recording.command("numactl -H", text),
};

pub const LSCPU: Kind = Kind {
    name: "lscpu",
    begins: |line| line.strip_prefix("Architecture:").is_some_and(|rest| rest.starts_with(' ')),
    yields: "NUMA nodes and their CPUs",
    example: "Architecture:            x86_64
CPU(s):                  8
NUMA node(s):            2
NUMA node0 CPU(s):       0-3
NUMA node1 CPU(s):       4-7
",
    read: |text, recording| recording.command("numactl -H", &lscpu(text)),
};

/// The NUMA nodes of lscpu as `numactl -H` prints them.
fn lscpu(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().map(str::trim) {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if key == "NUMA node(s)" {
            out.push_str(&format!("available: {value} nodes (0)\n"));
        } else if let Some(node) =
            key.strip_prefix("NUMA node").and_then(|key| key.strip_suffix(" CPU(s)"))
        {
            out.push_str(&format!("node {node} cpus: {value}\n"));
        }
    }
    out
}

/// Programs whose output says nothing about GPUs, NICs and PCI devices, by the first line.
const FOREIGN: [(&str, &str); 12] = [
    ("              total        used        free", "free"),
    ("               total        used        free", "free"),
    ("Filesystem ", "df"),
    ("NAME ", "lsblk, or a table of another program"),
    ("top - ", "top"),
    ("  PID ", "ps"),
    ("USER ", "ps"),
    ("Traceback (most recent call last):", "a Python program that failed"),
    ("{", "a JSON document"),
    ("<?xml", "an XML document"),
    ("<", "an XML or HTML document"),
    ("nvcc: NVIDIA", "nvcc --version"),
];

/// What another text looks like, by its first lines.
pub fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let start = &bytes[..bytes.len().min(4096)];
    let text = String::from_utf8_lossy(start);
    if start.iter().filter(|byte| **byte < 9).count() > start.len() / 50 {
        return Some("a binary file");
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).take(20);
    lines.find_map(|line| {
        let known = FOREIGN.iter().find(|(begin, _)| line.starts_with(begin));
        known.map(|(_, name)| *name)
    })
}
