//! `--from` with support reports: what a report holds of a machine gives the machine's own findings, or unknown, but
//! never another outcome. What is wrong with a report is said.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Gdr, MEMORY, Machine, Run, names, scratch};
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
	Kernel driver in use: nvidia

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

/// An entry of a tar archive, in the ustar format.
fn entry(name: &str, kind: u8, link: &str, content: &[u8]) -> Vec<u8> {
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
fn resize(header: &mut [u8], size: u64) {
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[148..156].copy_from_slice(b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn files(root: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let file =
        |(path, text): &(&str, &str)| entry(&format!("{root}{path}"), b'0', "", text.as_bytes());
    files.iter().flat_map(file).collect()
}

const RELEASE: &str = "PRETTY_NAME=\"Rocky Linux 9.4\"\n";
const VERSION: &str =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n";

/// A report of sosreport, without the zeros at its end.
fn sosreport() -> Vec<u8> {
    let root = "sosreport-node17-2026-11-23-abcdefg/";
    let directory = |path: &str| entry(&format!("{root}{path}"), b'5', "", b"");
    [
        directory(""),
        directory("proc/driver/"),
        directory("etc/modprobe.d/"),
        entry(
            &format!("{root}etc/os-release"),
            b'2',
            "../usr/lib/os-release",
            b"",
        ),
        files(
            root,
            &[
                ("usr/lib/os-release", RELEASE),
                ("proc/sys/kernel/hostname", "node17\n"),
                ("proc/driver/nvidia/version", VERSION),
                (
                    "proc/modules",
                    "nvidia 14299136 3 nvidia_uvm, Live 0x0 (OE)\n",
                ),
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
fn supportconfig() -> Vec<u8> {
    let command = |line: &str, output: &str| {
        format!("#==[ Command ]======================================#\n# {line}\n{output}\n")
    };
    let file = |path: &str, text: &str| {
        format!("#==[ Configuration File ]===========================#\n# {path}\n{text}\n")
    };
    let first = "=====\n   Support Utilities - Supportconfig\n=====\n\n";
    let basic = [
        first,
        &command(
            "/bin/uname -a",
            "Linux node17 6.4.0-150600.23-default #1 SMP x86_64 GNU/Linux\n",
        ),
        &file(
            "/etc/os-release",
            "PRETTY_NAME=\"SUSE Linux Enterprise Server 15 SP6\"\n",
        ),
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
        &file(
            "/etc/modprobe.d/50-nvidia.conf",
            "options nvidia NVreg_EnableStreamMemOPs=1\n",
        ),
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

#[test]
fn archives_have_devices_and_files() {
    let zstd = |bytes: &[u8]| {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let sosreport = [sosreport(), vec![0; 1024]].concat();
    let supportconfig = [supportconfig(), vec![0; 1024]].concat();
    for (name, bytes, kernel, os) in [
        ("sos.tar", sosreport.clone(), None, "Rocky Linux 9.4"),
        ("sos.gz", gzip(&sosreport), None, "Rocky Linux 9.4"),
        ("sos", zstd(&sosreport), None, "Rocky Linux 9.4"),
        (
            "scc.tgz",
            gzip(&supportconfig),
            Some("6.4.0-150600.23-default"),
            "SUSE Linux Enterprise Server 15 SP6",
        ),
    ] {
        let run = from(name, &bytes, &["doctor", "--format", "json"]);
        let report = json(&run);
        let host = &report["host"];
        assert_eq!(
            (host["name"].as_str(), host["os"].as_str()),
            (Some("node17"), Some(os)),
            "{name}"
        );
        assert_eq!(host["kernel"], kernel.unwrap_or("5.14.0-427.el9.x86_64"));
        assert!(
            host["source"]
                .as_str()
                .is_some_and(|source| source.ends_with(name)),
            "{host}"
        );
        assert!(
            run.stderr.contains("node17, as another program printed it"),
            "{}",
            run.stderr
        );
        let outcomes = outcomes(&report);
        let of = |id: &str| {
            outcomes
                .iter()
                .find(|((at, _), _)| at == id)
                .map(|(_, outcome)| outcome.as_str())
        };
        assert_eq!(
            (of("gpu.present"), of("gpu.nouveau")),
            (Some("pass"), Some("pass")),
            "{name}: {outcomes:?}"
        );
        // sosreport's own process is not the one that the checks are about.
        assert_eq!(of("limits.memlock"), Some("unknown"), "{name}");
        // modprobe.d of /etc alone does not tell what the next load will use.
        assert_eq!(of("param.conflict"), Some("unknown"), "{name}");
        assert_eq!(
            of("gpu.min-driver"),
            Some(if kernel.is_none() { "pass" } else { "unknown" }),
            "{name}"
        );
        let topo = json(&from(name, &bytes, &["topo", "--format", "json"]));
        assert_eq!(topo["matrix"]["GPU0"]["NIC0"], "PIX", "{name}: {topo}");
        assert_eq!(topo["devices"].as_array().map(Vec::len), Some(2), "{name}");
    }
}

/// Names that lead out, links in a circle and out of the root, hard links, devices: nothing is written, and nothing that
/// is not in the archive is read.
#[test]
fn an_archive_stays_in_itself() {
    let outside = scratch();
    let secret = outside.path().join("version");
    fs::write(&secret, VERSION).expect("a file");
    let secret = secret.to_string_lossy();
    let start = "sosreport-x/";
    let named =
        |path: &str, kind: u8, link: &str| entry(&format!("{start}{path}"), kind, link, b"");
    let deep = "d/".repeat(45);
    let archive = [
        entry(
            "../../etc/modprobe.d/evil.conf",
            b'0',
            "",
            b"options nvidia x=1\n",
        ),
        entry(
            "/etc/modprobe.d/absolute.conf",
            b'0',
            "",
            b"options nvidia x=1\n",
        ),
        named(&format!("proc/{deep}x"), b'0', ""),
        named("proc/driver/nvidia/version", b'2', &secret),
        named("proc/driver/nvidia/params", b'1', &secret),
        named("proc/cmdline", b'2', "../../../../../../../etc/hostname"),
        named("proc/modules", b'2', "modules"),
        named("proc/cpuinfo", b'3', ""),
        named("sys/class/infiniband", b'2', "infiniband"),
        files(start, &[("sos_commands/pci/lspci_-nnvv", LSPCI)]),
    ]
    .concat();
    let doctor = from("archive", &archive, &["doctor", "--verbose"]);
    assert!([1, 3].contains(&doctor.code), "{}", doctor.stderr);
    let report = json(&from("archive", &archive, &["doctor", "--format", "json"]));
    for ((id, subject), outcome) in outcomes(&report) {
        let is_driver = ["gpu.min-driver", "param.stream-memops"].contains(&id.as_str());
        assert!(
            !is_driver || outcome == "unknown",
            "{id} {subject}: {outcome}"
        );
    }
}

#[test]
fn a_compressed_log_is_explained() {
    let directory = scratch();
    let line = "[   12.3] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n";
    let log = [SEPARATOR, FIRST, SEPARATOR, "dmesg:\n\n", line].concat();
    let of = |bytes: &[u8]| {
        let file = directory.path().join("log");
        fs::write(&file, bytes).expect("a file");
        let run = |gdr: Gdr| {
            let run = gdr.run();
            assert_eq!(run.code, 0, "{}", run.stderr);
            let report = json(&run);
            (report["matches"].clone(), report["read"].clone())
        };
        let gdr = || Gdr::new().args(["explain", "--no-run", "--format", "json"]);
        let named = run(gdr().args([file.as_os_str()]));
        assert_eq!(named, run(gdr().args(["-"]).stdin(&file)));
        named
    };
    let plain = of(log.as_bytes());
    assert!(
        plain
            .0
            .as_array()
            .is_some_and(|matches| !matches.is_empty()),
        "{plain:?}"
    );
    assert_eq!(plain, of(&gzip(log.as_bytes())));
}

/// A report that is cut, damaged or no report is an error that says so, or it is read as far as it goes.
#[test]
fn a_broken_report_is_an_error_in_plain_words() {
    let archive = sosreport();
    let packed = gzip(&archive);
    let mut damaged = archive.clone();
    damaged[3] = b'?';
    let text = [SEPARATOR, "Start of NVIDIA bug report log file.\n"].concat();
    let huge = entry("x/proc/cmdline", b'L', "", &[b'a'; 70_000]);
    let other = files("photos/", &[("holiday.txt", "sun\n")]);
    let mut endless = entry("x/y", b'0', "", b"");
    resize(&mut endless, 0o77777777777);
    for (name, bytes, words) in [
        (
            "cut",
            archive[..archive.len() - 700].to_vec(),
            "the file is truncated",
        ),
        (
            "cut in its compression",
            packed[..packed.len() / 2].to_vec(),
            "the file is truncated",
        ),
        ("damaged", damaged, "the archive is damaged at byte 0"),
        (
            "not gzip",
            [&packed[..10], &[0xff; 100]].concat(),
            "invalid gzip data",
        ),
        ("a long name", huge, "a name of more than 65536 bytes"),
        ("endless", endless, "more than 4 GiB"),
        (
            "of something else",
            other,
            "neither the files nor the output of lspci",
        ),
        (
            "empty log",
            text.into_bytes(),
            "neither the files nor the output of lspci",
        ),
        (
            "bzip2",
            b"BZh91AY&SY".to_vec(),
            "bzip2 compression is not supported",
        ),
    ] {
        for command in [&["doctor"][..], &["topo"]] {
            let run = from(name, &bytes, command);
            assert_eq!(
                (run.code, run.stdout.as_str()),
                (2, ""),
                "{name}: {}",
                run.stderr
            );
            assert!(
                run.stderr.contains(words) && run.stderr.contains(name),
                "{name}: {}",
                run.stderr
            );
        }
    }
}

/// Wherever a file ends, gdr ends with one of its exit codes.
#[test]
fn every_prefix_is_handled() {
    let log = bug_report(scratch().path(), LSPCI);
    for whole in [
        log.as_bytes(),
        &gzip(log.as_bytes()),
        &sosreport(),
        &gzip(&supportconfig()),
    ] {
        for length in (0..whole.len()).step_by(whole.len() / 12 + 1) {
            let run = from("prefix", &whole[..length], &["topo"]);
            assert!([0, 2].contains(&run.code), "{length}: {}", run.stderr);
        }
    }
}

/// Functions as sysfs has them, without their configuration space.
fn functions(count: u32) -> Vec<u8> {
    let start = "sosreport-x/";
    let mut functions = entry("sosreport-x/sys/bus/pci/devices/", b'5', "", b"");
    for at in 0..count {
        let bdf = format!("{:04x}:{:02x}:{:02x}.0", at / 8192, at / 32 % 256, at % 32);
        let link = format!("../../../devices/pci0000:00/{bdf}");
        functions.extend(entry(
            &format!("{start}sys/bus/pci/devices/{bdf}"),
            b'2',
            &link,
            b"",
        ));
        for (name, value) in [
            ("vendor", "0x10de"),
            ("device", "0x2330"),
            ("class", "0x030200"),
            ("numa_node", "0"),
        ] {
            functions.extend(files(
                start,
                &[(&format!("sys/devices/pci0000:00/{bdf}/{name}"), value)],
            ));
        }
    }
    functions
}

/// What unpacks to far more than the file has stays within the memory that any input may take.
#[test]
fn bombs_stay_within_memory() {
    let directory = scratch();
    let start = "sosreport-x/";
    // A file of several members is made quickly.
    let mebibytes = |byte: u8| gzip(&[byte].repeat(1 << 20)).repeat(80);
    let header = |name: &str| {
        let mut header = entry(&format!("{start}{name}"), b'0', "", b"");
        resize(&mut header, 80 << 20);
        gzip(&header)
    };
    let file = header("proc/driver/nvidia/params");
    let large = [file, mebibytes(b' '), gzip(&sosreport())].concat();
    let lspci = [header("sos_commands/pci/lspci_-nnvv"), mebibytes(b'0')].concat();
    let thousand = |at| files(start, &[(&format!("etc/modprobe.d/{at}.conf"), "")]);
    let many = gzip(&(0..1_000).flat_map(thousand).collect::<Vec<u8>>()).repeat(150);
    let lines = [
        gzip([SEPARATOR, FIRST].concat().as_bytes()),
        mebibytes(b'\n'),
    ]
    .concat();
    for (name, bytes, words) in [
        ("many functions", gzip(&functions(4_000)), None),
        ("a large file", large, None),
        (
            "many files",
            many,
            Some("more than 64 MiB of what gdr reads"),
        ),
        (
            "a large output",
            lspci,
            Some("more than 64 MiB of what gdr reads"),
        ),
        (
            "many lines",
            lines,
            Some("more than 64 MiB of what gdr reads"),
        ),
        ("no report", mebibytes(b'x'), Some("larger than 64 MiB")),
    ] {
        let file = directory.path().join("bomb");
        fs::write(&file, &bytes).expect("a file");
        let run = Gdr::within(MEMORY)
            .args(["doctor".as_ref(), "--from".as_ref(), file.as_os_str()])
            .run();
        assert!(!run.stderr.contains("panicked"), "{name}: {}", run.stderr);
        match words {
            Some(words) => assert!(
                run.code == 2 && run.stderr.contains(words),
                "{name}: {} {}",
                run.code,
                run.stderr
            ),
            None => assert!([1, 3].contains(&run.code), "{name}: {}", run.stderr),
        }
    }
}

/// An archive of the directories of a root, by the real tar, gives the outcomes of that root.
#[test]
#[ignore = "needs tar, gzip, xz and zstd"]
fn an_archived_root_gives_no_other_outcome() {
    let (mut known, mut other) = (0, Vec::new());
    let packed = [
        "--gzip",
        "--xz",
        "--zstd",
        "--format=pax",
        "--format=gnu",
        "--format=v7",
    ];
    for (name, option) in names()
        .iter()
        .filter(|name| *name != "broken")
        .zip(packed.iter().cycle())
    {
        let root = Machine::load(name).laid_out();
        let doctor = ["doctor", "--profile", "all", "--format", "json"];
        let truth = outcomes(&json(&Gdr::new().sysroot(root.path()).args(doctor).run()));
        let archive = Command::new("tar")
            .arg("-C")
            .arg(root.path())
            .args([option, "-c", "proc", "sys", "etc"])
            .output();
        let archive = archive.expect("tar runs").stdout;
        let found = outcomes(&json(&from("root", &archive, &doctor)));
        for (at, outcome) in &found {
            let is_open = ["unknown", "skip", "info"].contains(&outcome.as_str());
            if is_open || at.0 == "param.peer-mapping" {
                continue;
            }
            known += 1;
            if let Some(truth) = truth.get(at)
                && truth != outcome
            {
                other.push(format!(
                    "{name} {option}: {at:?}: {outcome}, on the machine {truth}"
                ));
            }
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert!(known > 100, "only {known} outcomes are known");
}
