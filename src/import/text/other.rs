//! The system: its modules, CPUs and command line; lspci; and texts of programs that say nothing about GPUs and NICs.

use super::{Kind, Starts};
use crate::import::lspci;

pub const LSPCI: Kind = Kind {
    name: "lspci",
    starts: Starts::Line,
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
    starts: Starts::Line,
    begins: |line| match line.split_ascii_whitespace().next() {
        Some("Module") => line.split_ascii_whitespace().eq(["Module", "Size", "Used", "by"]),
        Some(name) => is_of_interest(name) && module(line).is_some(),
        None => false,
    },
    yields: "loaded kernel modules; of lines without the head, as of grep, those that are loaded",
    example: "Module                  Size  Used by
nvidia_peermem         16384  0
nvidia              56717312  1 nvidia_peermem
ib_core               434176  1 nvidia_peermem
",
    read: |text, recording| {
        if text.lines().any(|line| line.starts_with("Module ")) {
            return recording.command("lsmod", text);
        }
        text.lines().filter_map(module).try_for_each(|name| recording.module(name))
    },
};

/// The module of a line `nvidia_peermem 16384 0`, perhaps with the modules that use it.
fn module(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?;
    let counts = [words.next()?, words.next()?];
    let is_count = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let rest = words.next().is_none_or(|users| !is_count(users)) && words.next().is_none();
    (counts.into_iter().all(is_count) && rest).then_some(name)
}

/// Modules by which the output of lsmod is recognized without its head.
fn is_of_interest(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "nvidia",
        "nvidia_uvm",
        "nvidia_peermem",
        "nv_peer_mem",
        "gdrdrv",
        "ib_core",
        "mlx5_core",
        "mlx5_ib",
    ];
    NAMES.contains(&name)
}

pub const MODINFO: Kind = Kind {
    name: "modinfo",
    starts: Starts::Output,
    begins: |line| {
        let file = line.strip_prefix("filename:").map(str::trim);
        file.is_some_and(|file| file.starts_with("/lib/modules/"))
    },
    yields: "release of the kernel",
    example: "filename:       /lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko
version:        570.86.15
license:        Dual MIT/GPL
",
    read: |text, recording| {
        let file = text.lines().find_map(|line| line.trim().strip_prefix("filename:"));
        let release = file.and_then(|file| file.trim().split('/').nth(3));
        match release {
            Some(release) => {
                recording.pasted_file("/proc/sys/kernel/osrelease", release.to_owned())
            }
            None => Ok(()),
        }
    },
};

pub const ULIMIT: Kind = Kind {
    name: "ulimit -a",
    starts: Starts::Output,
    begins: |line| line.starts_with("max locked memory ") && line.contains("-l)"),
    yields: "whether locked memory is unlimited",
    example: "max locked memory           (kbytes, -l) unlimited
",
    read: |text, recording| {
        // A number is the soft limit; the hard one is unknown.
        if text.lines().next().is_some_and(|line| line.trim_end().ends_with(" unlimited")) {
            recording.memlock(None, None);
        }
        Ok(())
    },
};

pub const COMMAND_LINE: Kind = Kind {
    name: "/proc/cmdline",
    starts: Starts::Output,
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
    starts: Starts::Output,
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
    starts: Starts::Output,
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
    starts: Starts::Output,
    begins: |line| {
        // Kubernetes prints Go's names of architectures.
        let name = line.strip_prefix("Architecture:").filter(|rest| rest.starts_with(' '));
        name.is_some_and(|name| !["amd64", "arm64"].contains(&name.trim()))
    },
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
