//! `gdr probe host` and `gdr probe p2p`: the binary itself, on simulated GPUs and against a simulated libcuda.so.1 whose
//! functions fail, whose copies lose their words, and whose GPUs are not to be had.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

use crate::support::{Gdr, Machine, Run, merge};
use fakes::{Driver, cuda};
use serde_json::{Value, json};

/// A run against a simulated CUDA of these GPUs, and how often each function was called.
struct Ran {
    run: Run,
    calls: BTreeMap<String, usize>,
}

impl Ran {
    fn report(&self) -> Value {
        let Run { stdout, stderr, .. } = &self.run;
        serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}"))
    }

    fn calls(&self, function: &str) -> usize {
        self.calls.get(function).copied().unwrap_or(0)
    }

    /// Every call has the call that undoes it.
    fn assert_nothing_is_left(&self) {
        for (taken, given) in [
            ("cuMemAlloc_v2", "cuMemFree_v2"),
            ("cuMemHostAlloc", "cuMemFreeHost"),
            ("cuMemHostRegister_v2", "cuMemHostUnregister"),
            ("cuStreamCreate", "cuStreamDestroy_v2"),
            ("cuEventCreate", "cuEventDestroy_v2"),
            ("cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess"),
            ("cuModuleLoadData", "cuModuleUnload"),
            ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
        ] {
            assert_eq!(self.calls(taken), self.calls(given), "{taken} and {given}");
        }
    }
}

/// Two H200, with a merge patch.
fn two(patch: &Value) -> Value {
    let text = fs::read_to_string(cuda::machine("two")).expect("a machine");
    let mut machine: Value = serde_json::from_str(&text).expect("JSON");
    merge(&mut machine, patch);
    machine
}

fn three(patch: &Value) -> Value {
    let mut gpus = json!({"gpus": [{"bdf": "0000:03:00.0"}, {"bdf": "0000:05:00.0"}, {"bdf": "0000:07:00.0"}]});
    merge(&mut gpus, patch);
    two(&gpus)
}

fn probe(machine: &Value, args: &[&str], environment: &[(&str, &str)]) -> Ran {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, log) = (directory.path().join("cuda.json"), directory.path().join("log"));
    let mut machine = machine.clone();
    machine["log"] = json!(log);
    fs::write(&file, machine.to_string()).expect("a file");
    let library = cuda::build(Driver::Current).expect("the simulated library");
    let gdr = cuda::environment(&library, &file)
        .into_iter()
        .fold(Gdr::new(), |gdr, (name, value): (_, OsString)| gdr.env(name, value));
    let gdr = environment.iter().fold(gdr, |gdr, (name, value)| gdr.env(name, *value));
    let run = gdr.args(["probe"]).args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap_or_default().lines() {
        *calls.entry(line.to_owned()).or_default() += 1;
    }
    Ran { run, calls }
}

const HOST: [&str; 7] = ["host", "--quick", "--size", "4,64KiB", "--format", "json", "--numa=near"];
const P2P: [&str; 6] = ["p2p", "--quick", "--size", "4KiB,64KiB", "--format", "json"];

fn results(report: &Value) -> &Vec<Value> {
    report["results"].as_array().expect("results")
}

fn of<'r>(report: &'r Value, subject: &str, name: &str) -> Vec<&'r Value> {
    let matches = |result: &&Value| {
        result["name"] == name
            && result["subject"].as_str().is_some_and(|found| found.starts_with(subject))
    };
    results(report).iter().filter(matches).collect()
}

fn verdict(report: &Value, subject: &str, name: &str) -> String {
    let found = of(report, subject, name);
    let result = found.first().unwrap_or_else(|| panic!("{subject} {name} is not in {report:#}"));
    result["verdict"].as_str().expect("a verdict").to_owned()
}

