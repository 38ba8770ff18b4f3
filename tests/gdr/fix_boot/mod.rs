//! Repairs that survive a reboot, on machines in directories. The tests simulate reboots with gdr's files and the real
//! programs.

mod entries;
mod grub;
mod unit;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::support::{Bench, Entry, Run, merge};
use serde_json::{Value, json};

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const PORTS: [&str; 2] = ["0000:02:00.0", "0000:02:01.0"];

/// Standard output on one line.
fn flat(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A switch above GPU and NIC whose two ports redirect, as set by the kernel with an IOMMU: SV RR CR UF.
fn redirecting(patch: Value) -> Bench {
    let mut machine = json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:00.0": {"acs_ctl": "001d"}, "02:01.0": {"acs_ctl": "001d"}}}}}}}}});
    merge(&mut machine, &patch);
    Bench::of("sound", &machine)
}

/// A running kernel: release and command line.
fn running(release: &str, line: &str) -> Value {
    json!({"files": {
        "proc/sys/kernel/osrelease": [release],
        "proc/cmdline": [line],
        "proc/sys/kernel/random/boot_id": ["11111111-1111-1111-1111-111111111111"],
    }})
}

fn machine(parts: &[Value]) -> Bench {
    let mut whole = json!({});
    for part in parts {
        merge(&mut whole, part);
    }
    redirecting(whole)
}

fn write(bench: &Bench, path: &str, text: &str) {
    let path = bench.root().join(path);
    fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
    fs::write(path, text).expect("a file");
}

/// ACS control of a port.
fn acs(bench: &Bench, port: &str) -> String {
    bench.setpci(port, "ECAP_ACS+6.w")
}

fn set_acs(bench: &Bench, port: &str, value: &str) {
    bench.setpci(port, &format!("ECAP_ACS+6.w={value}"));
}

/// A boot: the firmware leaves control registers 0; the kernel sets SV RR CR UF of every port, except those in `config_acs`
/// (a mask over the firmware's value) or `disable_acs_redir` (before 6.11: then clears RR CR EC).
fn boot(bench: &Bench, nth: u32, line: &str) {
    write(bench, "proc/cmdline", &format!("{line}\n"));
    write(bench, BOOT_ID, &format!("{nth:08}-2222-2222-2222-222222222222\n"));
    let options: Vec<&str> = line
        .split(' ')
        .filter_map(|word| word.strip_prefix("pci="))
        .flat_map(|list| list.split(','))
        .collect();
    let last = |name: &str| {
        options.iter().rev().find_map(|option| option.strip_prefix(name)).unwrap_or("")
    };
    for port in PORTS {
        let mut control = 0x1d;
        if last("disable_acs_redir=").split(';').any(|device| device == port) {
            control &= !0x2c;
        }
        let entry = last("config_acs=")
            .split(';')
            .find_map(|entry| entry.strip_suffix(&format!("@{port}")));
        if let Some(mask) = entry {
            control = mask.chars().fold(0, |bits, digit| bits << 1 | u32::from(digit == '1'));
        }
        set_acs(bench, port, &format!("{control:04x}"));
    }
}

fn failed(bench: &Bench) -> Vec<String> {
    let found = bench.outcomes("pcie.acs", &[]);
    found.into_iter().filter(|(_, o)| o == "fail").map(|(subject, _)| subject).collect()
}

fn has_message(bench: &Bench, check: &str, words: &str) -> bool {
    let run = bench.gdr(&["doctor", "--format", "json", "--only", check]);
    let report: Value = serde_json::from_str(&run.stdout).expect("a report");
    report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .any(|finding| finding["message"].as_str().is_some_and(|message| message.contains(words)))
}

/// Compares with the files before the repair, which an earlier boot wrote.
fn assert_restored(bench: &Bench, before: &BTreeMap<PathBuf, Entry>) {
    write(bench, BOOT_ID, "11111111-1111-1111-1111-111111111111\n");
    assert_eq!(bench.tree(), *before);
}

fn journals(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.root().join("var/lib/gdr/journal")).expect("journals");
    let mut names: Vec<String> = names
        .map(|name| name.expect("a name").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const UNIT: [&str; 4] = ["fix-acs", "--persist", "unit", "--yes"];
const CMDLINE: [&str; 4] = ["fix-acs", "--persist", "cmdline", "--yes"];
const KERNEL: &str = "BOOT_IMAGE=/boot/vmlinuz-6.17.0-1 root=/dev/sda1 ro";
