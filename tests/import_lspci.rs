//! `--from` with the text of lspci: what the real lspci prints of each test machine must give the classes that the machine
//! itself gives, or none. A class that differs is the one thing a dump must never give.

mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{Gdr, Machine, Need, names, need, shared};
use tempfile::TempDir;

/// The class of each pair of addresses; none where it is not known.
type Pairs = BTreeMap<(String, String), Option<String>>;

fn laid_out(machine: &Machine) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    machine.lay_out(dir.path());
    dir
}

fn lspci(root: &Path, options: &[&str]) -> String {
    let path = format!("sysfs.path={}", root.join("sys/bus/pci").display());
    let output = Command::new("lspci")
        .args(["-O", &path])
        .args(options)
        .output()
        .expect("lspci runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(run: Gdr, args: &[&str]) -> Value {
    let run = run.args(args).args(["--format", "json"]).run();
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr))
}

fn from(text: &str, args: &[&str]) -> Value {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a text");
    json(Gdr::new().args(["--from".as_ref(), file.path().as_os_str()]), args)
}

/// Of GPUs, NICs and NVMe controllers; NVLinks are not PCI's.
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

/// Every machine there is: of the repository, and of the recorded ones.
fn machines() -> Vec<Machine> {
    let mut machines: Vec<Machine> = names().iter().map(|name| Machine::load(name)).collect();
    if need(Need::Shared) {
        for entry in std::fs::read_dir(shared().join("corpus")).expect("the corpus") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "json") {
                machines.push(Machine::from_corpus(&path));
            }
        }
    }
    machines
}

/// As it comes in a report of a bug: quoted, with a prompt, other programs' output and the line ends of another system.
fn reported(text: &str) -> String {
    let before = "Hi all, on this machine it is slow.\n\n```\n$ uname -r\n6.8.0\n[root@node ~]# lspci -vvv\n";
    let after = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\t X \tSYS\n[   12.3] pci 0000:01:00.0: BAR 0: assigned\n```\n";
    let lines = [before, text, after].concat();
    lines.lines().map(|line| format!("> {}\r\n", line.replace('\t', "        "))).collect()
}

/// How lspci is called, and what is done to its text.
fn texts(root: &Path) -> Vec<(&'static str, String)> {
    let with = |options: &[&str]| lspci(root, options);
    vec![
        ("-vvv", with(&["-vvv"])),
        ("-Dvvv", with(&["-Dvvv"])),
        ("-nnvvv", with(&["-nnvvv"])),
        ("-nvv", with(&["-nvv"])),
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

/// The same machine for a user who is not root: 64 bytes of each configuration space.
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

/// Compares pair by pair; `(known here, known there too)`.
fn compare(what: &str, truth: &Pairs, found: &Pairs) -> (usize, usize) {
    let (mut known, mut all) = (0, 0);
    for (pair, class) in truth.iter().filter_map(|(pair, class)| Some((pair, class.as_ref()?))) {
        all += 1;
        if let Some(Some(told)) = found.get(pair) {
            assert_eq!(told, class, "{what}: {pair:?}");
            known += 1;
        }
    }
    (known, all)
}

#[test]
fn no_text_of_lspci_gives_a_class_that_the_machine_does_not() {
    if !need(Need::Lspci) {
        return;
    }
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for machine in machines().iter().filter(|machine| machine.name != "broken") {
        let dir = laid_out(machine);
        let truth = pairs(&json(Gdr::new().sysroot(dir.path()), &TOPO));
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
                    // Both are below one bridge: that is known without knowing the root.
                    if matches!(class.as_deref(), Some("PIX" | "PXB")) && found.contains_key(pair) {
                        assert_eq!(&found[pair], class, "{what}: {pair:?}");
                    }
                }
            }
        }
    }
    for (mode, (known, all)) in &counts {
        let _ = writeln!(std::io::stderr(), "{mode}: {known} of {all} pairs known");
    }
}
