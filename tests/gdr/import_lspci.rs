//! `--from` with lspci text: the real lspci's output of each test machine gives the machine's own classes, or unknown, but
//! never another class.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::checks::case::run;
use crate::support::{Gdr, Machine, corpus, names};
use serde_json::Value;

/// The class of each pair of addresses, `None` if unknown.
type Pairs = BTreeMap<(String, String), Option<String>>;

fn lspci(root: &Path, options: &[&str]) -> String {
    let path = format!("sysfs.path={}", root.join("sys/bus/pci").display());
    let output =
        Command::new("lspci").args(["-O", &path]).args(options).output().expect("lspci runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(from: [&OsStr; 2], args: &[&str]) -> Value {
    let args = from.into_iter().chain(args.iter().chain(&["--format", "json"]).map(OsStr::new));
    let run = run(args.map(OsStr::to_owned).collect());
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr))
}

fn from(text: &str, args: &[&str]) -> Value {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a text");
    json(["--from".as_ref(), file.path().as_os_str()], args)
}

fn live(root: &Path, args: &[&str]) -> Value {
    json(["--sysroot".as_ref(), root.as_os_str()], args)
}

/// Pairs of GPUs, NICs and NVMe controllers; NVLinks are not PCI.
fn pairs(topology: &Value) -> Pairs {
    let devices = topology["devices"].as_array().expect("devices");
    let rows: Vec<(&str, &str)> = devices
        .iter()
        .filter_map(|row| Some((row["name"].as_str()?, row["bdf"].as_str()?)))
        .collect();
    let mut pairs = Pairs::new();
    for (a, at) in &rows {
        for (b, other) in rows.iter().filter(|(_, other)| other > at) {
            let class = topology["matrix"][a][b].as_str().map(str::to_owned);
            pairs.insert(((*at).to_owned(), (*other).to_owned()), class);
        }
    }
    pairs
}

const TOPO: [&str; 3] = ["topo", "--pci", "--nvme"];

/// All machines: the repository's and the recorded ones.
fn machines() -> Vec<Machine> {
    let mut machines: Vec<Machine> = names().iter().map(|name| Machine::load(name)).collect();
    machines.extend(corpus().iter().map(|path| Machine::from_corpus(path)));
    machines
}

