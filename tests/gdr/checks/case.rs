//! The cases of `tests/checks`: a machine that is laid out and recorded, and the changes of its record.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Gdr, Machine, Run, merge, scratch};

/// The cases of a family.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub check: String,
    /// pass, fail, warn, info, unknown or skip.
    pub outcome: String,
    /// What is so on this machine, in a sentence.
    pub about: String,
    /// The machine of `tests/machines` that is changed.
    #[serde(default = "sound")]
    pub machine: String,
    /// A merge patch (RFC 7386) onto its `machine.json`.
    #[serde(default)]
    pub patch: Value,
    /// Merge patches onto functions, by address, wherever they stand in its tree; null takes one away.
    #[serde(default)]
    pub functions: BTreeMap<String, Value>,
    /// Changes to what the libraries answered: JSON pointer to value, null takes away.
    #[serde(default)]
    pub nvml: BTreeMap<String, Value>,
    #[serde(default)]
    pub cuda: BTreeMap<String, Value>,
    #[serde(default)]
    pub verbs: BTreeMap<String, Value>,
    /// A merge patch onto its snapshot. A path that is taken away was never asked for.
    #[serde(default)]
    pub snapshot: Value,
    /// Further arguments of doctor.
    #[serde(default)]
    pub args: Vec<String>,
    /// Whose finding it is, where the check has several.
    pub subject: Option<String>,
    /// What the finding must say, in its message, evidence, needs or fix.
    #[serde(default)]
    pub says: Vec<String>,
    /// What it must not say.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// The id of its fix: `advice` for words or a command alone, `none` without either.
    pub fix: Option<String>,
}

pub fn sound() -> String {
    "sound".to_owned()
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checks")
}

pub fn cases() -> Vec<Case> {
    let mut files: Vec<_> = fs::read_dir(fixtures())
        .expect("tests/checks is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name != "sound.json"))
        .collect();
    files.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a family's cases");
        let family: Family = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        family.cases
    };
    let mut cases: Vec<Case> = files.iter().flat_map(read).collect();
    cases.sort_by_cached_key(machine_of);
    cases
}

/// The machine of a case before its libraries and its snapshot are changed.
pub fn machine_of(case: &Case) -> (String, String) {
    (case.machine.clone(), format!("{} {:?}", case.patch, case.functions))
}

/// Changes a function somewhere below these; true if it is there.
fn change(below: &mut Value, address: &str, patch: &Value) -> bool {
    let Some(functions) = below.as_object_mut() else { return false };
    if patch.is_null() && functions.remove(address).is_some() {
        return true;
    }
    if let Some(function) = functions.get_mut(address) {
        if function.is_string() {
            *function = serde_json::json!({ "is": function });
        }
        merge(function, patch);
        return true;
    }
    let mut inner = functions.values_mut().filter_map(|function| function.get_mut("below"));
    inner.any(|below| change(below, address, patch))
}

/// Sets what a pointer leads to; null takes it away.
fn set(target: &mut Value, pointer: &str, value: &Value) {
    if pointer.is_empty() {
        *target = value.clone();
        return;
    }
    let (above, last) = pointer.rsplit_once('/').expect("a JSON pointer");
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = target.pointer_mut(above).unwrap_or_else(|| panic!("there is no {above}"));
    match parent {
        Value::Array(list) => {
            let at: usize = last.parse().expect("an index");
            match value {
                Value::Null => drop(list.remove(at)),
                value if at == list.len() => list.push(value.clone()),
                value => list[at] = value.clone(),
            }
        }
        Value::Object(members) => match value {
            Value::Null => drop(members.remove(&last)),
            value => drop(members.insert(last, value.clone())),
        },
        _ => panic!("{above} holds nothing"),
    }
}

/// The snapshot of a case's machine, before the case changes it.
pub fn snapshot(case: &Case) -> Value {
    let dir = scratch();
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("a directory");
    Machine::load_changed(&case.machine, |machine| {
        if !case.patch.is_null() {
            merge(machine, &case.patch);
        }
        for (address, patch) in &case.functions {
            let roots = machine["roots"].as_object_mut().expect("root buses").values_mut();
            let mut roots = roots.filter_map(|root| root.get_mut("below"));
            let found = roots.any(|below| change(below, address, patch));
            assert!(found, "{}: there is no {address}", case.about);
        }
    })
    .lay_out(&root);
    let file = dir.path().join("machine.json");
    let args =
        ["--sysroot".into(), root.into(), "snapshot".into(), "-o".into(), file.clone().into()];
    let taken = run(Vec::from(args));
    assert_eq!(taken.code, 0, "{}: {}", case.about, taken.stderr);
    let mut snapshot: Value =
        serde_json::from_slice(&fs::read(&file).expect("the snapshot")).expect("JSON");
    if case.machine == sound() {
        let nodes =
            fs::read(fixtures().join("sound.json")).expect("the nodes of the sound machine");
        merge(&mut snapshot, &serde_json::from_slice(&nodes).expect("JSON"));
    }
    snapshot
}

/// The snapshot on which doctor runs in a case.
pub fn changed_snapshot(case: &Case) -> Value {
    changed(case, snapshot(case))
}

/// The snapshot with the changes of a case.
pub fn changed(case: &Case, mut snapshot: Value) -> Value {
    for (library, changes) in [("nvml", &case.nvml), ("cuda", &case.cuda), ("verbs", &case.verbs)] {
        for (pointer, value) in changes {
            let answer = snapshot
                .pointer_mut(&format!("/libraries/{library}/answered"))
                .unwrap_or_else(|| panic!("{} has no answer of {library}", case.machine));
            set(answer, pointer, value);
        }
    }
    if !case.snapshot.is_null() {
        merge(&mut snapshot, &case.snapshot);
    }
    snapshot
}

/// gdr in this process, or the program that `GDR_TEST_PROGRAM` names.
pub fn run(args: Vec<OsString>) -> Run {
    if std::env::var_os("GDR_TEST_PROGRAM").is_some() {
        return Gdr::new().args(args).run();
    }
    let program = std::iter::once(OsString::from("gdr"));
    let cli = gdr::cli::parse(program.chain(args)).expect("arguments of gdr");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = gdr::cmd::run(cli, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Run { stdout: text(out), stderr: text(err), code: code.into() }
}
