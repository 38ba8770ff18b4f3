//! Whatever an input of at most 8 MiB holds, gdr keeps within 256 MiB, ends by itself, and says what it leaves out; within 512 MiB if it
//! unpacks to at most 64 MiB.

use std::fs;
use std::path::Path;

use crate::support::crowded::{
    self, COMMANDS, COMPARISONS, Input, LARGEST, MAX_ROWS, PLACES, ReadBy, UNPACKED, dumps, gpus,
    journals, logs, long_answers, many_devices, profiles, reports, scaled,
};
use crate::support::{Gdr, MEMORY, MEMORY_UNPACKED, Run, scratch};
use serde_json::Value;

/// Each part of gdr once.
const SOME: [&[&str]; 7] = [
    &["topo", "--nvme", "--format", "json"],
    &["doctor", "--profile", "all", "--platform", "bare-metal", "--format", "json"],
    &["snapshot", "--mask", "-o", "-"],
    &["topo", "--nvme"],
    &["topo", "--format", "svg"],
    &["fix", "--profile", "all", "--dry-run", "--format", "json"],
    &["probe", "p2p", "--format", "json"],
];

/// The inputs of each kind that take most memory, and three logs.
const LARGE: [&str; 21] = [
    "256 x h200-x4",
    "214 x vm-iommu-on",
    "190000 files",
    "9500 NICs",
    "59000 ports",
    "a long reason",
    "hwloc",
    "lspci",
    "lspci names",
    "rdma_topo",
    "30000 drop-ins",
    "long names",
    "NVML pairs",
    "NVML GPUs",
    "CUDA pairs",
    "every symptom in one line",
    "lines that differ",
    "JSON",
    "hwloc CPUs",
    "bug report GPUs",
    "bug report fields",
];

/// The reports that took most memory while their lists were read whole.
const LARGE_REPORTS: [&str; 2] = ["topo equal devices", "probe notes"];

/// With `GDR_INPUTS=all`, all inputs and commands are tried, which takes some minutes.
fn tries_all() -> bool {
    std::env::var_os("GDR_INPUTS").is_some_and(|inputs| inputs == "all")
}

fn large(inputs: Vec<Input>) -> Vec<Input> {
    let is_tried = |input: &Input| tries_all() || LARGE.contains(&input.name.as_str());
    let tried: Vec<Input> = inputs.into_iter().filter(is_tried).collect();
    assert!(tried.len() > 1, "LARGE names inputs that no longer exist");
    tried
}

/// The first of these commands, which read most of an input.
fn first(count: usize) -> &'static [&'static [&'static str]] {
    if tries_all() { &SOME } else { &SOME[..count] }
}

/// Runs it within its memory: it ends with one of its exit codes.
fn ran(what: &str, gdr: Gdr) -> Run {
    let run = gdr.run();
    let end = run.stderr.len().saturating_sub(500);
    let end = run.stderr.get(end..).unwrap_or(&run.stderr);
    assert!((0..=3).contains(&run.code), "{what}: exit status {}: {end}", run.code);
    assert!(!run.stderr.contains("panicked"), "{what}: {end}");
    run
}

fn from(input: &Input, file: &Path, args: &[&str]) -> Run {
    let gdr = Gdr::within(MEMORY).args(args).args(["--from".as_ref(), file.as_os_str()]);
    ran(&format!("{}: {}", input.name, args.join(" ")), gdr)
}

fn all_within_memory(inputs: &[Input], commands: &[&[&str]]) {
    let directory = scratch();
    for input in inputs {
        let file = input.written(directory.path());
        for args in commands {
            from(input, &file, args);
        }
    }
}

#[test]
#[ignore = "slow: 4,000 GPUs"]
fn four_thousand_gpus() {
    all_within_memory(&[gpus(4_000)], &COMMANDS);
}

#[test]
fn small_file_with_many_gpus() {
    let small = gpus(8_000).packed();
    assert!(small.bytes.len() < 400_000, "{}", small.bytes.len());
    all_within_memory(&[small], first(2));
}

