//! Support reports of a test: made of text, of a laid-out machine, and of entries of tar.

use std::fs;
use std::path::Path;

pub const SEPARATOR: &str = "____________________________________________\n\n";

pub const FIRST: &str = "Start of NVIDIA bug report log file.  Please include this file, along\n\
    with a detailed description of your problem\n\n\
    nvidia-bug-report.sh Version: 37062940\n\n\
    uname: Linux node17 6.8.0-90-generic #91-Ubuntu SMP x86_64 GNU/Linux\n\n";

/// A bridge, a GPU and a NIC below it, as lspci prints them to a user.
pub const LSPCI: &str = "\
0000:00:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a] (prog-if 00 [Normal decode])
	NUMA node: 0
	Bus: primary=00, secondary=01, subordinate=05, sec-latency=0

0000:01:00.0 PCI bridge [0604]: Broadcom / LSI Device [1000:c030] (prog-if 00 [Normal decode])
	Bus: primary=01, secondary=02, subordinate=05, sec-latency=0

0000:02:00.0 PCI bridge [0604]: Broadcom / LSI Device [1000:c030] (prog-if 00 [Normal decode])
	Bus: primary=02, secondary=03, subordinate=03, sec-latency=0

0000:02:01.0 PCI bridge [0604]: Broadcom / LSI Device [1000:c030] (prog-if 00 [Normal decode])
	Bus: primary=02, secondary=04, subordinate=04, sec-latency=0

0000:03:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
	NUMA node: 0
	Kernel driver in use: nvidia

0000:04:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
	NUMA node: 0
";

/// A gzip member; gdr does not look at its checksum.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let packed = miniz_oxide::deflate::compress_to_vec(bytes, 6);
    [&head, packed.as_slice(), &[0; 8]].concat()
}

/// A section of a file, as nvidia-bug-report.sh writes it.
pub fn file(path: &str, text: &str) -> String {
    format!(
        "{SEPARATOR}*** {path}\n*** ls: -r--r--r-- 1 root root 0 2026-11-23 08:00:00.000000000 +0000 {path}\n{text}\n"
    )
}

pub fn command(line: &str, output: &str) -> String {
    format!("{SEPARATOR}{line}\n\n{output}\n")
}

/// The files of a directory that is laid out like a machine, which the script copies.
pub fn copied(root: &Path) -> String {
    let fixed = [
        "/etc/os-release",
        "/proc/cmdline",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/modules",
        "/proc/pci",
        "/proc/driver/nvidia/version",
        "/proc/driver/nvidia/params",
        "/sys/bus/pci/devices/0000:03:00.0/local_cpulist",
    ];
    let mut paths: Vec<String> = fixed.map(str::to_owned).to_vec();
    if let Ok(gpus) = fs::read_dir(root.join("proc/driver/nvidia/gpus")) {
        let name = |gpu: std::io::Result<fs::DirEntry>| gpu.expect("a GPU").file_name();
        let path = |gpu| format!("/proc/driver/nvidia/./gpus/{}/information", name(gpu).display());
        paths.extend(gpus.map(path));
    }
    let section = |path: &String| match fs::read_to_string(root.join(&path[1..])) {
        Ok(text) => file(path, &text),
        Err(_) => format!("{SEPARATOR}*** {path} does not exist\n\n"),
    };
    paths.iter().map(section).collect()
}

pub fn bug_report(root: &Path, lspci: &str) -> String {
    let end = format!("{SEPARATOR}\nEnd of NVIDIA bug report log file.\n");
    let tree = command(
        "/usr/bin/lspci -nntv",
        "-[0000:00]-+-00.0  Intel Corporation Device [8086:352a]\n",
    );
    let lspci = command("/usr/bin/lspci -nnDvvvxxxx", lspci);
    [SEPARATOR, FIRST, &tree, &lspci, &copied(root), &end].concat()
}

