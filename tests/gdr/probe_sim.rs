//! `gdr probe X --sim` for every probe: it needs no device and no library, and every output says that it is simulated.

use std::fs;

use crate::support::{Gdr, Run};
use serde_json::Value;
use tempfile::TempDir;

const PROBES: [&str; 8] = ["copy", "host", "p2p", "rdma", "async", "mp", "mpi", "transfer"];

/// Libraries that cannot be opened: whoever opens one fails, also on a machine that has it.
struct Unusable(TempDir);

impl Unusable {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for library in ["libcuda.so.1", "libnvidia-ml.so.1", "libibverbs.so.1", "libmlx5.so.1"] {
            fs::write(directory.path().join(library), "no library").expect("a file");
        }
        Self(directory)
    }

    fn probe(&self, probe: &str, format: &str) -> Run {
        let size = if probe == "async" { "4096" } else { "8,65536" };
        Gdr::new()
            .env("LD_LIBRARY_PATH", self.0.path())
            .args(["probe", probe, "--sim", "--quick", "--size", size, "--format", format])
            .run()
    }
}

#[test]
fn probes_run_without_hardware() {
    let libraries = Unusable::new();
    for probe in PROBES {
        let run = libraries.probe(probe, "json");
        assert_eq!(run.code, 0, "{probe}: {} {}", run.stdout, run.stderr);
        let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(
            (&report["probe"], &report["simulated"], &report["complete"]),
            (&probe.into(), &true.into(), &true.into())
        );
        let results = report["results"].as_array().expect("results");
        for result in results {
            let backend = result["backend"].as_str().expect("a backend");
            assert!(backend.contains("sim"), "{probe}: {result}");
            assert!(
                !["wrong", "impossible"].contains(&result["verdict"].as_str().expect("a verdict")),
                "{result}"
            );
        }
        let has = |test: &dyn Fn(&Value) -> bool| results.iter().any(test);
        assert!(has(&|result| result["verified"].as_u64() > Some(0)), "{probe} compared nothing");
        assert!(has(&|result| result["median"].as_f64() > Some(0.0)), "{probe} measured nothing");
    }
}

/// The label belongs to the format, not to the probe: each format once, with another probe each time.
#[test]
#[ignore = "slow: six probes"]
fn every_format_is_labelled_simulated() {
    let libraries = Unusable::new();
    let formats = ["table", "curve", "svg"].into_iter().cycle();
    for (probe, format) in PROBES.into_iter().zip(formats) {
        let run = libraries.probe(probe, format);
        assert_eq!(run.code, 0, "{probe}: {} {}", run.stdout, run.stderr);
        assert!(
            run.stdout.contains("SIMULATED: no GPU took part"),
            "{probe} --format {format}: {}",
            run.stdout
        );
    }
}

#[test]
fn simulated_nic_runs_every_operation() {
    let libraries = Unusable::new();
    let run = libraries.probe("rdma", "json");
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let verified = |name: &str| {
        let of = |result: &&Value| result["name"] == name && result["verified"].as_u64() > Some(0);
        report["results"].as_array().expect("results").iter().filter(of).count()
    };
    for kind in ["write", "write-imm", "read", "send", "send-imm"] {
        // 1, 4 and 64 KiB.
        assert_eq!(verified(&format!("validate.rc.{kind}")), 3, "{kind}");
    }
    for kind in ["fetch-add", "compare-swap"] {
        assert_eq!(verified(&format!("validate.rc.{kind}")), 1, "{kind}");
    }
    for measured in ["rdma.write", "rdma.read", "rdma.send", "rdma.staged"] {
        assert_eq!(
            verified(&format!("{measured}.bandwidth")),
            if measured == "rdma.staged" { 1 } else { 2 }
        );
    }
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("The NIC is SIMULATED") && notes.contains("UC and UD are not verified"),
        "{notes}"
    );
    assert_eq!(report["ends"][0]["device"], "sim");
}

/// Data between two processes needs a real NIC: the report says why the library is missed.
#[test]
fn simulated_gpu_with_another_process_needs_a_nic() {
    let libraries = Unusable::new();
    let run = Gdr::new()
        .env("LD_LIBRARY_PATH", libraries.0.path())
        .args(["probe", "rdma", "--sim", "--quick", "--size", "8"])
        .args(["--listen", "127.0.0.1:0", "--no-secret"])
        .run();
    run.assert_code(1);
    run.assert_stdout("libibverbs.so.1 cannot be loaded");
    let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("--sim simulates the GPU and not the NIC"), "{text}");
    let help = Gdr::new().args(["probe", "rdma", "--help"]).run();
    let help = help.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("the GPU is simulated, and the NIC is real"), "{help}");
}

#[test]
fn rejects_real_nic_options() {
    for option in
        [["--memory-path", "staged"].as_slice(), &["--gid-index", "1"], &["--show-perftest"]]
    {
        let run = Gdr::new().args(["probe", "rdma", "--sim"]).args(option).run();
        assert_eq!(run.code, 2, "{} {}", run.stdout, run.stderr);
        run.assert_stderr("name one with --device");
    }
}
