//! ACS redirection of ports compared with lspci, and snapshots of such machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::{built, in_machine, json};

/// The ports above each function, outermost first, from `lspci -D -PP`.
fn lspci_paths(text: &str) -> BTreeMap<String, Vec<String>> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(path, _)| {
            let domain = &path[..5];
            let mut parts: Vec<String> = path
                .split('/')
                .map(|part| match part.matches(':').count() {
                    2 => part.to_owned(),
                    _ => format!("{domain}{part}"),
                })
                .collect();
            (parts.pop().expect("a function"), parts)
        })
        .collect()
}

/// The ACS control line of each function that has one, from `lspci -D -vvv`.
fn lspci_acs(text: &str) -> BTreeMap<String, String> {
    let mut function = String::new();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if line.starts_with(|c: char| c.is_ascii_hexdigit()) {
            function = line.split(' ').next().expect("an address").to_owned();
        } else if let Some((_, bits)) = line.split_once("ACSCtl:") {
            found.insert(function.clone(), bits.trim().to_owned());
        }
    }
    found
}

/// A control register's bits as lspci writes them (PCI Express 7.7.11.3).
fn as_lspci(control: u64) -> String {
    let names = [
        "SrcValid",
        "TransBlk",
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
        "EgressCtrl",
        "DirectTrans",
    ];
    let flags = names.iter().enumerate().map(|(bit, name)| {
        let sign = if control >> bit & 1 == 1 { '+' } else { '-' };
        format!("{name}{sign}")
    });
    flags.collect::<Vec<_>>().join(" ")
}

/// Compares all paths and ACS bits with lspci.
fn compare_forest(files: &Path) {
    let topo = json(&files.join("topo.json"));
    let paths = lspci_paths(&fs::read_to_string(files.join("lspci-path.txt")).expect("lspci -PP"));
    let acs = lspci_acs(&fs::read_to_string(files.join("lspci-vvv.txt")).expect("lspci -vvv"));
    let mut ports = BTreeSet::new();
    for path in topo["paths"].as_array().expect("paths") {
        let hops: Vec<&str> = path["hops"]
            .as_array()
            .expect("hops")
            .iter()
            .map(|h| h["bdf"].as_str().expect("bdf"))
            .collect();
        let (first, last) = (hops[0], hops[hops.len() - 1]);
        let (up, down) = (&paths[first], &paths[last]);
        let common = up.iter().zip(down).take_while(|(a, b)| a == b).count();
        let mut expected: Vec<&str> = vec![first];
        expected.extend(up[common..].iter().rev().map(String::as_str));
        if common > 0 {
            expected.push(&up[common - 1]);
        }
        expected.extend(down[common..].iter().map(String::as_str));
        expected.push(last);
        assert_eq!(hops, expected, "{} to {}", path["from"], path["to"]);
        for hop in path["hops"].as_array().expect("hops") {
            let bdf = hop["bdf"].as_str().expect("bdf");
            let reported = hop["acs"]["known"].as_u64().map(as_lspci);
            assert_eq!(reported.as_ref(), acs.get(bdf), "ACS of {bdf}");
            if reported.is_some() {
                ports.insert(bdf.to_owned());
            }
        }
    }
    let all: BTreeSet<String> = acs.keys().cloned().collect();
    assert_eq!(ports, all, "ports with ACS");
    assert_eq!(all.len(), 6, "the machine has six ports with ACS");
}

fn acs_findings(files: &Path, report: &str) -> Vec<Value> {
    let report = json(&files.join(report));
    let all = report["findings"].as_array().expect("findings");
    all.iter().filter(|finding| finding["id"] == "pcie.acs").cloned().collect()
}

/// gdr on a file from a guest.
fn gdr_from(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(built("gdr"));
    command.env_clear().arg("--from").arg(file).args(args);
    command.output().expect("gdr runs")
}

