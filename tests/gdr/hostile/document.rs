//! Hostile texts in the strings of a snapshot, through every command and format, in this process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::LazyLock;

use gdr::cli::parse;
use gdr::cmd;
use gdr::model::Snapshot;
use gdr::output::Filter;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::hostile::cases;
use crate::hostile::grammar;
use crate::hostile::page::{problem, without_colour};
use crate::hostile::text::{hostile, hostile_name};
use crate::support::{Gdr, Machine, scratch};

/// Snapshots of machines that differ.
static SNAPSHOTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    ["sound", "hgx-acs-redirect", "h200-x2", "virtual-functions", "broken"].map(snapshot).to_vec()
});

fn snapshot(machine: &str) -> String {
    let root = Machine::load(machine).laid_out();
    let run = Gdr::new().args(["snapshot", "-o", "-"]).sysroot(root.path()).run();
    run.assert_code(0);
    run.stdout
}

/// Everything that prints something of a machine. FILE stands for the snapshot, BEFORE for the one it was made of, ~ for a blank.
const COMMANDS: [&str; 27] = [
    "doctor --from FILE --profile all",
    "doctor --from FILE --profile all --verbose",
    "doctor --from FILE --profile all --format json",
    "doctor --from FILE --profile all --format markdown",
    "doctor --from FILE --profile all --format prometheus",
    "topo --from FILE --nvme --verbose",
    "topo --from FILE --format nvidia-smi",
    "topo --from FILE --nvme --format json",
    "topo --from FILE --nvme --format svg",
    "topo --from FILE --pairs",
    "topo --from FILE --p2p r",
    "topo --from FILE --path GPU0 NIC0",
    "topo --from FILE --path GPU0 NIC0 --format json",
    "topo --from FILE --path GPU0 NOSUCH",
    "explain --from FILE pcie.acs",
    "explain --from FILE ibv_reg_mr~failed:~Bad~address",
    "explain --from FILE --format json failed~to~register~memory",
    "snapshot --from FILE -o -",
    "snapshot --from FILE --mask -o -",
    "snapshot --diff BEFORE FILE --all",
    "snapshot --diff BEFORE FILE --all --format json",
    "fix --from FILE --profile all --dry-run",
    "fix --from FILE --profile all --dry-run --format script",
    "fix --from FILE --profile all --dry-run --format json",
    "fix-acs --from FILE --dry-run --persist cmdline",
    "probe p2p --from FILE",
    "probe rdma --from FILE --format json",
];

/// What a command printed.
struct Page {
    out: Vec<u8>,
    err: Vec<u8>,
}

/// Runs a command in this process as `main` does.
fn run(command: &str, files: [&Path; 2], colour: &str) -> Page {
    let words = command.split(' ').map(|word| match word {
        "FILE" => files[0].into(),
        "BEFORE" => files[1].into(),
        word => OsString::from(word.replace('~', " ")),
    });
    let colour = ["--color", colour].map(OsString::from);
    let cli = parse([OsString::from("gdr")].into_iter().chain(words).chain(colour)).expect(command);
    let (mut out, mut err) = (Filter::new(Vec::new()), Filter::new(Vec::new()));
    cmd::run(cli, &mut out, &mut err);
    Page { out: out.inner().clone(), err: err.inner().clone() }
}

/// Runs all commands on a document; what is wrong with what they print.
fn examine(document: &str, before: &str) -> Result<(), TestCaseError> {
    let directory = scratch();
    let place = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let files = [place("hostile.json", document), place("before.json", before)];
    let files = [files[0].as_path(), files[1].as_path()];
    for command in COMMANDS {
        let plain = run(command, files, "never");
        let smi = command.contains("nvidia-smi") || command.contains("--p2p");
        for (what, page, smi) in [("stdout", &plain.out, smi), ("stderr", &plain.err, false)] {
            if let Some(problem) = problem(page, smi) {
                return Err(TestCaseError::fail(format!("{command}: {what}: {problem}")));
            }
        }
        if (command.contains("json") || command.ends_with("-o -")) && !plain.out.is_empty() {
            let read: Result<Value, _> = serde_json::from_slice(&plain.out);
            prop_assert!(read.is_ok(), "{command}: {read:?}");
        } else {
            let text = String::from_utf8(plain.out.clone()).expect("checked above");
            let wrong = grammar::wrong(command, &text);
            prop_assert!(wrong.is_none(), "{command}: {wrong:?}");
        }
        if !smi && !command.contains("json") && !command.ends_with("-o -") {
            let colour =
                String::from_utf8(run(command, files, "always").out).expect("checked above");
            prop_assert_eq!(
                without_colour(&colour),
                String::from_utf8_lossy(&plain.out),
                "{}",
                command
            );
        }
    }
    Ok(())
}