#[test]
fn reports_omitted_pairs() {
    let directory = scratch();
    let input = gpus(4_000);
    let file = input.written(directory.path());
    let run = |args: &[&str]| from(&input, &file, args);
    let pairs =
        "there are 4000 GPUs, NICs and NVMe controllers; gdr computes all pairs only up to 1024";

    let table = run(&["topo"]);
    assert_eq!(table.code, 0);
    assert!(table.stdout.contains(&format!("No matrix: {pairs}")), "{}", table.stdout.len());
    assert!(table.stdout.contains("GPU3999 "));

    let json = run(&["topo", "--format", "json"]);
    let document: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(document["devices"].as_array().map(Vec::len), Some(4_000));
    assert_eq!(document["omitted"]["fields"], serde_json::json!(["matrix", "paths"]));
    assert_eq!(document["omitted"]["reason"], pairs);

    let svg = run(&["topo", "--format", "svg"]);
    svg.assert_stdout("gdr computes all pairs only up to 1024");
    let nvidia_smi = run(&["topo", "--format", "nvidia-smi"]);
    assert_eq!((nvidia_smi.code, nvidia_smi.stdout.as_str()), (2, ""));
    assert!(nvidia_smi.stderr.contains(pairs), "{}", nvidia_smi.stderr);
    let probe = run(&["probe", "p2p"]);
    assert_eq!(probe.code, 2);
    assert!(probe.stderr.contains(pairs), "{}", probe.stderr);

    let judged = "there are 4000 GPUs and NICs; gdr judges at most 1024";
    for format in ["table", "json", "markdown"] {
        let doctor = run(&["doctor", "--format", format]);
        assert_eq!(doctor.code, 3, "{format}");
        let text =
            doctor.stdout.replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(judged), "{format}: {text}");
    }
    let fix = run(&["fix", "--dry-run"]);
    assert_eq!(fix.code, 2);
    assert!(fix.stderr.contains(judged), "{}", fix.stderr);
}

#[test]
#[ignore = "slow: 8 MiB inputs"]
fn snapshots_with_many_devices() {
    all_within_memory(&large(many_devices()), first(2));
}

#[test]
#[ignore = "slow: 8 MiB inputs"]
fn snapshots_with_long_answers() {
    all_within_memory(&large(long_answers()), first(2));
}

#[test]
#[ignore = "slow: 8 MiB inputs"]
fn compares_snapshots() {
    let directory = scratch();
    let few = gpus(8).written(directory.path());
    let [devices, answers] = [many_devices(), long_answers()].map(large);
    for input in devices.iter().chain(&answers).chain([&gpus(8_000)]) {
        let file = input.written(directory.path());
        let gdr = Gdr::within(MEMORY).args(["snapshot", "--diff"]).args([&few, &file]);
        ran(&format!("{}: --diff", input.name), gdr.args(COMPARISONS[1]));
    }
}

/// As many copies of a recorded machine as have all their pairs computed, and as many as fit.
#[test]
#[ignore = "slow: 8 MiB inputs"]
fn recorded_machines_scaled_up() {
    let scaled = |name: &str, rows: usize| {
        let path = format!("{}/tests/recorded/{name}/snapshot.json", env!("CARGO_MANIFEST_DIR"));
        scaled(name, &fs::read_to_string(path).expect("a snapshot"), rows)
    };
    let most = scaled("vm-iommu-on", usize::MAX);
    assert!(most.bytes.len() > LARGEST - (1 << 20), "{}", most.bytes.len());
    all_within_memory(&large(vec![scaled("h200-x4", MAX_ROWS), most]), first(3));
}

#[test]
#[ignore = "slow: 8 MiB inputs"]
fn dumps_of_other_tools() {
    let dumps = large(dumps(LARGEST));
    all_within_memory(&dumps, first(1));
    let names = ["lspci", "hwloc", "rdma_topo"];
    let read: Vec<Input> =
        dumps.into_iter().filter(|dump| names.contains(&dump.name.as_str())).collect();
    assert_eq!(read.len(), names.len());
    all_within_memory(&read, &SOME[1..2]);
}

#[test]
#[ignore = "slow: 8 MiB inputs"]
fn explains_logs() {
    let directory = scratch();
    for input in large(logs(LARGEST)) {
        let file = input.written(directory.path());
        let gdr = Gdr::within(MEMORY).args(["explain", "--no-run", "--format", "json", "-"]);
        let run = ran(&input.name, gdr.stdin(&file));
        let found = input.name.starts_with("every symptom") || input.name == "lines that differ";
        let is_log = input.name.ends_with(" of a job") || input.name == "kernel log";
        assert!(is_log || (run.code == 0) == found, "{}", input.name);
    }
}

/// What reads a report of gdr: formats of a fleet, and what compares or expects the figures of a probe.
fn read_report(by: ReadBy, input: &Input, file: &Path, few: &Path, memory: u64, all: bool) {
    let run = |args: &[&str], files: &[&Path]| {
        let gdr = Gdr::within(memory).args(args).args(files);
        ran(&format!("{}: {}", input.name, args.join(" ")), gdr)
    };
    if by == ReadBy::Probe {
        run(&["snapshot", "--all", "--diff"], &[few, file]);
    }
    if all || by == ReadBy::Fleet {
        run(&["fleet", "report", "--format", "json"], &[file]);
    }
    if !all {
        return;
    }
    for format in ["table", "html", "junit"] {
        run(&["fleet", "report", "--format", format], &[file]);
    }
    for command in ["topo", "doctor"] {
        run(&[command, "--from"], &[file]);
    }
    if by == ReadBy::Probe {
        run(&["expect"], &[file]);
        let json = ["snapshot", "--all", "--format", "json", "--diff"];
        run(&json, &[file, few]);
        let probe = ["probe", "copy", "--sim", "--quick", "--size=64KiB"];
        run(&[&probe[..], &["--baseline"]].concat(), &[file]);
    }
}

