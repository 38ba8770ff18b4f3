//! Six processes at once: each answers as it does alone. `GDR_ROUNDS=1000` makes it a stress test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::{Bench, Gdr, Run};
use serde_json::json;

/// Processes at once.
const PROCESSES: usize = 6;

/// How often all start together; GDR_ROUNDS says another number.
fn rounds() -> usize {
    std::env::var("GDR_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

/// Starts six at once, and waits for all.
fn together(command: &str, home: &Path) -> Vec<Run> {
    let start = || {
        let mut command = Gdr::new().args(command.split(' ')).env("HOME", home).command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the built gdr starts")
    };
    let children: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let ended = children.into_iter().map(|child| child.wait_with_output().expect("its output"));
    ended
        .map(|output| Run {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        })
        .collect()
}

/// What is wrong with a run of a command that alone ends well; how often it was seen.
fn examine(seen: &mut BTreeMap<String, usize>, command: &str, runs: Vec<Run>, accepted: &[i32]) {
    for run in runs {
        let text = run.stdout + &run.stderr;
        if text.contains("No such file") || !accepted.contains(&run.code) {
            *seen.entry(format!("{command}: {} {}", run.code, run.stderr)).or_default() += 1;
        }
    }
}

/// Snapshots go to the same file: each is whole, and the last one counts.
#[test]
#[ignore = "slow: many runs"]
fn concurrent_readers_agree() {
    let bench = Bench::of("sound", &json!({}));
    let root = bench.root().display().to_string();
    let file = bench.tools().join("s.json").display().to_string();
    let mut seen = BTreeMap::new();
    for command in [
        format!("doctor --sysroot {root} --format json"),
        format!("topo --sysroot {root} --format json"),
        format!("explain --sysroot {root} Bad-address"),
        format!("snapshot --sysroot {root} -o {file}"),
        format!("snapshot --sysroot {root} -o {file}.zst"),
        format!("snapshot --diff {file} {file}.zst"),
        format!("topo --from {file}"),
        "doctor".to_owned(),
        "topo".to_owned(),
        format!("snapshot -o {file}.live"),
    ] {
        for _ in 0..rounds() {
            let home = tempfile::tempdir().expect("a directory");
            let runs = together(&command, home.path());
            let outputs: BTreeSet<&String> = runs.iter().map(|run| &run.stdout).collect();
            assert!(command == "doctor" || outputs.len() == 1, "{command}: {outputs:?}");
            examine(&mut seen, &command, runs, &[0, 1, 3]);
        }
    }
    assert!(seen.is_empty(), "{seen:#?}");
    let left: Vec<_> = std::fs::read_dir(bench.tools())
        .expect("a directory")
        .flatten()
        .map(|file| file.file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

/// One of six makes the repair, whoever makes the directories; the others wait for nobody and say why.
#[test]
fn concurrent_repairs_change_once() {
    let mut seen = BTreeMap::new();
    for _ in 0..rounds() {
        let user = ["Uid:\t1000\t1000\t1000\t1000", "CapEff:\t0000000000000000"];
        let bench = Bench::of("sound", &json!({ "files": { "proc/self/status": user } }));
        let root = bench.root().display().to_string();
        for command in ["fix memlock --yes", "undo --list", "undo"] {
            let runs = together(&format!("{command} --sysroot {root}"), &bench.tools());
            examine(&mut seen, command, runs, &[0, 1, 2]);
        }
    }
    assert!(seen.is_empty(), "{seen:#?}");
}
