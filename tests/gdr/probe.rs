//! `gdr probe copy`: the binary itself, on simulated memory, and against CUDA libraries that are not there, hang or crash.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Gdr, Run, fake_cuda, gdr};
use serde_json::Value;

/// A small run without a GPU.
const SIM: [&str; 6] = ["probe", "copy", "--sim", "--quick", "--size", "1,100,4KiB,64KiB"];

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", run.stdout, run.stderr))
}

fn results(report: &Value) -> &Vec<Value> {
    report["results"].as_array().expect("results")
}

fn sim(more: &[&str]) -> Run {
    let run = Gdr::new().args(SIM).args(more).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

#[test]
fn simulated_run_matches_schema() {
    let run = sim(&["--format", "json"]);
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let report = json(&run);
    assert_eq!(report["schema"], "gdr.probe/1");
    assert_eq!(report["probe"], "copy");
    assert_eq!((&report["simulated"], &report["complete"]), (&true.into(), &true.into()));
    assert!(report["host"].is_object());
    for result in results(&report) {
        for key in [
            "name", "subject", "backend", "bytes", "verified", "unit", "median", "p5", "p95",
            "max", "samples", "expected", "verdict",
        ] {
            assert!(result.get(key).is_some(), "{key}: {result}");
        }
        let backend = result["backend"].as_str().expect("a backend");
        assert!(backend.contains("sim"), "{result}");
        assert_ne!(result["verdict"], "wrong", "{result}");
        assert!(result["expected"].is_null(), "nothing is promised of memory: {result}");
    }
}

#[test]
fn bar1_probe_results() {
    let report = json(&sim(&["--format", "json"]));
    let of = |name: &str| -> Vec<&Value> {
        let found: Vec<&Value> =
            results(&report).iter().filter(|result| result["name"] == name).collect();
        assert!(!found.is_empty(), "{name}");
        found
    };
    for sort in ["malloc", "create", "create-exportable"] {
        for check in ["stores", "copies", "offsets", "gpu-writes"] {
            for result in of(&format!("validate.{sort}.{check}")) {
                assert!(result["verified"].as_u64().expect("bytes") > 0, "{result}");
            }
        }
    }
    // cuMemAlloc of 512 B, 4 KiB, 64 KiB and a large one.
    let sizes: Vec<u64> =
        of("validate.malloc.copies").iter().filter_map(|r| r["bytes"].as_u64()).collect();
    assert!(sizes.starts_with(&[512, 4096, 65536]), "{sizes:?}");
    // The bytes there and back.
    assert_eq!(of("validate.malloc.copies")[1]["verified"], 8192);
    assert_eq!(of("validate.malloc.neighbours")[0]["verified"], 16 * 512);
    assert!(of("validate.kernel.portable")[0]["verified"].as_u64() > Some(100_000));
    for direction in ["write", "read"] {
        for way in ["copy", "cuda.pinned", "cuda.pageable"] {
            let latency = of(&format!("{way}.{direction}.latency"));
            let sizes: Vec<u64> =
                latency.iter().filter_map(|result| result["bytes"].as_u64()).collect();
            assert_eq!(sizes, [1, 100, 4096, 65536]);
            for result in latency {
                let figure = |key: &str| result[key].as_f64().expect("a figure");
                assert!(
                    figure("p5") <= figure("median") && figure("median") <= figure("p95"),
                    "{result}"
                );
                assert!(figure("p95") <= figure("max") && figure("p5") > 0.0, "{result}");
                assert_eq!(
                    (&result["unit"], &result["verified"]),
                    (&"us".into(), &result["bytes"])
                );
                assert!(result["samples"].as_u64() >= Some(3), "{result}");
                assert!(figure("cpu") > 0.0, "{result}");
            }
            // Bandwidth is said from 4 KiB on, in 10⁹ bytes a second.
            let bandwidth = of(&format!("{way}.{direction}.bandwidth"));
            assert_eq!(bandwidth.len(), 2);
            assert_eq!(bandwidth[0]["unit"], "GB/s");
        }
        of(&format!("crossover.{direction}"));
        of(&format!("crossover.{direction}.cpu"));
    }
    for call in ["pin", "map", "info", "unmap", "unpin"] {
        let call = of(&format!("api.{call}"))[0];
        assert!(call["min"].as_f64() <= call["median"].as_f64(), "{call}");
        let buckets = call["histogram"].as_array().expect("buckets").iter();
        let samples = buckets.map(|bucket| bucket["samples"].as_u64().expect("a number"));
        assert_eq!(call["samples"].as_u64(), Some(samples.sum()), "{call}");
    }
    assert!(of("ping-pong")[0]["histogram"].is_array());
}

#[test]
fn forces_kernel_and_size() {
    let run = sim(&["--kernel", "portable", "--format", "json"]);
    let report = json(&run);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let gpu = &report["gpus"][0];
    // A simulated mapping is cached memory: what it copies with may not be chosen.
    assert!(gpu["backend"] == "sim" && gpu["write_kernel"].is_string(), "{gpu}");
}

#[test]
fn closed_pipe_keeps_exit_code() {
    let mut command = Gdr::new().args(SIM).args(["--format", "json"]).command();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let status = child.wait().expect("a status");
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
#[ignore = "slow: measures until it is interrupted"]
fn interrupt_prints_results_and_ends_by_the_signal() {
    let mut command =
        Gdr::new().args(["probe", "copy", "--sim", "--full", "--format", "json"]).command();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(5));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let mut text = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    while out.read_line(&mut text).expect("text") > 0 {}
    let status = child.wait().expect("a status");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    // Status 130 for a shell.
    assert_eq!(status.signal(), Some(2));
    assert_eq!(report["complete"], false);
    assert!(report["notes"].to_string().contains("Interrupted"), "{}", report["notes"]);
    assert!(!results(&report).is_empty());
    let crossing =
        |result: &Value| result["name"].as_str().is_some_and(|name| name.starts_with("crossover"));
    assert!(
        !results(&report).iter().any(crossing),
        "nobody knows where a sweep cut short would have crossed"
    );
}

/// Sizes that end in the middle of a word, where the last place of a read is the buffer's end.
#[test]
#[ignore = "slow: many probes"]
fn odd_sizes_verify() {
    for _ in 0..3 {
        let run = Gdr::new()
            .args(["probe", "copy", "--sim", "--quick", "--size", "64,164,65535,524287,1048575"])
            .run();
        assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    }
}

#[test]
fn curve_shows_failure() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("libcuda.so.1"), "no library").expect("a file");
    for format in ["curve", "svg"] {
        let run = with_cuda(directory.path(), &["probe", "copy", "--format", format]);
        assert_eq!(run.code, 1, "{format}");
        assert!(run.stderr.contains("libcuda.so.1"), "{format}: {}", run.stderr);
    }
}