/// Its JSON output.
fn from(file: &Path, args: &[&str]) -> Value {
    let output = gdr_from(file, args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let reported = String::from_utf8_lossy(&output.stderr);
        panic!("{} {args:?}: {error}: {reported}", file.display())
    })
}

/// A replayed snapshot gives the output of the machine, byte for byte and with its exit status, as root and as a user.
fn compare_replays(files: &Path) {
    let text = |path: &Path| {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let questions = text(&files.join("questions.txt"));
    assert!(questions.lines().count() > 5, "{questions}");
    for (who, snapshot) in [("root", "snapshot-root.json.zst"), ("user", "snapshot-user.json")] {
        for question in questions.lines() {
            let name = question.replace(' ', "_");
            let live = text(&files.join(who).join(&name));
            let status = text(&files.join(who).join(name + ".status"));
            let args: Vec<&str> = question.split(' ').collect();
            let replayed = gdr_from(&files.join(snapshot), &args);
            assert!(!live.is_empty(), "{question} as {who}");
            assert_eq!(
                facts_of(&String::from_utf8_lossy(&replayed.stdout)),
                facts_of(&live),
                "{question} as {who}"
            );
            assert_eq!(replayed.status.code(), status.trim().parse().ok(), "{question} as {who}");
        }
    }
}

/// An answer without where and when its facts were read.
fn facts_of(text: &str) -> String {
    if let Ok(mut document) = serde_json::from_str::<Value>(text) {
        document["taken"].take();
        document["host"]["source"].take();
        if let Some(host) = document["host"].as_object_mut() {
            host.remove("recorded");
        }
        return document.to_string();
    }
    let lines = text.lines().skip(usize::from(text.starts_with("gdr doctor: ")));
    // The rest of a title that is wrapped.
    let lines: Vec<&str> = lines.skip_while(|line| line.starts_with("  ")).collect();
    lines.join("\n")
}

/// The class of each pair, by address.
fn classes(topo: &Value) -> BTreeMap<(String, String), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let addresses: BTreeMap<String, String> = topo["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|device| (text(&device["name"]), text(&device["bdf"])))
        .collect();
    let mut classes = BTreeMap::new();
    for (a, row) in topo["matrix"].as_object().expect("a matrix") {
        for (b, class) in row.as_object().expect("a row") {
            classes.insert((addresses[a].clone(), addresses[b].clone()), text(class));
        }
    }
    classes
}

/// The verdict on each port by address; a finding may have several ports.
fn acs_verdicts(report: &Value) -> BTreeMap<String, String> {
    let all = report["findings"].as_array().expect("findings");
    let acs = all.iter().filter(|finding| finding["id"] == "pcie.acs");
    let each = acs.flat_map(|finding| {
        let subject = finding["subject"].as_str().expect("a subject");
        let outcome = finding["outcome"].as_str().expect("an outcome");
        subject.split(", ").map(move |port| (port.to_owned(), outcome.to_owned()))
    });
    each.collect()
}

/// Imports lspci's dump: same classes, and the same verdict on each port.
fn compare_dumps(files: &Path) {
    let live = classes(&json(&files.join("topo.json")));
    for dump in ["lspci-vvv.txt", "lspci-xxxx.txt"] {
        let dumped = classes(&from(&files.join(dump), &["topo", "--format", "json"]));
        // Rows in both: lspci shows no RDMA devices, and InfiniBand controllers in their place.
        let known = dumped.iter().filter(|(_, class)| !class.is_empty());
        let both: Vec<_> =
            known.filter_map(|(pair, class)| Some((pair, class, live.get(pair)?))).collect();
        let devices: BTreeSet<_> = both.iter().map(|((a, _), ..)| a).collect();
        assert!(both.len() > devices.len(), "{dump} tells of no pair: {dumped:#?}");
        for (pair, dumped, here) in both {
            assert_eq!(dumped, here, "{dump}: {pair:?}");
        }
        let report =
            from(&files.join(dump), &["doctor", "--platform", "bare-metal", "--format", "json"]);
        let dumped = acs_verdicts(&report);
        let here = acs_verdicts(&json(&files.join("doctor-before.json")));
        // Complete below the switch. Whether QEMU's ports on its extra host bridges are root ports is not in the dump.
        let below: Vec<_> = here.iter().filter(|(port, _)| port.starts_with("0000:42:")).collect();
        assert!(!below.is_empty());
        for (port, verdict) in below {
            assert_eq!(dumped.get(port), Some(verdict), "{dump}: {port}: {dumped:#?}");
        }
        for (port, verdict) in dumped {
            let same = here.get(&port) == Some(&verdict);
            assert!(same || verdict == "unknown", "{dump}: {port}: {verdict}");
        }
    }
}

fn acs_job(machine: &str) -> PathBuf {
    // Debian's su, which can change users; busybox has another one.
    in_machine(machine, "acs", vec![built("gdr"), PathBuf::from("/usr/bin/setpriv")])
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn acs_findings_with_iommu_on() {
    let files = acs_job("iommu-on");
    compare_forest(&files);
    compare_dumps(&files);
    compare_replays(&files);

    // Fails below one switch; warns within one host bridge; reports between host bridges, where clearing would not help.
    let between = "0000:40:00.0";
    let expected = [
        (between, "info"),
        ("0000:42:00.0", "fail"),
        ("0000:42:01.0", "fail"),
        ("0000:42:02.0", "fail"),
        ("0000:80:00.0", "warn"),
        ("0000:80:01.0", "warn"),
    ];
    let before = acs_findings(&files, "doctor-before.json");
    assert_eq!(before.len(), expected.len(), "{before:#?}");
    for (finding, (port, outcome)) in before.iter().zip(expected) {
        assert_eq!((&finding["subject"], &finding["outcome"]), (&port.into(), &outcome.into()));
        let message = finding["message"].as_str().expect("a message");
        assert!(message.contains("ReqRedir") && message.contains("CmpltRedir"), "{message}");
        // SrcValid and UpstreamFwd stay: the mask has the two bits of 0x0c alone.
        let command = format!("setpci -s {port} ECAP_ACS+0x6.w=0000:000c");
        let command = if port == between { Value::Null } else { command.into() };
        assert_eq!(finding["fix"]["command"], command);
    }
    let after = acs_findings(&files, "doctor-after.json");
    let cured = |finding: &Value| finding["outcome"] == "pass" || finding["subject"] == between;
    assert!(after.iter().all(cured), "{after:#?}");
    let lspci =
        lspci_acs(&fs::read_to_string(files.join("lspci-vvv-after.txt")).expect("lspci -vvv"));
    for (port, bits) in lspci.into_iter().filter(|(port, _)| port != between) {
        assert!(
            bits.contains("ReqRedir-")
                && bits.contains("CmpltRedir-")
                && bits.contains("SrcValid+"),
            "{port}: {bits}"
        );
    }
    // A guest judges no port of its host, and an unprivileged user cannot read the bits.
    let guest = acs_findings(&files, "root/doctor_--format_json");
    assert!(guest.iter().all(|finding| finding["outcome"] == "skip"), "{guest:#?}");
    let user = acs_findings(&files, "doctor-user.json");
    assert!(
        !user.is_empty()
            && user
                .iter()
                .all(|finding| finding["outcome"] == "unknown" && finding["needs"] == "root"),
        "{user:#?}"
    );
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn no_acs_findings_with_iommu_off() {
    let files = acs_job("iommu-off");
    compare_forest(&files);
    compare_dumps(&files);
    compare_replays(&files);
    let found = acs_findings(&files, "doctor-before.json");
    assert!(
        !found.is_empty() && found.iter().all(|finding| finding["outcome"] == "pass"),
        "{found:#?}"
    );
    assert_eq!(fs::read_to_string(files.join("commands.txt")).expect("commands"), "");
}