/// The strings of a document with where they stand: the keys that lead there, without the names of files.
fn strings<'a>(value: &'a mut Value, at: &str, found: &mut Vec<(String, &'a mut String)>) {
    match value {
        Value::String(text) => found.push((at.to_owned(), text)),
        Value::Array(values) => values.iter_mut().for_each(|value| strings(value, at, found)),
        Value::Object(values) => values.iter_mut().for_each(|(key, value)| {
            let key = if at == "/files" { "*" } else { key };
            strings(value, &format!("{at}/{key}"), found);
        }),
        _ => {}
    }
}

/// Where any string is a snapshot still: elsewhere are words of a list, digits and times.
static FREE: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut places = BTreeSet::new();
    for snapshot in SNAPSHOTS.iter() {
        let mut document: Value = serde_json::from_str(snapshot).expect("JSON");
        let mut found = Vec::new();
        strings(&mut document, "", &mut found);
        places.extend(found.into_iter().map(|(place, _)| (place, snapshot)));
    }
    let is_free = |(place, snapshot): &(String, &String)| {
        let mut document: Value = serde_json::from_str(snapshot).expect("JSON");
        let mut found = Vec::new();
        strings(&mut document, "", &mut found);
        let (_, text) = found.into_iter().find(|(other, _)| other == place).expect("it is there");
        *text = "hostile".to_owned();
        serde_json::from_value::<Snapshot>(document).is_ok()
    };
    let free = places.into_iter().filter(is_free).map(|(place, _)| place);
    free.filter(|place| place != "/schema").collect()
});

#[test]
fn snapshot_strings_are_replaceable() {
    for place in [
        "/files/*/text",
        "/files/*/names",
        "/files/*/link",
        "/host/os",
        "/libraries/nvml/answered/read/gpus/name/known",
    ] {
        assert!(FREE.contains(place), "{place} is not in {FREE:?}");
    }
}

fn changed(place: &str, how: u8, text: &str) -> String {
    let half = (0..=place.len() / 2).rev().find(|at| place.is_char_boundary(*at)).unwrap_or(0);
    let (begin, end) = place.split_at(half);
    match how {
        0 => text.to_owned(),
        1 => format!("{text}{place}"),
        2 => format!("{place}{text}"),
        _ => format!("{begin}{text}{end}"),
    }
}

/// Strings of a document become hostile: replaced, or with something before, behind or within.
fn with_strings(most: usize, is_wanted: impl Fn(&str) -> bool) {
    let change = (any::<prop::sample::Index>(), 0..4u8, hostile());
    let input = (0..SNAPSHOTS.len(), prop::collection::vec(change, 1..most));
    let outcome = TestRunner::new(cases(3)).run(&input, |(machine, changes)| {
        let before = &SNAPSHOTS[machine];
        let mut document: Value = serde_json::from_str(before).expect("JSON");
        let mut places = Vec::new();
        strings(&mut document, "", &mut places);
        places.retain(|(place, _)| is_wanted(place));
        let count = places.len();
        for (at, how, text) in changes {
            let (_, place) = &mut places[at.index(count)];
            **place = changed(place, how, &text);
        }
        examine(&document.to_string(), before)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn hostile_snapshot_texts() {
    with_strings(400, |place| FREE.contains(place));
}

#[test]
fn hostile_snapshot_strings() {
    with_strings(3, |_| true);
}

/// Names that stand in paths and in files alike, so that the machine stays whole: its devices are called so.
#[test]
fn hostile_device_names() {
    const NAMES: [&str; 12] = [
        "mlx5_0",
        "mlx5_1",
        "nvme0",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H200",
        "nvidia_peermem",
        "nvidia-peermem",
        "MT_0000000838",
        "28.39",
        "580.",
        "ACTIVE",
        "GPU-",
    ];
    let input = (0..SNAPSHOTS.len(), prop::collection::vec((0..NAMES.len(), hostile_name()), 1..6));
    let outcome = TestRunner::new(cases(3)).run(&input, |(machine, changes)| {
        let before = &SNAPSHOTS[machine];
        let mut document = before.clone();
        for (name, text) in changes {
            let quoted = serde_json::to_string(&text).expect("JSON");
            document = document.replace(NAMES[name], &quoted[1..quoted.len() - 1]);
        }
        examine(&document, before)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