/// An entry of a tar archive, in the ustar format.
pub fn entry(name: &str, kind: u8, link: &str, content: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(156, &[kind]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    resize(&mut block, content.len() as u64);
    block.extend_from_slice(content);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

/// Lets a header claim a size.
pub fn resize(header: &mut [u8], size: u64) {
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[148..156].copy_from_slice(b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

pub fn files(root: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let file =
        |(path, text): &(&str, &str)| entry(&format!("{root}{path}"), b'0', "", text.as_bytes());
    files.iter().flat_map(file).collect()
}

pub const RELEASE: &str = "PRETTY_NAME=\"Rocky Linux 9.4\"\n";

pub const VERSION: &str =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n";

/// A report of sosreport, without the zeros at its end.
pub fn sosreport() -> Vec<u8> {
    let root = "sosreport-node17-2026-11-23-abcdefg/";
    let directory = |path: &str| entry(&format!("{root}{path}"), b'5', "", b"");
    [
        directory(""),
        directory("proc/driver/"),
        directory("etc/modprobe.d/"),
        entry(&format!("{root}etc/os-release"), b'2', "../usr/lib/os-release", b""),
        files(
            root,
            &[
                ("usr/lib/os-release", RELEASE),
                ("proc/sys/kernel/hostname", "node17\n"),
                ("proc/driver/nvidia/version", VERSION),
                ("proc/modules", "nvidia 14299136 3 nvidia_uvm, Live 0x0 (OE)\n"),
                ("proc/self/limits", "Max locked memory 1 1 bytes\n"),
                ("sos_commands/pci/lspci_-nnvv", LSPCI),
                (
                    "sos_commands/kernel/uname_-a",
                    "Linux node17 5.14.0-427.el9.x86_64 #1 SMP x86_64 GNU/Linux\n",
                ),
            ],
        ),
    ]
    .concat()
}

/// A report of supportconfig.
pub fn supportconfig() -> Vec<u8> {
    let command = |line: &str, output: &str| {
        format!("#==[ Command ]======================================#\n# {line}\n{output}\n")
    };
    let file = |path: &str, text: &str| {
        format!("#==[ Configuration File ]===========================#\n# {path}\n{text}\n")
    };
    let first = "=====\n   Support Utilities - Supportconfig\n=====\n\n";
    let basic = [
        first,
        &command("/bin/uname -a", "Linux node17 6.4.0-150600.23-default #1 SMP x86_64 GNU/Linux\n"),
        &file("/etc/os-release", "PRETTY_NAME=\"SUSE Linux Enterprise Server 15 SP6\"\n"),
    ];
    let hardware = [
        first,
        &file("/proc/cmdline", "root=/dev/sda1 iommu=pt\n"),
        &command("/sbin/lspci -b", LSPCI),
        &command("/sbin/lspci -vvv", LSPCI),
    ];
    let modules = [
        first,
        &command(
            "/usr/bin/lsmod | sort",
            "Module                  Size  Used by\nib_core 1 2\nnvidia 14299136 3 nvidia_uvm\n",
        ),
        &command(
            "/usr/sbin/modinfo nvidia_peermem",
            "filename: /lib/x.ko\n# Known Module Parameter Values\n/sys/module/nvidia_peermem/parameters/peerdirect_support=0\n",
        ),
        &file("/etc/modprobe.d/50-nvidia.conf", "options nvidia NVreg_EnableStreamMemOPs=1\n"),
        "#==[ Configuration File ]===========================#\n# /etc/modprobe.d/* - File not found\n\n",
    ];
    let texts = [basic.concat(), hardware.concat(), modules.concat()];
    files(
        "scc_node17_261123_0800/",
        &[
            ("basic-environment.txt", texts[0].as_str()),
            ("hardware.txt", &texts[1]),
            ("modules.txt", &texts[2]),
            ("messages.txt", "0000:ff:00.0 Not a function: of lspci\n"),
        ],
    )
}

/// Functions as sysfs has them, without their configuration space.
pub fn functions(count: u32) -> Vec<u8> {
    let start = "sosreport-x/";
    let mut functions = entry("sosreport-x/sys/bus/pci/devices/", b'5', "", b"");
    for at in 0..count {
        let bdf = format!("{:04x}:{:02x}:{:02x}.0", at / 8192, at / 32 % 256, at % 32);
        let link = format!("../../../devices/pci0000:00/{bdf}");
        functions.extend(entry(&format!("{start}sys/bus/pci/devices/{bdf}"), b'2', &link, b""));
        for (name, value) in
            [("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"), ("numa_node", "0")]
        {
            functions
                .extend(files(start, &[(&format!("sys/devices/pci0000:00/{bdf}/{name}"), value)]));
        }
    }
    functions
}
