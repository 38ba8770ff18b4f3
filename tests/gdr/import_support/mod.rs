//! `--from` with support reports: what a report holds of a machine gives the machine's own findings, or unknown, but
//! never another outcome. What is wrong with a report is said.

mod hostile;
mod reports;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::support::{Gdr, Machine, Run, names, scratch};
use reports::{FIRST, LSPCI, SEPARATOR, bug_report, entry, gzip, sosreport, supportconfig};
use serde_json::Value;

fn from(name: &str, bytes: &[u8], args: &[&str]) -> Run {
    let directory = scratch();
    let file = directory.path().join(name);
    fs::write(&file, bytes).expect("a file");
    let run = Gdr::new().args(args).args(["--from".as_ref(), file.as_os_str()]).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr))
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
fn bug_report_has_devices_and_files() {
    let root = scratch();
    for (path, text) in [
        ("proc/cmdline", "root=/dev/sda1 iommu=pt\n"),
        ("proc/modules", "nvidia 14299136 3 nvidia_uvm, Live 0x0 (OE)\nib_core 1 2 - Live 0x0\n"),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
        ),
        (
            "proc/driver/nvidia/gpus/0000:03:00.0/information",
            "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1\n",
        ),
        ("etc/os-release", "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"),
        ("sys/bus/pci/devices/0000:03:00.0/local_cpulist", "0-31\n"),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let text = bug_report(root.path(), LSPCI);
    // The script compresses each section by itself and appends it.
    let members: Vec<u8> =
        text.split_inclusive(SEPARATOR).flat_map(|part| gzip(part.as_bytes())).collect();
    for (name, bytes) in [("plain", text.as_bytes()), ("members", &members)] {
        let run = from(name, bytes, &["doctor", "--format", "json"]);
        let report = json(&run);
        let host = &report["host"];
        assert!(host["source"].as_str().is_some_and(|source| source.ends_with(name)), "{host}");
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
        run.assert_stderr("from a dump of another program");
        assert!(!run.stderr.contains("take it again"), "{}", run.stderr);
        let topo = json(&from(name, bytes, &["topo", "--format", "json"]));
        assert_eq!(topo["matrix"]["GPU0"]["NIC0"], "PIX", "{topo}");
        assert_eq!(topo["devices"][0]["cpus"], "0-31", "{topo}");
    }
}

/// With the output of the real lspci, of each test machine.
#[test]
#[ignore = "needs lspci"]
fn bug_report_gives_same_outcome() {
    let (mut known, mut other) = (0, Vec::new());
    for name in names().iter().filter(|name| *name != "broken") {
        let root = Machine::load(name).laid_out();
        let path = format!("sysfs.path={}", root.path().join("sys/bus/pci").display());
        let output = Command::new("lspci").args(["-O", &path, "-nnDvvvxxxx"]).output();
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
        assert!(host["source"].as_str().is_some_and(|source| source.ends_with(name)), "{host}");
        run.assert_stderr("node17, from a dump of another program");
        let outcomes = outcomes(&report);
        let of = |id: &str| {
            outcomes.iter().find(|((at, _), _)| at == id).map(|(_, outcome)| outcome.as_str())
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

#[test]
fn explains_compressed_log() {
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
    assert!(plain.0.as_array().is_some_and(|matches| !matches.is_empty()), "{plain:?}");
    assert_eq!(plain, of(&gzip(log.as_bytes())));
}

/// Of an archive only its logs are searched, and the checks run on the machine that it describes.
#[test]
fn explains_logs_of_archive_on_its_machine() {
    let line = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n";
    let explain = |path: &str| {
        let directory = scratch();
        let file = directory.path().join("report.tar");
        let archive = [sosreport(), entry(path, b'0', "", line.as_bytes()), vec![0; 1024]];
        fs::write(&file, archive.concat()).expect("a file");
        Gdr::new().args(["explain", "--format", "json"]).args([file.as_os_str()]).run()
    };
    let run = explain("sosreport/sos_commands/kernel/dmesg_-T");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = json(&run);
    assert_eq!(report["read"]["lines"], 1, "{report}");
    assert_eq!(report["host"]["name"], "node17", "{report}");
    let run = explain("sosreport/sos_commands/kernel/modinfo_ALL_MODULES");
    assert_eq!((run.code, &json(&run)["read"]["lines"]), (1, &Value::from(0)));
}

/// An archive of the directories of a root, by the real tar, gives the outcomes of that root.
#[test]
#[ignore = "needs tar, gzip, xz and zstd"]
fn archived_root_gives_same_outcome() {
    let (mut known, mut other) = (0, Vec::new());
    let packed = ["--gzip", "--xz", "--zstd", "--format=pax", "--format=gnu", "--format=v7"];
    for (name, option) in names().iter().filter(|name| *name != "broken").zip(packed.iter().cycle())
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
                other.push(format!("{name} {option}: {at:?}: {outcome}, on the machine {truth}"));
            }
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert!(known > 100, "only {known} outcomes are known");
}
