//! `gdr snapshot` and `--from`: a snapshot gives the same output as its machine, and malformed ones do no harm.

mod hostile;
mod libraries;
mod masked;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{Gdr, MEMORY, Machine, Run, names, scratch};
use serde_json::Value;
use tempfile::TempDir;

/// Commands for these tests: all formats and parts of the topology.
const QUESTIONS: &[&[&str]] = &[
    &["doctor", "--platform", "bare-metal"],
    &["doctor", "--profile", "rdma", "--profile", "async", "--profile", "p2p"],
    &["doctor", "--format", "json"],
    &["topo"],
    &["topo", "--pci", "--nvme"],
    &["topo", "--format", "json", "--nvme"],
    &["topo", "--format", "nvidia-smi"],
    &["topo", "--pairs"],
    &["topo", "--check"],
    &["topo", "--p2p", "r"],
    &["topo", "--p2p", "n", "--format", "nvidia-smi"],
    &["topo", "--path", "GPU0", "NIC0"],
    &["topo", "--path", "GPU0", "GPU1", "--format", "json"],
];

fn run(args: &[&str]) -> Run {
    let run = Gdr::new().args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn with(file: &Path, args: &[&str]) -> Run {
    run(&[&["--from", text_of(file)], args].concat())
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// A machine in a directory, and its snapshot.
fn recorded(name: &str, more: &[&str]) -> (TempDir, PathBuf) {
    let dir = scratch();
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("a directory");
    Machine::load(name).lay_out(&root);
    let file = dir.path().join("machine.json.zst");
    let taken =
        run(&[&["--sysroot", text_of(&root), "snapshot", "-o", text_of(&file)], more].concat());
    assert_eq!((taken.code, taken.stdout.as_str()), (0, ""), "{name}: {}", taken.stderr);
    (dir, file)
}

/// An answer without where and when its facts were read.
fn facts_of(run: &Run) -> String {
    if let Ok(mut document) = serde_json::from_str::<Value>(&run.stdout) {
        document["taken"].take();
        document["host"]["source"].take();
        if let Some(host) = document["host"].as_object_mut() {
            host.remove("recorded");
        }
        return document.to_string();
    }
    if let Some((before, rest)) = run.stdout.split_once(" · read from ") {
        let (_, after) = rest.split_once("</text>").expect("the end of the line");
        return format!("{before}</text>{after}");
    }
    if run.stdout.starts_with("gdr doctor: ") {
        let lines = run.stdout.lines().skip(1);
        // The rest of a title that is wrapped.
        let lines: Vec<&str> = lines.skip_while(|line| line.starts_with("  ")).collect();
        lines.join("\n")
    } else {
        run.stdout.clone()
    }
}

/// A replay names its file and the time of the recording, and not the time of the replay.
#[test]
fn replay_says_what_it_replays() {
    let file = "tests/recorded/h200-x2/snapshot.json";
    let taken = "2026-11-21T15:37:08Z";
    let both = format!("(recorded: {file}, {taken})");
    let cases: [(&[&str], &[&str], &[&str]); 5] = [
        (&["doctor"], &[&both], &[]),
        (&["doctor", "--format", "markdown"], &["Recorded: ", taken], &[]),
        (&["doctor", "--format", "html"], &[&both], &["<dd>live</dd>"]),
        (&["topo", "--format", "html"], &[&both], &["<dd>live</dd>"]),
        (&["topo", "--format", "svg"], &["read from"], &[]),
    ];
    for (args, expected, forbidden) in cases {
        let text = with(Path::new(file), args).stdout;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in expected {
            assert!(text.contains(words), "{args:?}: {words} is not in {text}");
        }
        for words in forbidden {
            assert!(!text.contains(words), "{args:?}: {words} is in {text}");
        }
    }
    let documents: [&[&str]; 4] = [
        &["doctor", "--format", "json"],
        &["topo", "--format", "json"],
        &["fix", "--dry-run", "--format", "json"],
        &["explain", "ibv_reg_mr failed: Bad address", "--format", "json"],
    ];
    for args in documents {
        let run = with(Path::new(file), args);
        let document: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", run.stderr));
        assert_eq!(document["taken"], taken, "{args:?}");
        assert_eq!(document["host"]["source"], file, "{args:?}");
        assert_eq!(document["host"]["recorded"], taken, "{args:?}");
        assert_eq!(document["host"]["name"], "maskedhost1", "{args:?}");
    }
}

#[test]
#[ignore = "slow: many runs"]
fn snapshot_gives_same_output_as_machine() {
    for name in names() {
        let (dir, file) = recorded(&name, &[]);
        let root = dir.path().join("root");
        for question in QUESTIONS {
            let machine = run(&[&["--sysroot", text_of(&root)], *question].concat());
            let snapshot = with(&file, question);
            assert_eq!(snapshot.code, machine.code, "{name} {question:?}: {}", snapshot.stderr);
            assert_eq!(facts_of(&snapshot), facts_of(&machine), "{name} {question:?}");
        }
    }
}

#[test]
fn snapshot_of_this_machine_gives_same_output() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("here.json");
    assert_eq!(run(&["snapshot", "-o", text_of(&file)]).code, 0);
    for question in QUESTIONS {
        let (live, snapshot) = (run(question), with(&file, question));
        assert_eq!(snapshot.code, live.code, "{question:?}: {}", snapshot.stderr);
        assert_eq!(facts_of(&snapshot), facts_of(&live), "{question:?}");
    }
    let output = with(&file, &["doctor"]).stderr;
    assert!(output.contains("recorded") && output.contains("here.json"), "{output}");
}

#[test]
fn snapshot_of_snapshot_is_equal() {
    let (dir, file) = recorded("h200-x2", &[]);
    let again = dir.path().join("again.json.zst");
    assert_eq!(with(&file, &["snapshot", "-o", text_of(&again)]).code, 0);
    for question in QUESTIONS {
        assert_eq!(
            facts_of(&with(&again, question)),
            facts_of(&with(&file, question)),
            "{question:?}"
        );
    }
}

#[test]
fn snapshot_passes_pipe_and_matches_schema() {
    let taken = Gdr::new()
        .sysroot(&recorded("h200-x1", &[]).0.path().join("root"))
        .args(["snapshot", "-o", "-"])
        .run();
    let document: Value = serde_json::from_str(&taken.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", taken.stderr));
    assert_eq!(document["schema"], "gdr.snapshot/1");
    assert_eq!(document["gdr"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["masked"], false);
    let taken_at = document["taken"].as_str().expect("a time");
    assert!(
        taken_at.len() == 20 && taken_at.starts_with("20") && taken_at.ends_with('Z'),
        "{taken_at}"
    );

    let (_dir, file) = recorded("h200-x1", &[]);
    let mut command = Gdr::new().args(["topo", "--from", "-"]).command();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gdr starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&fs::read(&file).expect("the snapshot")).expect("it is read");
    drop(pipe);
    let output = child.wait_with_output().expect("gdr ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), with(&file, &["topo"]).stdout);
}

/// The largest test machine, compressed.
#[test]
fn large_machine_has_small_snapshot() {
    let (_dir, file) = recorded("hgx-h100-8gpu-8nic", &[]);
    let size = fs::metadata(&file).expect("the snapshot").len();
    assert!(size < 300_000, "{size} bytes");
}

/// Large and private files are reduced to what gdr uses.
#[test]
fn reduces_large_and_private_files() {
    let (dir, _) = recorded("hgx-h100-8gpu-8nic", &[]);
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("usr/share/misc")).expect("a directory");
    let ids = "10de  NVIDIA\n\t9999  A part that is not here\n15b3  Mellanox\n\t1021  Listed NIC\n8086  Intel\n\t0001  Another\n";
    fs::write(root.join("usr/share/misc/pci.ids"), ids).expect("a list");
    let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu\n\nprocessor\t: 1\nflags\t\t: secret\n";
    fs::write(root.join("proc/cpuinfo"), cpuinfo).expect("a file");
    let modules = "nvidia 14299136 2 nvidia_uvm,nvidia_modeset, Live 0xffffffffc0a01000 (O)\n";
    fs::write(root.join("proc/modules"), modules).expect("a file");
    let taken = run(&["--sysroot", text_of(&root), "snapshot", "-o", "-"]);
    let document: Value = serde_json::from_str(&taken.stdout).expect("JSON");
    let held = |path: &str| {
        document["files"][path]["text"].as_str().unwrap_or_else(|| panic!("{path}")).to_owned()
    };
    let names = held("/usr/share/misc/pci.ids");
    assert!(names.contains("Listed NIC") && !names.contains("not here"), "{names}");
    assert!(!held("/proc/cpuinfo").contains("secret"));
    assert!(!held("/proc/modules").contains("ffffffff"));
    let svg = run(&["--sysroot", text_of(&root), "topo", "--format", "svg"]);
    assert!(svg.stdout.contains("Listed NIC"), "the list is used at all");
    let file = dir.path().join("reduced.json");
    fs::write(&file, taken.stdout).expect("a file");
    let replayed = with(&file, &["topo", "--format", "svg"]);
    assert_eq!(facts_of(&replayed), facts_of(&svg));
}

#[test]
fn missing_data_are_unknown_and_reported() {
    let (dir, _) = recorded("h200-x1", &[]);
    let root = dir.path().join("root");
    let mut document: Value =
        serde_json::from_str(&run(&["--sysroot", text_of(&root), "snapshot", "-o", "-"]).stdout)
            .expect("JSON");
    let files = document["files"].as_object_mut().expect("files");
    assert!(files.remove("/proc/driver/nvidia/params").is_some());
    let file = dir.path().join("older.json");
    fs::write(&file, document.to_string()).expect("a file");
    let run = with(&file, &["--verbose", "doctor", "--profile", "async", "--format", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| {
        finding["id"] == "param.stream-memops" || finding["id"] == "param.peer-mapping"
    });
    assert_eq!(found.expect("a finding about parameters")["outcome"], "unknown", "{}", run.stdout);
    assert!(
        run.stderr.contains("/proc/driver/nvidia/params")
            && run.stderr.contains("not in this snapshot"),
        "{}",
        run.stderr
    );
}

#[test]
fn failed_write_keeps_existing_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = dir.path().join("no/such/place.json");
    let failed = run(&["snapshot", "-o", text_of(&missing)]);
    assert_eq!(failed.code, 2);
    failed.assert_stderr("place.json");
    let failed = run(&["snapshot", "-o", "/dev/full"]);
    assert_eq!(failed.code, 2, "{}", failed.stderr);
    assert_eq!(run(&["snapshot"]).code, 2, "it wants to know where");
    let there = dir.path().join("there.json");
    fs::write(&there, "old").expect("a file");
    assert_eq!(run(&["snapshot", "-o", text_of(&there)]).code, 0);
    let left: Vec<_> = fs::read_dir(dir.path()).expect("the directory").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(fs::read_to_string(&there).expect("the file").contains("gdr.snapshot/1"));
}

#[test]
fn compares_machines_by_fact() {
    let (dir, one) = recorded("vm-iommu-on", &[]);
    let (_other, two) = recorded("vm-iommu-off", &[]);
    let same = run(&["snapshot", "--diff", text_of(&one), text_of(&one)]);
    assert_eq!(same.code, 0, "{}", same.stdout);
    let differ = run(&["snapshot", "--diff", text_of(&one), text_of(&two)]);
    assert_eq!(differ.code, 1, "{}", differ.stderr);
    differ.assert_stdout("PCI 0000:42:00.0");
    let line = differ.stdout.lines().find(|line| line.contains("ACS")).expect("a line about ACS");
    assert!(line.contains("ReqRedir+") || line.contains("ReqRedir-"), "{line}");
    let report = run(&["snapshot", "--diff", text_of(&one), text_of(&two), "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report["schema"], "gdr.diff/1");
    let missing = run(&["snapshot", "--diff", text_of(&one), text_of(&dir.path().join("none"))]);
    assert_eq!(missing.code, 2);
    missing.assert_stderr("none");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file").permissions().mode() & 0o777
}

#[test]
fn snapshot_file_is_private() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name);
    assert_eq!(run(&["snapshot", "-o", text_of(&at("new.json"))]).code, 0);
    assert_eq!(mode(&at("new.json")), 0o600);
    fs::set_permissions(at("new.json"), fs::Permissions::from_mode(0o640)).expect("a mode");
    assert_eq!(run(&["snapshot", "-o", text_of(&at("new.json"))]).code, 0);
    assert_eq!(mode(&at("new.json")), 0o640, "a file keeps its mode");
    assert_eq!(run(&["snapshot", "--mask", "-o", text_of(&at("masked.json"))]).code, 0);
    assert_eq!(mode(&at("masked.json")), 0o644);
    symlink("new.json", at("link.json")).expect("a link");
    assert_eq!(run(&["snapshot", "-o", text_of(&at("link.json"))]).code, 0);
    let link = fs::symlink_metadata(at("link.json")).expect("the link");
    assert!(link.is_symlink(), "a link stays one");
    let mut left: Vec<_> = fs::read_dir(dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["link.json", "masked.json", "new.json"]);
}

#[test]
fn reports_commands_that_need_the_machine() {
    let (_dir, file) = recorded("h200-x1", &[]);
    for (args, words) in [
        (&["doctor", "--live"][..], "gdr snapshot --live"),
        (&["probe", "copy", "--sim"], "--from"),
        (&["snapshot", "--mask", "--all", "-o", "-"], "cannot be used with"),
    ] {
        let run = with(&file, args);
        assert_eq!(run.code, 2);
        run.assert_stderr(words);
    }
    assert_eq!(run(&["--from", text_of(&file), "--sysroot", "/", "topo"]).code, 2);
    assert_eq!(with(&file, &["snapshot", "--live", "-o", "-"]).code, 2);
}

fn written(dir: &Path, bytes: &[u8]) -> PathBuf {
    written_as(dir, "input", bytes)
}

fn written_as(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let file = dir.join(name);
    fs::write(&file, bytes).expect("a file");
    file
}
