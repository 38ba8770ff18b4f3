//! Every machine × command × format, against what was printed when somebody last looked: `tests/golden/MACHINE/FILE`.
//!
//! These files hold what gdr printed, so they prove nothing by themselves: they show in a change's diff what it does to
//! every machine. What is right is in `expect.json` and in the bytes of nvidia-smi. `GDR_BLESS=1 cargo test --test gdr
//! golden::` writes them anew; read the diff before you keep it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Gdr, Machine, names, recorded, scratch};

/// The machines whose JSON is kept: with NICs below switches, with a coherent GPU, and a recorded one. Tables are kept of all.
const IN_JSON: [&str; 3] = ["dual-epyc", "grace-gh200", "recorded-h200-x2"];

/// The file that holds an answer, and the question.
const QUESTIONS: &[(&str, &[&str])] = &[
    ("doctor.txt", &["doctor"]),
    ("doctor.json", &["doctor", "--format", "json"]),
    (
        "doctor-all.txt",
        &[
            "doctor",
            "--platform",
            "bare-metal",
            "--profile",
            "rdma",
            "--profile",
            "async",
            "--profile",
            "gdrcopy",
            "--profile",
            "p2p",
        ],
    ),
    ("topo.txt", &["topo", "--nvme"]),
    ("topo.json", &["topo", "--nvme", "--format", "json"]),
    ("topo.svg", &["topo", "--format", "svg"]),
    ("topo-m.txt", &["topo", "--format", "nvidia-smi"]),
    ("probe-copy.txt", &["probe", "copy"]),
    ("pairs.txt", &["topo", "--pairs"]),
];

/// What a machine answers, with the exit code where it is not 0. `given` is the option that names it.
fn answer(around: &Path, given: [&str; 2], question: &[&str]) -> String {
    // The name of the root is in the report: it has to be the same everywhere.
    let mut command = Gdr::new().args(given).args(question).command();
    let output = command.current_dir(around).output().expect("gdr starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!err.contains("panicked"), "{given:?} {question:?}: {err}");
    let out = without_counts(&out);
    match output.status.code() {
        Some(0) => out,
        code => format!("{out}{err}exit status {}\n", code.unwrap_or(-1)),
    }
}

/// Without the numbers of checks that passed or did not apply, so that a new check changes only what it says.
fn without_counts(text: &str) -> String {
    let is_count =
        |line: &str| line.contains(" passed") && line.starts_with(|c: char| c.is_ascii_digit());
    let masked = |part: &str| match part.split_once(' ') {
        Some((_, what @ "passed")) => format!("N {what}"),
        Some((_, what)) if what.starts_with("skipped") => format!("N {what}"),
        _ => part.to_owned(),
    };
    let lines = text.split_inclusive('\n').map(|line| {
        if is_count(line) {
            line.split(", ").map(masked).collect::<Vec<_>>().join(", ")
        } else {
            line.to_owned()
        }
    });
    lines.collect()
}

#[test]
fn machine_output_is_unchanged() {
    let dir = scratch();
    let mut wrong = Vec::new();
    for name in names() {
        let root = dir.path().join(&name);
        fs::create_dir(&root).expect("a directory");
        Machine::load(&name).lay_out(&root);
        wrong.extend(compare(dir.path(), &name, ["--sysroot", &name]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Real machines, by the snapshots that were taken on them.
#[test]
fn recorded_machine_output_is_unchanged() {
    let around = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut wrong = Vec::new();
    for name in recorded() {
        let snapshot = format!("{name}/snapshot.json");
        wrong.extend(compare(&around, &format!("recorded-{name}"), ["--from", &snapshot]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The answers of one machine that are not as they were.
fn compare(around: &Path, name: &str, given: [&str; 2]) -> Vec<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let bless = std::env::var_os("GDR_BLESS").is_some();
    let mut wrong = Vec::new();
    let is_kept = |file: &str| !file.ends_with(".json") || IN_JSON.contains(&name);
    for (file, question) in QUESTIONS.iter().filter(|(file, _)| is_kept(file)) {
        let path = golden.join(file);
        let now = answer(around, given, question);
        if bless {
            fs::create_dir_all(&golden).expect("a directory");
            fs::write(&path, &now).expect("a file");
        } else if let Some(failure) = differs(&path, &now) {
            wrong.push(failure);
        }
    }
    wrong
}

/// The first line that differs.
fn differs(path: &PathBuf, now: &str) -> Option<String> {
    let Ok(before) = fs::read_to_string(path) else {
        return Some(format!("{} is not there", path.display()));
    };
    if before == now {
        return None;
    }
    let lines = before.lines().chain([""]).zip(now.lines().chain([""]));
    let (number, (before, now)) = lines.enumerate().find(|(_, (before, now))| before != now)?;
    let cut = |line: &str| line.chars().take(200).collect::<String>();
    Some(format!(
        "{}:{}\n  before: {}\n  now:    {}",
        path.display(),
        number + 1,
        cut(before),
        cut(now)
    ))
}