fn reason(report: &Value, subject: &str, name: &str) -> String {
    let found = of(report, subject, name);
    let result = found.first().unwrap_or_else(|| panic!("{subject} {name} is not in {report:#}"));
    result["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn host_probe_results() {
    let ran = probe(&two(&json!({})), &HOST, &[]);
    assert_eq!(ran.run.code, 0, "{}{}", ran.run.stdout, ran.run.stderr);
    let report = ran.report();
    assert_eq!((&report["schema"], &report["probe"]), (&json!("gdr.probe/1"), &json!("host")));
    assert_eq!((&report["simulated"], &report["complete"]), (&json!(false), &json!(true)));
    for gpu in ["GPU0", "GPU1"] {
        for sort in ["pageable", "pinned", "registered", "write-combined"] {
            for direction in ["h2d", "d2h"] {
                let verified: Vec<u64> = of(&report, gpu, &format!("validate.{sort}.{direction}"))
                    .iter()
                    .filter_map(|result| result["verified"].as_u64())
                    .collect();
                // Three rounds of 4 KiB, the one size to verify that the memory holds.
                assert_eq!(verified, [3 * 4096], "{sort} {direction}");
                let name = format!("host.{sort}.{direction}.latency");
                let sizes: Vec<u64> =
                    of(&report, gpu, &name).iter().filter_map(|r| r["bytes"].as_u64()).collect();
                assert_eq!(sizes, [4, 65536], "{name}");
                assert_eq!(
                    verdict(&report, gpu, &format!("host.{sort}.{direction}.bandwidth")),
                    "ok"
                );
            }
        }
        for name in [
            "host.unified-addressing",
            "host.pageable.async",
            "host.kernel.load.bandwidth",
            "host.kernel.store.bandwidth",
            "host.kernel.load.latency",
            "host.extra-copy.h2d.bandwidth",
            "host.staged.d2h.overlapped.bandwidth",
            "host.staged.h2d.serial.bandwidth",
            "host.staged.d2h.best-chunk",
        ] {
            assert_eq!(verdict(&report, gpu, name), "ok", "{name}");
        }
    }
    assert!(ran.calls("cuMemHostRegister_v2") > 0 && ran.calls("cuLaunchKernel") > 0);
    ran.assert_nothing_is_left();
}

#[test]
fn p2p_probe_results() {
    let ran = probe(&three(&json!({})), &P2P, &[]);
    assert_eq!(ran.run.code, 0, "{}{}", ran.run.stdout, ran.run.stderr);
    let report = ran.report();
    let pairs = report["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 6, "each ordered pair of three");
    for pair in pairs {
        assert_eq!((&pair["can_access"], &pair["atomics"]), (&json!(true), &json!(true)), "{pair}");
        let subject = pair["subject"].as_str().expect("a subject");
        for name in [
            "p2p.access",
            "validate.staged",
            "validate.copy.write",
            "validate.copy.read",
            "validate.kernel.store",
            "validate.kernel.load",
            "p2p.staged.bandwidth",
            "p2p.copy.write.latency",
            "p2p.copy.write.bandwidth",
            "p2p.copy.read.bandwidth",
            "p2p.copy.both.bandwidth",
            "p2p.copy.round-trip.bandwidth",
            "p2p.kernel.store.bandwidth",
            "p2p.kernel.load.bandwidth",
            "p2p.kernel.load.latency",
            "p2p.kernel.round-trip.latency",
        ] {
            assert_eq!(verdict(&report, subject, name), "ok", "{subject} {name}");
        }
        // GB/s of one way, and microseconds of both ways.
        let [latency, bandwidth] = ["latency", "bandwidth"].map(|figure| {
            of(&report, subject, &format!("p2p.copy.round-trip.{figure}"))[0].clone()
        });
        let median = |result: &Value| result["median"].as_f64().expect("a median");
        let bytes = bandwidth["bytes"].as_f64().expect("bytes");
        let from_latency = bytes / 1e3 / (median(&latency) / 2.0);
        let ratio = median(&bandwidth) / from_latency;
        assert!((0.6..1.6).contains(&ratio), "{bandwidth} {latency}");
    }
    for gpu in ["GPU0", "GPU1", "GPU2"] {
        for name in ["p2p.local.bandwidth", "p2p.one-to-all.bandwidth", "p2p.all-to-one.bandwidth"]
        {
            assert_eq!(verdict(&report, gpu, name), "ok", "{name}");
        }
    }
    assert_eq!(verdict(&report, "all GPUs", "p2p.all-pairs.bandwidth"), "ok");
    assert!(ran.calls("cuCtxEnablePeerAccess") > 0 && ran.calls("cuMemcpyPeerAsync") > 0);
    ran.assert_nothing_is_left();
}

#[test]
fn detects_copies_without_effect() {
    for (copies, found) in [("zero", Some("0x00000000 found")), ("drop", None)] {
        let machine = two(&json!({"pairs": [{"from": 1, "to": 0, "copies": copies}]}));
        let ran = probe(&machine, &P2P, &[]);
        assert_eq!(ran.run.code, 1, "{}", ran.run.stdout);
        let report = ran.report();
        for (subject, name) in [
            ("GPU1 -> GPU0", "validate.copy.write"),
            ("GPU1 -> GPU0", "validate.staged"),
            // What the other reads from there goes the same way.
            ("GPU0 -> GPU1", "validate.copy.read"),
        ] {
            assert_eq!(verdict(&report, subject, name), "wrong", "{copies} {subject} {name}");
            let words = reason(&report, subject, name);
            assert!(words.contains("round 1: at offset 0x0 "), "{words}");
            assert!(words.contains("pcie.iommu,pcie.acs"), "{words}");
            assert!(found.is_none_or(|found| words.contains(found)), "{words}");
        }
        assert_eq!(verdict(&report, "GPU0 -> GPU1", "validate.copy.write"), "ok");
        assert_eq!(verdict(&report, "GPU1 -> GPU0", "validate.kernel.store"), "ok");
    }
}

#[test]
fn reports_pair_without_access() {
    let pairs = json!([{"from": 0, "to": 1, "can_access": false}, {"from": 1, "to": 0, "can_access": false}]);
    let ran = probe(&three(&json!({"pairs": pairs})), &P2P, &[]);
    assert_eq!(ran.run.code, 1, "{}", ran.run.stdout);
    let report = ran.report();
    assert_eq!(verdict(&report, "GPU0 -> GPU1", "p2p.access"), "impossible");
    let words = reason(&report, "GPU0 -> GPU1", "p2p.access");
    assert!(
        words.contains("cuDeviceCanAccessPeer") && words.contains("gdr doctor --profile p2p"),
        "{words}"
    );
    assert!(of(&report, "GPU0 -> GPU1", "p2p.copy.write.bandwidth").is_empty());
    assert_eq!(
        verdict(&report, "GPU0 -> GPU1", "p2p.staged.bandwidth"),
        "ok",
        "through the host it goes"
    );
    for subject in ["GPU0 -> GPU2", "GPU2 -> GPU1"] {
        assert_eq!(verdict(&report, subject, "p2p.copy.write.bandwidth"), "ok");
    }
    ran.assert_nothing_is_left();
}

#[test]
fn reports_unavailable_gpu() {
    // Exclusive mode and held by another (46), prohibited (101).
    for code in [46, 101] {
        let machine = three(&json!({"gpus": [
            {"bdf": "0000:03:00.0"},
            {"bdf": "0000:05:00.0", "errors": {"cuDevicePrimaryCtxRetain": code}},
            {"bdf": "0000:07:00.0"},
        ]}));
        let ran = probe(&machine, &P2P, &[]);
        assert_eq!(ran.run.code, 1, "{}", ran.run.stdout);
        let report = ran.report();
        assert_eq!(verdict(&report, "GPU1", "gpu"), "impossible");
        let words = reason(&report, "GPU1", "gpu");
        assert!(words.contains("compute_mode") && words.contains(&code.to_string()), "{words}");
        assert_eq!(verdict(&report, "GPU1 -> GPU2", "p2p.access"), "impossible");
        assert_eq!(verdict(&report, "GPU2 -> GPU0", "p2p.copy.write.bandwidth"), "ok");
        let host = probe(&machine, &HOST, &[]);
        assert_eq!(host.run.code, 1);
        let report = host.report();
        assert_eq!(verdict(&report, "GPU1", "host"), "impossible");
        assert_eq!(verdict(&report, "GPU2", "host.pinned.h2d.bandwidth"), "ok");
    }
}

#[test]
fn reports_exhausted_memory() {
    let full = three(&json!({"gpus": [
        {"bdf": "0000:03:00.0", "errors": {"cuMemAlloc_v2": 2}}, {"bdf": "0000:05:00.0"}, {"bdf": "0000:07:00.0"},
    ]}));
    let ran = probe(&full, &P2P, &[]);
    assert_eq!(ran.run.code, 1, "{}", ran.run.stdout);
    let report = ran.report();
    let words = reason(&report, "GPU0", "p2p.local.bandwidth");
    assert!(words.contains("OUT_OF_MEMORY"), "{words}");
    assert_eq!(verdict(&report, "GPU1 -> GPU2", "p2p.copy.write.bandwidth"), "ok");
    let ran = probe(&two(&json!({"errors": {"cuMemHostRegister_v2": 2}})), &HOST, &[]);
    assert_eq!(ran.run.code, 1);
    let report = ran.report();
    assert!(reason(&report, "GPU0", "host.registered").contains("OUT_OF_MEMORY"));
    assert_eq!(verdict(&report, "GPU0", "host.pinned.h2d.bandwidth"), "ok");
}

/// An Xid: the contexts of the process are lost. A second process goes on with the other pairs.
#[test]
fn xid_ends_one_pair() {
    let fails = json!({"cuMemcpyPeerAsync": {"calls": 5, "code": 719, "sticky": true}});
    let machine = three(&json!({"gpus": [
        {"bdf": "0000:03:00.0"}, {"bdf": "0000:05:00.0"}, {"bdf": "0000:07:00.0", "errors_after": fails},
    ]}));
    let ran = probe(&machine, &P2P, &[]);
    assert_eq!(ran.run.code, 1, "{}", ran.run.stdout);
    let report = ran.report();
    for subject in ["GPU0 -> GPU1", "GPU1 -> GPU0"] {
        assert_eq!(verdict(&report, subject, "p2p.copy.write.bandwidth"), "ok", "{subject}");
    }
    let lost: Vec<&Value> = results(&report)
        .iter()
        .filter(|result| result["reason"].as_str().is_some_and(|reason| reason.contains("Xid")))
        .collect();
    assert!(!lost.is_empty(), "{}", ran.run.stdout);
    for result in lost {
        let subject = result["subject"].as_str().expect("a subject");
        assert!(!["GPU0 -> GPU1", "GPU1 -> GPU0"].contains(&subject), "{result}");
        assert_eq!((&result["verdict"], &result["required"]), (&json!("impossible"), &json!(true)));
        assert!(result["reason"].as_str().is_some_and(|reason| reason.contains("719")), "{result}");
    }
}

#[test]
fn probes_visible_gpus() {
    let visible = [("CUDA_VISIBLE_DEVICES", "2,0")];
    let ran = probe(&three(&json!({})), &P2P, &visible);
    assert_eq!(ran.run.code, 0, "{}", ran.run.stdout);
    let report = ran.report();
    let gpus: Vec<&str> = report["gpus"]
        .as_array()
        .expect("GPUs")
        .iter()
        .filter_map(|gpu| gpu["bdf"].as_str())
        .collect();
    assert_eq!(gpus, ["0000:07:00.0", "0000:03:00.0"]);
    let one = probe(&three(&json!({})), &P2P, &[("CUDA_VISIBLE_DEVICES", "1")]);
    assert_eq!(one.run.code, 1);
    assert!(reason(&one.report(), "machine", "p2p").contains("needs two GPUs"));
    let none = probe(&three(&json!({})), &HOST, &[("CUDA_VISIBLE_DEVICES", "")]);
    assert_eq!(none.run.code, 1);
    assert!(none.run.stdout.contains("no GPU"), "{}", none.run.stdout);
}

#[test]
fn mig_instances_have_no_peer_access() {
    let machine = two(&json!({
        "gpu": {"name": "NVIDIA H200 MIG 3g.71gb"},
        "gpus": [{"bdf": "0000:03:00.0"}, {"bdf": "0000:03:00.0"}],
        "pair": {"can_access": false},
    }));
    let ran = probe(&machine, &P2P, &[]);
    assert_eq!(ran.run.code, 1, "{}", ran.run.stdout);
    assert!(ran.run.stdout.contains("MIG instances of one GPU"), "{}", ran.run.stdout);
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn hanging_pair_is_skipped() {
    let machine = two(&json!({"gpus": [
        {"bdf": "0000:03:00.0"},
        {"bdf": "0000:05:00.0", "hang_in": "cuMemcpyPeerAsync"},
    ]}));
    let ran = probe(&machine, &[&P2P[..], &["--library-timeout", "2"]].concat(), &[]);
    assert_eq!(ran.run.code, 3, "{}", ran.run.stdout);
    let report = ran.report();
    assert_eq!(report["complete"], json!(false));
    assert!(report["notes"].to_string().contains("gave up after waiting"), "{}", report["notes"]);
    assert_eq!(verdict(&report, "GPU0 -> GPU1", "p2p.copy.write.bandwidth"), "ok");
}

#[test]
fn recorded_machine_has_expectations() {
    let root = Machine::load("sound").laid_out();
    for probe in ["host", "p2p"] {
        let run = Gdr::new().sysroot(root.path()).args(["probe", probe, "--format", "json"]).run();
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
        assert!(report["notes"].to_string().contains("Nothing was measured"), "{report}");
        for result in results(&report) {
            assert!(result["median"].is_null(), "{result}");
        }
        let run = Gdr::new().sysroot(root.path()).args(["probe", probe, "--sim"]).run();
        assert_eq!(run.code, 2, "{}", run.stdout);
    }
}
