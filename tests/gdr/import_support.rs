//! `--from` with support reports: what a report holds of a machine gives the machine's own findings, or unknown, but
//! never another outcome. What is wrong with a report is said.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Gdr, Machine, Run, names, scratch};
use serde_json::Value;

const SEPARATOR: &str = "____________________________________________\n\n";

const FIRST: &str = "Start of NVIDIA bug report log file.  Please include this file, along\n\
    with a detailed description of your problem\n\n\
    nvidia-bug-report.sh Version: 37062940\n\n\
    uname: Linux node17 6.8.0-90-generic #91-Ubuntu SMP x86_64 GNU/Linux\n\n";

/// A bridge, a GPU and a NIC below it, as lspci prints them to a user.
const LSPCI: &str = "\
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

0000:04:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
	NUMA node: 0
";

/// A gzip member; gdr does not look at its checksum.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let packed = miniz_oxide::deflate::compress_to_vec(bytes, 6);
    [&head, packed.as_slice(), &[0; 8]].concat()
}

fn from(name: &str, bytes: &[u8], args: &[&str]) -> Run {
    let directory = scratch();
    let file = directory.path().join(name);
    fs::write(&file, bytes).expect("a file");
    let run = Gdr::new()
        .args(args)
        .args(["--from".as_ref(), file.as_os_str()])
        .run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr))
}

/// A section of a file, as nvidia-bug-report.sh writes it.
fn file(path: &str, text: &str) -> String {
    format!(
        "{SEPARATOR}*** {path}\n*** ls: -r--r--r-- 1 root root 0 2026-11-23 08:00:00.000000000 +0000 {path}\n{text}\n"
    )
}

fn command(line: &str, output: &str) -> String {
    format!("{SEPARATOR}{line}\n\n{output}\n")
}

/// The files of a directory that is laid out like a machine, which the script copies.
fn copied(root: &Path) -> String {
    let fixed = [
        "/etc/os-release",
        "/proc/cmdline",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/modules",
        "/proc/pci",
        "/proc/driver/nvidia/version",
        "/proc/driver/nvidia/params",
    ];
    let mut paths: Vec<String> = fixed.map(str::to_owned).to_vec();
    if let Ok(gpus) = fs::read_dir(root.join("proc/driver/nvidia/gpus")) {
        let name = |gpu: std::io::Result<fs::DirEntry>| gpu.expect("a GPU").file_name();
        let path = |gpu| {
            format!(
                "/proc/driver/nvidia/./gpus/{}/information",
                name(gpu).display()
            )
        };
        paths.extend(gpus.map(path));
    }
    let section = |path: &String| match fs::read_to_string(root.join(&path[1..])) {
        Ok(text) => file(path, &text),
        Err(_) => format!("{SEPARATOR}*** {path} does not exist\n\n"),
    };
    paths.iter().map(section).collect()
}

fn bug_report(root: &Path, lspci: &str) -> String {
    let end = format!("{SEPARATOR}\nEnd of NVIDIA bug report log file.\n");
    let tree = command(
        "/usr/bin/lspci -nntv",
        "-[0000:00]-+-00.0  Intel Corporation Device [8086:352a]\n",
    );
    let lspci = command("/usr/bin/lspci -nnDvvvxxxx", lspci);
    [SEPARATOR, FIRST, &tree, &lspci, &copied(root), &end].concat()
}

/// The outcomes of each check by subject.
fn outcomes(report: &Value) -> BTreeMap<(String, String), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().expect("findings");
    let outcome = |finding: &Value| {
        let at = (text(&finding["id"]), text(&finding["subject"]));
        (at, text(&finding["outcome"]))
    };
    findings.iter().map(outcome).collect()
}

#[test]
fn a_bug_report_has_devices_and_files() {
    let root = scratch();
    for (path, text) in [
        ("proc/cmdline", "root=/dev/sda1 iommu=pt\n"),
        (
            "proc/modules",
            "nvidia 14299136 3 nvidia_uvm, Live 0x0 (OE)\nib_core 1 2 - Live 0x0\n",
        ),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
        ),
        (
            "proc/driver/nvidia/gpus/0000:03:00.0/information",
            "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1\n",
        ),
        ("etc/os-release", "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let text = bug_report(root.path(), LSPCI);
    // The script compresses each section by itself and appends it.
    let members: Vec<u8> = text
        .split_inclusive(SEPARATOR)
        .flat_map(|part| gzip(part.as_bytes()))
        .collect();
    for (name, bytes) in [("plain", text.as_bytes()), ("members", &members)] {
        let run = from(name, bytes, &["doctor", "--format", "json"]);
        let report = json(&run);
        let host = &report["host"];
        assert!(
            host["source"]
                .as_str()
                .is_some_and(|source| source.ends_with(name)),
            "{host}"
        );
        assert_eq!(
            (host["name"].as_str(), host["kernel"].as_str()),
            (Some("node17"), Some("6.8.0-90-generic"))
        );
        assert_eq!(host["os"], "Ubuntu 24.04.1 LTS");
        let outcomes = outcomes(&report);
        let of = |id: &str| -> Vec<&str> {
            let of = outcomes.iter().filter(|((at, _), _)| at == id);
            of.map(|(_, outcome)| outcome.as_str()).collect()
        };
        assert_eq!(of("gpu.min-driver"), ["pass"], "{outcomes:?}");
        assert!(
            run.stderr.contains("as another program printed it"),
            "{}",
            run.stderr
        );
        assert!(!run.stderr.contains("take it again"), "{}", run.stderr);
        let topo = json(&from(name, bytes, &["topo", "--format", "json"]));
        assert_eq!(topo["matrix"]["GPU0"]["NIC0"], "PIX", "{topo}");
    }
}

/// With the output of the real lspci, of each test machine.
#[test]
#[ignore = "needs lspci"]
fn a_bug_report_gives_no_other_outcome() {
    let (mut known, mut other) = (0, Vec::new());
    for name in names().iter().filter(|name| *name != "broken") {
        let root = Machine::load(name).laid_out();
        let path = format!("sysfs.path={}", root.path().join("sys/bus/pci").display());
        let output = Command::new("lspci")
            .args(["-O", &path, "-nnDvvvxxxx"])
            .output();
        let lspci = String::from_utf8_lossy(&output.expect("lspci runs").stdout).into_owned();
        let doctor = ["doctor", "--profile", "all", "--format", "json"];
        let truth = outcomes(&json(&Gdr::new().sysroot(root.path()).args(doctor).run()));
        let report = bug_report(root.path(), &lspci);
        let found = outcomes(&json(&from("log", report.as_bytes(), &doctor)));
        for (at, outcome) in &found {
            // The parameter matters to processes without rights; a report has no process.
            let is_open = ["unknown", "skip", "info"].contains(&outcome.as_str());
            if is_open || at.0 == "param.peer-mapping" {
                continue;
            }
            known += 1;
            if let Some(truth) = truth.get(at)
                && truth != outcome
            {
                other.push(format!("{name}: {at:?}: {outcome}, on the machine {truth}"));
            }
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert!(known > 50, "only {known} outcomes are known");
}