/// As in a bug report: quoted, with a prompt, other programs' output and CRLF.
fn reported(text: &str) -> String {
    let before = "Hi all, on this machine it is slow.\n\n```\n$ uname -r\n6.8.0\n[root@node ~]# lspci -vvv\n";
    let after = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\t X \tSYS\n[   12.3] pci 0000:01:00.0: BAR 0: assigned\n```\n";
    let lines = [before, text, after].concat();
    lines.lines().map(|line| format!("> {}\r\n", line.replace('\t', "        "))).collect()
}

/// lspci's options, and the transformation of its text.
fn texts(root: &Path) -> Vec<(&'static str, String)> {
    let with = |options: &[&str]| lspci(root, options);
    vec![
        ("-vvv", with(&["-vvv"])),
        ("-Dvvv", with(&["-Dvvv"])),
        ("-nnvvv", with(&["-nnvvv"])),
        ("-v", with(&["-v"])),
        ("plain", with(&[])),
        ("-D -xxxx", with(&["-D", "-xxxx"])),
        ("-xxx", with(&["-xxx"])),
        ("-x", with(&["-x"])),
        ("-vvv -xxxx", with(&["-vvv", "-xxxx"])),
        ("-nn, then -vvv", with(&["-nn"]) + "\n" + &with(&["-vvv"])),
        ("-vvv in a report", reported(&with(&["-vvv"]))),
    ]
}

/// The same machine for an unprivileged user: 64 bytes of each configuration space.
fn shorten(root: &Path) {
    for entry in std::fs::read_dir(root.join("sys/bus/pci/devices")).expect("devices") {
        let config = entry.expect("an entry").path().join("config");
        if let Ok(bytes) = std::fs::read(&config)
            && bytes.len() > 64
        {
            std::fs::write(&config, &bytes[..64]).expect("a shorter file");
        }
    }
}

/// Compares pair by pair; returns `(known here, known there too)`.
fn compare(what: &str, truth: &Pairs, found: &Pairs) -> (usize, usize) {
    let (mut known, mut all) = (0, 0);
    for (pair, class) in truth.iter().filter_map(|(pair, class)| Some((pair, class.as_ref()?))) {
        all += 1;
        match found.get(pair) {
            Some(Some(dumped)) if dumped == "NODE or SYS" => {
                assert!(["NODE", "SYS"].contains(&class.as_str()), "{what}: {pair:?}");
            }
            Some(Some(dumped)) => {
                assert_eq!(dumped, class, "{what}: {pair:?}");
                known += 1;
            }
            Some(None) | None => {}
        }
    }
    (known, all)
}

#[test]
#[ignore = "needs lspci"]
fn lspci_text_gives_no_wrong_class() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for machine in machines().iter().filter(|machine| machine.name != "broken") {
        let dir = machine.laid_out();
        let truth = pairs(&live(dir.path(), &TOPO));
        if truth.values().flatten().next().is_none() {
            continue;
        }
        let mut texts = texts(dir.path());
        shorten(dir.path());
        texts.push(("-vvv by a user", lspci(dir.path(), &["-vvv"])));
        for (mode, text) in texts {
            let found = pairs(&from(&text, &TOPO));
            let what = format!("{} {mode}", machine.name);
            let (known, all) = compare(&what, &truth, &found);
            let sum = counts.entry(mode).or_default();
            *sum = (sum.0 + known, sum.1 + all);
            if ["-Dvvv", "-vvv", "-nnvvv", "-D -xxxx", "-vvv in a report"].contains(&mode) {
                for (pair, class) in &truth {
                    // Both are below one bridge: known without the root.
                    if matches!(class.as_deref(), Some("PIX" | "PXB")) && found.contains_key(pair) {
                        assert_eq!(&found[pair], class, "{what}: {pair:?}");
                    }
                }
            }
        }
    }
    let known = |mode: &str| counts[mode].0;
    // All except those that need unprinted NUMA nodes, or buses of uncertain root.
    for mode in ["-Dvvv", "-vvv", "-nnvvv", "-vvv -xxxx", "-vvv in a report", "-nn, then -vvv"] {
        assert_eq!(known(mode), known("-Dvvv"), "{mode}");
        assert!(known(mode) >= 289, "{mode}: {} pairs known", known(mode));
    }
    assert!(known("-D -xxxx") >= 109 && known("-vvv by a user") >= 114, "{counts:?}");
    for (mode, (known, all)) in &counts {
        let _ = writeln!(std::io::stderr(), "{mode}: {known} of {all} pairs known");
    }
}

/// Subjects and outcomes of `pcie.acs`.
fn acs(report: &Value) -> BTreeMap<String, String> {
    let findings = report["findings"].as_array().expect("findings");
    let of_acs = findings.iter().filter(|finding| finding["id"] == "pcie.acs");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    of_acs.map(|finding| (text(&finding["subject"]), text(&finding["outcome"]))).collect()
}

/// Each port of a finding with its outcome.
fn ports(findings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let ports = findings.iter().flat_map(|(subject, outcome)| {
        subject.split(", ").map(|port| (port.to_owned(), outcome.clone()))
    });
    ports.collect()
}

/// Ports with egress control: lspci does not print which ports it blocks.
const EGRESS_ON: [&str; 2] = ["0000:99:02.0", "0000:99:03.0"];

/// Machines where some pairs are unknown without NUMA nodes or certain root buses.
const LESS_KNOWN: [&str; 3] = ["numa-minus-one", "vm-iommu-off", "vm-iommu-on"];

#[test]
#[ignore = "needs lspci"]
fn port_findings_match_machine() {
    const DOCTOR: [&str; 3] = ["doctor", "--platform", "bare-metal"];
    let (mut same, mut failing) = (0, 0);
    for machine in machines().iter().filter(|machine| machine.name != "broken") {
        let dir = machine.laid_out();
        // A dump has no NVML answer, which decides the pairs to check.
        let _ = std::fs::remove_file(dir.path().join("gdr/nvml.json"));
        let truth = ports(&acs(&live(dir.path(), &DOCTOR)));
        let recorded = names().iter().all(|name| *name != machine.name);
        for options in [vec!["-vvv"], vec!["-D", "-xxxx", "-vv"]] {
            let found = ports(&acs(&from(&lspci(dir.path(), &options), &DOCTOR)));
            let bytes = options.contains(&"-xxxx");
            for (port, outcome) in truth.iter().filter(|(port, _)| port.contains('.')) {
                let what = format!("{} {options:?} {port}", machine.name);
                let dumped = found.get(port).map(String::as_str);
                let hidden = recorded || (EGRESS_ON.contains(&port.as_str()) && !bytes);
                match dumped {
                    Some("unknown") if hidden => {}
                    None if recorded || LESS_KNOWN.contains(&machine.name.as_str()) => {}
                    dumped => {
                        assert_eq!(dumped, Some(outcome.as_str()), "{what}");
                        same += 1;
                        failing += usize::from(outcome != "pass");
                    }
                }
            }
            // And no port that the machine lacks.
            for port in found
                .keys()
                .filter(|port| port.contains('.') && !port.starts_with(char::is_alphabetic))
            {
                assert!(truth.contains_key(port), "{} {options:?} {port}", machine.name);
            }
        }
    }
    assert!(
        same > 40 && failing > 8,
        "only {same} ports were compared, {failing} of them not clean"
    );
}

/// Deterministic random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        // Marsaglia's xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The functions of a text, each with the blank line after it.
fn without_some(text: &str, dice: &mut Dice) -> String {
    let kept = text.split_inclusive("\n\n").filter(|_| dice.below(3) != 0);
    kept.collect()
}

/// Truncated anywhere: facts lost with the end are unknown, not absent.
fn cut_off(text: &str, dice: &mut Dice) -> String {
    let end = dice.below(text.len() as u64 + 1) as usize;
    text[..end].to_owned()
}

/// After `grep`: lines with addresses, and lines with certain words.
fn some_lines(text: &str, dice: &mut Dice) -> String {
    const WORDS: [&str; 8] =
        ["NUMA", "Capabilities", "Bus:", "Control:", "Status:", "Kernel", "ACS", "Express"];
    let words: Vec<&str> = WORDS.into_iter().filter(|_| dice.below(2) == 0).collect();
    let blank = dice.below(2) == 0;
    let kept = text.lines().filter(|line| {
        let address = line.starts_with(|c: char| c.is_ascii_hexdigit());
        address || (blank && line.is_empty()) || words.iter().any(|word| line.contains(word))
    });
    kept.map(|line| format!("{line}\n")).collect()
}

#[test]
#[ignore = "needs lspci"]
fn partial_text_gives_no_wrong_class() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut known = 0;
    for machine in machines().iter().filter(|machine| machine.name != "broken") {
        let dir = machine.laid_out();
        let truth = pairs(&live(dir.path(), &TOPO));
        let whole = lspci(dir.path(), &["-Dvvv"]);
        for round in 0..4 {
            for (how, part) in [
                ("functions left out", without_some(&whole, &mut dice)),
                ("cut off", cut_off(&whole, &mut dice)),
                ("lines left out", some_lines(&whole, &mut dice)),
            ] {
                // Without any function it is not lspci text.
                if part.contains(": ") && part.contains("\n\t") {
                    let found = pairs(&from(&part, &TOPO));
                    known += compare(&format!("{} {how} {round}", machine.name), &truth, &found).0;
                }
            }
        }
    }
    assert!(known > 200, "only {known} pairs were known at all");
}

#[test]
#[ignore = "needs lspci"]
fn truncated_capability_is_unknown() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let whole = lspci(dir.path(), &["-Dvvv"]);
    // A pair's last port, cut before its ACS capability.
    let port = whole.find("0000:99:02.0 ").expect("the port");
    let end = whole[port..].find("Access Control Services").expect("its capability") + port;
    let cut = &whole[..end];
    let report = from(cut, &["doctor", "--platform", "bare-metal"]);
    let found = ports(&acs(&report));
    assert_ne!(found.get("0000:99:02.0").map(String::as_str), Some("pass"), "{found:?}");
    let lines = lspci(dir.path(), &["-Dvvv"]).replace("Access Control Services", "Something else");
    // Here the list is complete, so missing capabilities are absent.
    let found = ports(&acs(&from(&lines, &["doctor", "--platform", "bare-metal"])));
    assert_eq!(found.get("0000:99:02.0").map(String::as_str), Some("pass"), "{found:?}");
}

#[test]
fn table_names_options_for_more_facts() {
    let text = "15:01.0 0604: 8086:352a\n16:00.0 0302: 10de:2335 (rev a1)\n27:00.0 0207: 15b3:1021\n3b:00.0 0108: 144d:a824\n";
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a text");
    let run = Gdr::new()
        .args(["--from".as_ref(), file.path().as_os_str()])
        .args(["topo", "--nvme"])
        .run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    for expected in ["NIC0", "NVME0", "0000:3b:00.0", "unknown in this source: use lspci -vvv"] {
        assert!(run.stdout.contains(expected), "'{expected}' is not in:\n{}", run.stdout);
    }
    let doctor =
        Gdr::new().args(["--from".as_ref(), file.path().as_os_str()]).args(["doctor", "-v"]).run();
    doctor.assert_stdout("a snapshot of it (gdr snapshot)");
    // Not for a live machine.
    let dir = Machine::load("broken").laid_out();
    let table = Gdr::new().sysroot(dir.path()).args(["topo"]).run().stdout;
    assert!(!table.contains("unknown in this source"), "{table}");
}