/// A recorded machine is not probed: what is expected of it is told, and nothing looks as if it had been measured.
#[test]
fn recorded_machine_has_only_expectations() {
    let snapshot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/h200-x2/snapshot.json");
    let run = gdr(&["probe", "copy", "--from", snapshot, "--format", "json", "--gpu", "1"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = json(&run);
    let results = report["results"].as_array().expect("results");
    assert_eq!(results.len(), 3);
    for result in results {
        assert_eq!(result["subject"], "GPU1 (0000:00:07.0)");
        assert_eq!((&result["verdict"], &result["samples"]), (&"not_measured".into(), &0.into()));
        assert!(result["median"].is_null());
        // 16 lanes of 32 GT/s with 128b/130b coding.
        let expected = result["expected"].as_f64().expect("a figure");
        assert!((expected - 16.0 * 32.0 / 8.0 * 128.0 / 130.0).abs() < 0.01, "{expected}");
    }
}

#[test]
fn usage_errors_are_explained() {
    for (args, word) in [
        (&["--quick", "--full"][..], "cannot be used with"),
        (&["--sim", "--backend", "rm"], "cannot be used with"),
        (&["--sim", "--gpu", "0"], "cannot be used with"),
        (&["--size", "3GiB"], "1 GiB"),
        (&["--numa", "far"], "'all', 'near'"),
        (&["--backend", "sim"], "gdrdrv, dmabuf, rm"),
        (&["--sim", "--kernel", "fastest"], "unknown copy kernel 'fastest'"),
        (&["--sim", "--numa", "4000"], "no NUMA node 4000"),
        (&["--sysroot", "/", "--sim"], "does not work with --sysroot"),
        (&["--sysroot", "/", "--format", "svg"], "nothing is measured with --sysroot"),
    ] {
        let run = gdr(&[&["probe", "copy"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(word), "{args:?}: {}", run.stderr);
    }
    let run = gdr(&["doctor", "--live", "--sysroot", "/"]);
    assert_eq!(run.code, 2);
    run.assert_stderr("--live");
}

/// A run with a CUDA library of our own.
fn with_cuda(directory: &Path, args: &[&str]) -> Run {
    let run = Gdr::new().args(args).env("LD_LIBRARY_PATH", directory).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

const COPY: [&str; 6] = ["--library-timeout", "1", "probe", "copy", "--format", "json"];

#[test]
fn hanging_driver_times_out() {
    let directory = tempfile::tempdir().expect("a directory");
    fake_cuda(directory.path(), "loop { std::thread::sleep(std::time::Duration::from_secs(1)) }");
    let begun = Instant::now();
    // Each waits for its timeouts.
    let with = |args: Vec<&'static str>| {
        let directory = directory.path().to_owned();
        std::thread::spawn(move || with_cuda(&directory, &args))
    };
    let [run, named, doctor] = [
        COPY.to_vec(),
        [&COPY[..], &["--gpu", "0"]].concat(),
        vec![
            "--library-timeout",
            "1",
            "doctor",
            "--live",
            "--profile",
            "gdrcopy",
            "--format",
            "json",
        ],
    ]
    .map(with)
    .map(|running| running.join().expect("gdr ends"));
    assert!(begun.elapsed() < Duration::from_secs(30));
    let report = json(&run);
    assert_eq!((run.code, &report["complete"]), (3, &false.into()));
    let notes = report["notes"].to_string();
    for word in [
        "gave up after waiting 1 s for libcuda.so.1 to start (cuInit)",
        "--library-timeout",
        "dmesg",
    ] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    // Also where a GPU is named: it may be there all the same.
    assert_eq!(named.code, 3, "{}", named.stderr);
    let report = json(&doctor);
    let findings = report["findings"].as_array().expect("findings");
    let found =
        findings.iter().find(|finding| finding["id"] == "mapping.backend").expect("the check");
    assert_eq!(
        (&found["outcome"], &found["severity"]),
        (&"unknown".into(), &"error".into()),
        "{found}"
    );
    assert!(
        found["message"].to_string().contains("timed out")
            || found["message"].to_string().contains("in time"),
        "{found}"
    );
}

#[test]
fn reports_driver_crash_and_error() {
    for (body, words) in [
        ("std::process::abort()", &["signal: 6", "libcuda.so.1 to start"][..]),
        // CUDA_ERROR_NO_DEVICE of cuda.h.
        ("100", &["there is no GPU to probe", "100"]),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        fake_cuda(directory.path(), body);
        let run = with_cuda(directory.path(), &COPY);
        let report = json(&run);
        assert_eq!(run.code, 1, "{body}: {report}");
        let failed = &results(&report)[0];
        assert_eq!((&failed["verdict"], &failed["required"]), (&"impossible".into(), &true.into()));
        for word in words {
            assert!(failed["reason"].to_string().contains(word), "{body}: {failed}");
        }
        let table = with_cuda(directory.path(), &["--library-timeout", "1", "probe", "copy"]);
        table.assert_stdout("COULD NOT RUN");
    }
}

#[test]
fn names_invalid_library() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("libcuda.so.1"), "no library").expect("a file");
    let run = with_cuda(directory.path(), &COPY);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let report = json(&run);
    assert!(results(&report)[0]["reason"].to_string().contains("libcuda.so.1"), "{report}");
}

#[test]
fn child_exits_with_parent() {
    let mut command = Gdr::new().args(["probe", "copy", "--sim", "--full"]).command();
    let mut parent =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let children = |of: &str| {
        let list = format!("/proc/{of}/task/{of}/children");
        let text = std::fs::read_to_string(list).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let begun = Instant::now();
    // The first child lists the GPUs and is gone soon; the second probes.
    std::thread::sleep(Duration::from_millis(1000));
    // The keepers, and the children that probe.
    let below = || {
        let keepers = children(&parent.id().to_string());
        keepers.iter().flat_map(|keeper| children(keeper)).collect()
    };
    let mut there: Vec<String> = below();
    while there.is_empty() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
        there = below();
    }
    let child = there.first().expect("a child").clone();
    parent.kill().expect("it runs");
    parent.wait().expect("a status");
    let gone = || !Path::new(&format!("/proc/{child}/fd/1")).exists();
    while !gone() && begun.elapsed() < Duration::from_secs(40) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone(), "{child} lives on");
}
