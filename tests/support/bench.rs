//! A machine in a directory that gdr repairs, with fakes of its programs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::{Gdr, Machine, Run, SafeBinary, scratch};

/// A machine in a directory, and its fake programs.
pub struct Bench {
    machine: TempDir,
    tools: TempDir,
    binary: Option<SafeBinary>,
}

/// A file, link or directory. `content` is a link's target, or a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub mode: u32,
    pub owner: (u32, u32),
    pub content: Vec<u8>,
}

impl Bench {
    /// A machine of `tests/machines`; the merge patch (RFC 7386) changes its `machine.json`.
    pub fn of(machine: &str, patch: &Value) -> Self {
        Self::within(scratch(), machine, patch)
    }

    /// The same for a test that mounts a `/dev` of its own, where there is no file system in memory.
    pub fn outside_dev(machine: &str, patch: &Value) -> Self {
        Self::within(tempfile::tempdir().expect("a temporary directory"), machine, patch)
    }

    fn within(directory: TempDir, machine: &str, patch: &Value) -> Self {
        let tools = tempfile::tempdir().expect("a temporary directory");
        let bench = Self { machine: directory, tools, binary: None };
        fs::create_dir(bench.root()).expect("a directory");
        Machine::load_changed(machine, |json| merge(json, patch)).lay_out(&bench.root());
        bench
    }

    /// Runs a copy of gdr that only its owner can change.
    pub fn with_safe_binary(self) -> Self {
        Self { binary: Some(SafeBinary::new()), ..self }
    }

    /// The gdr to run.
    pub fn binary(&self) -> &Path {
        match &self.binary {
            Some(binary) => &binary.path,
            None => Path::new(env!("CARGO_BIN_EXE_gdr")),
        }
    }

    /// The machine's root directory.
    pub fn root(&self) -> PathBuf {
        self.machine.path().join("root")
    }

    /// The directory of the fake programs.
    pub fn tools(&self) -> PathBuf {
        self.tools.path().to_owned()
    }

    /// Adds a fake program, which logs its arguments and then runs `script` with `$GDR_ROOT` set.
    pub fn tool(&self, name: &str, script: &str) {
        let path = self.tools().join(name);
        let log = self.tools().join("calls");
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\n{script}\n", log.display());
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its permissions");
    }

    /// The logged calls since the last query, in order.
    pub fn calls(&self) -> Vec<String> {
        let log = self.tools().join("calls");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    pub fn gdr(&self, args: &[&str]) -> Run {
        Gdr::of(self.binary()).args(args).sysroot(&self.root()).run()
    }

    /// A repair or an undo with the programs of [`Bench::tools`].
    pub fn repair(&self, args: &[&str]) -> Run {
        let tools = self.tools();
        let tools = tools.to_str().expect("a path");
        self.gdr(&[args, &["--tools", tools]].concat())
    }

    /// Outcomes of a check by subject.
    pub fn outcomes(&self, check: &str, args: &[&str]) -> BTreeMap<String, String> {
        let run = self.gdr(&[&["doctor", "--format", "json", "--only", check], args].concat());
        let report: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        let text = |finding: &Value, key: &str| finding[key].as_str().expect("a text").to_owned();
        let findings = report["findings"].as_array().expect("findings");
        findings.iter().map(|f| (text(f, "subject"), text(f, "outcome"))).collect()
    }

    /// Outcome of a check for a subject with the profile `rdma`.
    pub fn rdma_outcome(&self, check: &str, subject: &str) -> String {
        let mut found = self.outcomes(check, &["--profile", "rdma"]);
        found
            .remove(subject)
            .unwrap_or_else(|| panic!("{check} has no finding for {subject}: {found:?}"))
    }

    /// True if every finding of a check is pass, info or skip.
    pub fn holds(&self, check: &str, args: &[&str]) -> bool {
        self.outcomes(check, args)
            .values()
            .all(|outcome| ["pass", "info", "skip"].contains(&outcome.as_str()))
    }

    /// Expects that this repair has nothing left to change.
    #[track_caller]
    pub fn assert_nothing_to_change(&self, args: &[&str]) {
        let run = self.repair(args);
        run.assert_code(0);
        run.assert_stdout("Nothing to change");
    }

    /// Configuration space of a PCI function.
    pub fn config(&self, bdf: &str) -> Vec<u8> {
        let path = format!("sys/bus/pci/devices/{bdf}/config");
        fs::read(self.root().join(path)).expect("configuration space")
    }

    /// Reads or writes (`REGISTER=VALUE`) a register with the real setpci.
    pub fn setpci(&self, bdf: &str, register: &str) -> String {
        let path = self.root().join("sys/bus/pci");
        let setpci = Command::new("setpci")
            .args(["-A", "linux-sysfs", "-O"])
            .arg(format!("sysfs.path={}", path.display()))
            .args(["-s", bdf, register])
            .output()
            .expect("setpci");
        assert!(setpci.status.success(), "{setpci:?}");
        let text = String::from_utf8(setpci.stdout).expect("a number");
        text.trim().to_owned()
    }

    pub fn text(&self, path: &str) -> String {
        let path = self.root().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Everything below the root except the journals, by path.
    pub fn tree(&self) -> BTreeMap<PathBuf, Entry> {
        let mut found = BTreeMap::new();
        walk(&self.root(), &self.root(), &mut found);
        found
    }
}

fn walk(root: &Path, directory: &Path, found: &mut BTreeMap<PathBuf, Entry>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let inner = path.strip_prefix(root).expect("below the root").to_owned();
        // gdr creates the journals and the directories above them.
        if inner == Path::new("var/lib/gdr") {
            continue;
        }
        let meta = fs::symlink_metadata(&path).expect("what it is");
        let content = match (meta.is_dir(), meta.is_symlink(), meta.is_file()) {
            (true, ..) => {
                walk(root, &path, found);
                if inner == Path::new("var") || inner == Path::new("var/lib") {
                    continue;
                }
                Vec::new()
            }
            (_, true, _) => {
                fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            }
            (_, _, true) => fs::read(&path).expect("a file"),
            _ => Vec::new(),
        };
        let entry = Entry { mode: meta.mode(), owner: (meta.uid(), meta.gid()), content };
        found.insert(inner, entry);
    }
}

/// A merge patch (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let members = target.as_object_mut().expect("an object");
    for (name, value) in patch {
        match value {
            Value::Null => {
                members.remove(name);
            }
            value => merge(members.entry(name).or_insert(Value::Null), value),
        }
    }
}