fn reports_within(size: usize, memory: u64, all: bool) {
    let directory = scratch();
    let few = directory.path().join("few");
    let small = reports(2_000);
    let results = small.iter().find(|(_, input)| input.name == "probe results");
    fs::write(&few, &results.expect("results of a probe").1.bytes).expect("a file");
    let mut tried = 0;
    for (by, input) in reports(size) {
        if !all && !LARGE_REPORTS.contains(&input.name.as_str()) {
            continue;
        }
        tried += 1;
        let input = if size > LARGEST { input.packed() } else { input };
        let file = input.written(directory.path());
        read_report(by, &input, &file, &few, memory, all);
    }
    assert!(tried >= LARGE_REPORTS.len(), "{tried}");
}

#[test]
#[ignore = "slow: inputs of 52 MiB"]
fn small_files_that_unpack_to_large_reports() {
    reports_within(52 << 20, MEMORY_UNPACKED, false);
}

#[test]
#[ignore = "minutes: 8 MiB inputs, all of them"]
fn manual_reports_within_memory() {
    reports_within(LARGEST, MEMORY, true);
}

#[test]
#[ignore = "minutes: 64 MiB inputs, all of them"]
fn manual_unpacked_reports_within_memory() {
    reports_within(UNPACKED, MEMORY_UNPACKED, true);
}

/// All that reads dumps, logs and reports, with as much as is read of them.
#[test]
#[ignore = "minutes: 64 MiB inputs, all of them"]
fn manual_unpacked_inputs_within_memory() {
    let directory = scratch();
    for input in dumps(UNPACKED) {
        let input = input.packed();
        let file = input.written(directory.path());
        for args in [SOME[0], SOME[1], SOME[2], SOME[3]] {
            let gdr =
                Gdr::within(MEMORY_UNPACKED).args(args).args(["--from".as_ref(), file.as_os_str()]);
            ran(&format!("{}: {}", input.name, args.join(" ")), gdr);
        }
        let gdr = Gdr::within(MEMORY_UNPACKED).args(["explain", "--no-run", "-"]);
        ran(&input.name, gdr.stdin(&file));
        fs::remove_file(file).expect("a file");
    }
}

#[test]
fn reads_profiles() {
    let directory = scratch();
    let machine = gpus(8).written(directory.path());
    for input in profiles() {
        let file = directory.path().join("profile.toml");
        fs::write(&file, &input.bytes).expect("a file");
        for command in [&["doctor"][..], &["fix", "--dry-run"]] {
            let gdr =
                Gdr::within(MEMORY).args(command).args(["--profile".as_ref(), file.as_os_str()]);
            let run = ran(&input.name, gdr.args(["--from".as_ref(), machine.as_os_str()]));
            assert_eq!(run.code, 2, "{}: {}", input.name, command.join(" "));
            assert!(run.stderr.contains("profile.toml"), "{}: {}", input.name, run.stderr);
        }
    }
}

#[test]
fn reads_journals() {
    for input in journals() {
        let root = scratch();
        let directory = root.path().join("var/lib/gdr/journal");
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("1.json"), &input.bytes).expect("a file");
        let run =
            |args: &[&str]| ran(&input.name, Gdr::within(MEMORY).args(args).sysroot(root.path()));
        run(&["undo", "--list"]);
        for args in [&["undo"][..], &["undo", "1", "--force"]] {
            assert_ne!(run(args).code, 0, "{}: {}", input.name, args.join(" "));
        }
        let left = fs::read(directory.join("1.json")).expect("the journal");
        assert!(left == input.bytes, "{}: the journal was changed", input.name);
    }
}

/// A machine laid out: thousands of GPUs, and single files of 8 MiB.
#[test]
#[ignore = "slow: directories of thousands of files"]
fn crowded_roots() {
    let root = scratch();
    crowded::lay_out_gpus(root.path(), 4_000);
    let everywhere = |root: &Path, commands: &[&[&str]], what: &str| {
        for args in commands {
            let gdr = Gdr::within(MEMORY).args(*args).sysroot(root);
            ran(&format!("{what}: {}", args.join(" ")), gdr);
        }
    };
    everywhere(root.path(), first(2), "4000 GPUs");
    for (place, line) in PLACES {
        let root = scratch();
        crowded::lay_out_gpus(root.path(), 8);
        let path = root.path().join(place);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, line.repeat(LARGEST / line.len())).expect("a file");
        everywhere(root.path(), &SOME[1..2], place);
    }
}
