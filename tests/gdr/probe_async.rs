//! `gdr probe async`: the binary itself, on simulated GPUs and the software HCA, and without a GPU.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Gdr, Run};
use fakes::{Driver, cuda, uverbs, verbs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// With a simulated NIC, which moves bytes within a process.
fn with_nic(more: &[&str]) -> Run {
    let library = verbs::build().expect("the simulated libibverbs");
    let environment = verbs::environment(&library, &verbs::machine("two"));
    let gdr = Gdr::new().args(SIM).args(["--hca", "proxy"]).args(more);
    let run = environment.into_iter().fold(gdr, |gdr, (name, value)| gdr.env(name, value)).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

const SIM: [&str; 4] = ["probe", "async", "--sim", "--quick"];

/// Messages that a stream sends with `--quick`: a tenth in debug builds.
pub const MESSAGES: u64 = if cfg!(debug_assertions) { 200 } else { 2000 };

fn probe(more: &[&str]) -> Run {
    let run = Gdr::new().args(SIM).args(more).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn report(more: &[&str]) -> Value {
    let run = probe(&[more, &["--format", "json"]].concat());
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).expect("JSON")
}

fn names(report: &Value) -> Vec<String> {
    let results = report["results"].as_array().expect("results");
    let name = |result: &Value| result["name"].as_str().expect("a name").to_owned();
    results.iter().map(name).collect()
}

#[test]
fn probes_every_wait_mode() {
    let report = report(&[]);
    assert_eq!((&report["probe"], &report["simulated"]), (&"async".into(), &true.into()));
    let mut expected = Vec::new();
    for home in ["host", "gpu"] {
        for way in ["geq", "eq", "and", "nor"] {
            expected.push(format!("validate.stream.{way}.{home}"));
        }
    }
    expected.extend(["async.poll.host.latency", "async.poll.gpu.latency"].map(str::to_owned));
    assert_eq!(names(&report)[..expected.len()], expected);
    for result in &report["results"].as_array().expect("results")[..expected.len()] {
        assert_eq!(result["backend"], "cuda-sim", "{result}");
        assert_eq!(result["verdict"], "ok", "{result}");
    }
}

#[test]
fn reports_omitted_doorbells() {
    let library = cuda::build(Driver::Current).expect("the simulated libcuda");
    let gdr = cuda::environment(&library, &cuda::machine("two"))
        .into_iter()
        .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
    let run = gdr.args(["probe", "async", "--quick", "--gpu", "0", "--format", "json"]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(report["simulated"], false);
    assert!(report["notes"].to_string().contains("--hca sim"), "{}", report["notes"]);
    let names = names(&report);
    assert!(
        !names.iter().any(|name| name.contains("doorbell") || name.contains("loopback")),
        "{names:?}"
    );
}

#[test]
fn software_hca_is_labelled() {
    let report = report(&["--size", "4096"]);
    let results = report["results"].as_array().expect("results");
    let of = |name: &str| {
        let found: Vec<&Value> = results.iter().filter(|result| result["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]
    };
    for name in
        ["async.doorbell.latency", "async.loopback.stream.latency", "async.loopback.cpu.latency"]
    {
        let result = of(name);
        assert_eq!(result["backend"], "cuda-sim+sim-hca", "{result}");
        let histogram = result["histogram"].as_array().expect("a histogram");
        let counted: u64 =
            histogram.iter().map(|bucket| bucket["samples"].as_u64().expect("a count")).sum();
        assert_eq!(Some(counted), result["samples"].as_u64(), "{result}");
        for bucket in histogram {
            assert!(bucket["from"].as_f64() < bucket["to"].as_f64(), "{bucket}");
        }
    }
    // Every message was compared.
    let stream = of("async.loopback.stream.latency");
    assert_eq!((&stream["bytes"], &stream["verified"]), (&4096.into(), &(MESSAGES * 4096).into()));
    assert!(report["notes"].to_string().contains("The HCA is SIMULATED"), "{}", report["notes"]);

    let svg = probe(&["--format", "svg"]).stdout;
    for words in ["SIMULATED: no GPU took part", "The HCA is SIMULATED"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
}

#[test]
fn table_and_curve_have_latencies() {
    let table = probe(&["--hca", "sim"]).stdout;
    for words in [
        "a stream reads a word in host memory, and answers",
        "a stream reads a word in GPU memory, and answers",
        "the same, rings, and the HCA writes",
        "a message over the loop, by the stream (1 KiB)",
        "a message over the loop, by the CPU (1 KiB)",
        "a message driven by the stream takes",
        "all bytes are correct",
        "SIMULATED: no GPU took part",
        "HCA is SIMULATED",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let curve = probe(&["--format", "curve"]).stdout;
    assert!(curve.contains("a stream reads a word") && curve.contains(" us"), "{curve}");
    assert!(!curve.contains("GB/s"), "{curve}");
}

#[test]
fn runs_every_setting() {
    let options = [
        "--batch",
        "7",
        "--compute",
        "1000",
        "--no-kernel",
        "--receive",
        "out-of-order",
        "--transport",
        "rc,ud",
        "--schedule",
        "blocking",
        "--size",
        "1024,8192",
        "--hca",
        "sim",
    ];
    let report = report(&options);
    let messages: Vec<(String, u64, u64)> = report["results"]
        .as_array()
        .expect("results")
        .iter()
        .filter(|result| result["bytes"].as_u64() >= Some(1024))
        .map(|result| {
            let number = |field: &str| result[field].as_u64().expect(field);
            let name = result["name"].as_str().expect("a name").to_owned();
            assert_eq!(result["verdict"], "ok", "{result}");
            (name, number("bytes"), number("verified"))
        })
        .collect();
    // Each message was compared. The CPU sends a quarter.
    let mut expected = Vec::new();
    for part in ["async.loopback", "async.pingpong"] {
        for (transport, bytes) in [("", 1024), ("", 8192), (".ud", 1024)] {
            for (driver, messages) in [("stream", MESSAGES), ("cpu", MESSAGES / 4)] {
                let name = format!("{part}{transport}.out-of-order.{driver}.latency");
                expected.push((name, bytes, bytes * messages));
            }
        }
    }
    assert_eq!(messages, expected);
    let notes = report["notes"].to_string();
    for words in [
        "batches of 7 messages",
        "no kernels write and compare",
        // Whole words of 16 bytes.
        "writes 1008 bytes",
        "threads sleep",
        "last message of a batch first",
        "no datagram has 8192 bytes",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
#[ignore = "slow: many probes"]
fn table_names_kinds_of_messages() {
    let table = probe(&["--transport", "ud,rc", "--receive", "out-of-order"]).stdout;
    for words in [
        "datagram, last first)",
        "a message driven by the stream (1 KiB, datagram, last first) takes",
        "a message driven by the stream (1 KiB, last first) takes",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let curve = probe(&["--transport", "ud,rc", "--format", "curve"]).stdout;
    for words in ["messages, 1 KiB, datagram", "messages, 1 KiB\n"] {
        assert!(curve.contains(words), "{words}: {curve}");
    }
}

#[test]
fn rejects_impossible_settings() {
    for (option, value, words) in [
        ("--batch", "0", "1..=100"),
        ("--batch", "101", "1..=100"),
        ("--compute", "0", "the size must not be 0"),
        ("--transport", "uc", "uc"),
        ("--schedule", "never", "blocking"),
        ("--receive", "random", "out-of-order"),
    ] {
        let run = probe(&[option, value]);
        assert_eq!(run.code, 2, "{option}: {}", run.stdout);
        run.assert_stderr(words);
    }
}

#[test]
fn schedule_reaches_cuda() {
    let directory = tempfile::tempdir().expect("a directory");
    let machine = directory.path().join("machine.json");
    let denies = json!({
        "gpu": {"name": "NVIDIA H100", "memory": 1 << 30},
        "gpus": [{"errors": {"cuDevicePrimaryCtxSetFlags_v2": 1}}],
    });
    std::fs::write(&machine, denies.to_string()).expect("a file");
    let library = cuda::build(Driver::Current).expect("the simulated libcuda");
    for (schedule, fails) in [("auto", false), ("spin", true)] {
        let run = cuda::environment(&library, &machine)
            .into_iter()
            .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value))
            .args(["probe", "async", "--quick", "--schedule", schedule])
            .args(["--format", "json"])
            .run();
        let words = "cannot set how threads wait for GPU 0";
        assert_eq!(run.stdout.contains(words), fails, "{}", run.stdout);
    }
}

#[test]
fn fails_without_gpu() {
    let run = Gdr::new().args(["probe", "async", "--quick", "--format", "json"]).run();
    assert_eq!(run.code, 1, "{} {}", run.stdout, run.stderr);
    run.assert_stdout("--sim needs no GPU");
}

#[test]
fn interrupt_prints_partial_results() {
    let mut child = Gdr::new()
        .args(["probe", "async", "--sim", "--full", "--hca", "sim", "--format", "json"])
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_millis(1500));
    let begun = Instant::now();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it runs");
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    let status = child.wait().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(status.signal(), Some(2), "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["complete"], false);
    assert!(report["notes"].to_string().contains("Interrupted"), "{}", report["notes"]);
}

#[test]
fn proxy_drives_any_nic() {
    let run = with_nic(&["--device", "mlx5_1:1", "--transport", "rc,ud", "--format", "json"]);
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let results = report["results"].as_array().expect("results");
    for name in [
        "async.doorbell.latency",
        "async.loopback.stream.latency",
        "async.loopback.cpu.latency",
        "async.loopback.ud.stream.latency",
        "async.loopback.ud.cpu.latency",
    ] {
        let found = results.iter().find(|result| result["name"] == name).expect(name);
        assert_eq!(
            (&found["backend"], &found["verdict"]),
            (&"cuda-sim+proxy".into(), &"ok".into()),
            "{found}"
        );
    }
    let notes = report["notes"].to_string();
    assert!(notes.contains("posts the WQEs to mlx5_1:1"), "{notes}");
    // A simulated GPU's memory is not a NIC's to reach.
    assert!(notes.contains("messages lie in pinned host memory"), "{notes}");
}

#[test]
fn reports_missing_nic_or_library() {
    let run = with_nic(&["--device", "mlx5_9", "--format", "json"]);
    assert_eq!(run.code, 1, "{} {}", run.stdout, run.stderr);
    run.assert_stdout("libibverbs has no device 'mlx5_9'");
    // One that is broken is not one that is absent, which a guest of the VM tests tries.
    let empty = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(empty.path().join("libibverbs.so.1"), "no library").expect("a file");
    let run = Gdr::new()
        .env("LD_LIBRARY_PATH", empty.path())
        .args(SIM)
        .args(["--hca", "proxy", "--format", "json"])
        .run();
    assert_eq!(run.code, 1, "{} {}", run.stdout, run.stderr);
    run.assert_stdout("libibverbs.so.1 cannot be loaded: ");
    let run = probe(&["--device", "mlx5_0"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    run.assert_stderr("--hca proxy");
}

/// With rdma-core's own libmlx5, over a NIC in software.
fn with_mlx5(faults: &[(&str, &str)], more: &[&str]) -> (Run, Value) {
    let sysfs = tempfile::tempdir().expect("a directory");
    let nic = uverbs::nic(sysfs.path()).expect("a NIC");
    let gdr = Gdr::new().args(SIM).args(["--hca", "mlx5", "--format", "json"]).args(more);
    let gdr = nic.into_iter().fold(gdr, |gdr, (name, value)| gdr.env(name, value));
    let gdr = faults.iter().fold(gdr, |gdr, (name, value)| gdr.env(name, value));
    let run = gdr.run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    let report =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    (run, report)
}

fn named<'r>(report: &'r Value, name: &str) -> &'r Value {
    let results = report["results"].as_array().expect("results");
    let found = results.iter().find(|result| result["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

#[test]
#[ignore = "needs libmlx5"]
fn stream_drives_nic() {
    let peers = tempfile::tempdir().expect("a directory");
    let peers = peers.path().to_str().expect("a path");
    let (run, report) = with_mlx5(&[("FAKE_UVERBS_PEERS", peers)], &["--transport", "rc,ud"]);
    assert_eq!(run.code, 0, "{report:#} {}", run.stderr);
    for name in [
        "async.register",
        "async.doorbell.latency",
        "async.loopback.stream.latency",
        "async.loopback.cpu.latency",
        "async.loopback.ud.stream.latency",
        "async.loopback.ud.cpu.latency",
        "async.pingpong.stream.latency",
        "async.pingpong.cpu.latency",
        "async.pingpong.ud.stream.latency",
        "async.pingpong.ud.cpu.latency",
    ] {
        let found = named(&report, name);
        assert_eq!(
            (&found["backend"], &found["verdict"]),
            (&"cuda-sim+mlx5".into(), &"ok".into()),
            "{found}"
        );
    }
    let notes = report["notes"].to_string();
    assert!(notes.contains("The HCA is mlx5_0:1 itself"), "{notes}");
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_lost_and_rejected_work() {
    // Of the first queue pair that rings, the doorbells' one, a completion that never comes; then one with the NIC's own syndrome.
    for (fault, words) in [
        (("FAKE_UVERBS_DROP", "1:10"), "completion"),
        (("FAKE_UVERBS_FAIL", "1:5:0x13:0x88"), "0x88"),
    ] {
        let (run, report) = with_mlx5(&[fault], &[]);
        assert_eq!(run.code, 1, "{report:#}");
        let results = report["results"].as_array().expect("results");
        // Another process is not reached by a NIC in software, which is not required.
        let failed = results
            .iter()
            .filter(|result| result["verdict"] == "impossible" && result["required"] == true);
        let failed: Vec<String> = failed.map(ToString::to_string).collect();
        assert!(failed.len() == 1 && failed[0].contains(words), "{fault:?}: {failed:#?}");
        assert_eq!(named(&report, "async.poll.host.latency")["verdict"], "ok");
    }
}

/// Kernels drive the NIC, without a doorbell record where its firmware can; elsewhere the report says why not, and nothing has failed.
#[test]
#[ignore = "needs libmlx5"]
fn kernels_without_a_doorbell_record() {
    let devx = ("FAKE_UVERBS_DEVX", "1");
    let recordless = ("FAKE_UVERBS_RECORDLESS", "1");
    for (kernel, verdict, reason) in [
        (&[devx, recordless][..], "ok", ""),
        (&[devx], "not_measured", "send_dbr_mode_no_dbr_ext"),
        (&[], "not_measured", "need DEVX commands"),
    ] {
        let (run, report) = with_mlx5(kernel, &["--kernel"]);
        assert_eq!(run.code, 0, "{report:#} {}", run.stderr);
        for figure in ["latency", "rate"] {
            let found = named(&report, &format!("async.kernel.recordless.{figure}"));
            let why = found["reason"].as_str().unwrap_or_default();
            assert!(found["verdict"] == verdict && why.contains(reason), "{found:#}");
            assert_eq!(found["verified"] == 0, verdict != "ok", "{found:#}");
            let plain = named(&report, &format!("async.kernel.thread.{figure}"));
            assert_eq!(plain["verdict"], "ok", "{plain:#}");
        }
    }
}
