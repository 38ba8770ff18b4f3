//! CUDA through the built binary, against simulated libraries: two GPUs, an old driver, one that refuses, one that hangs,
//! and none. What the child answers is laid beside a recorded machine, and doctor judges it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Gdr, Machine};
use fakes::{Driver, cuda};
use serde_json::{Value, json};

/// A simulated CUDA, and the file it answers from.
struct Fake {
    directory: tempfile::TempDir,
    library: PathBuf,
}

impl Fake {
    fn new(driver: Driver) -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            library: cuda::build(driver).expect("the simulated library"),
        }
    }

    /// gdr with this CUDA and this machine.
    fn gdr(&self, machine: &Value) -> Gdr {
        let file = self.directory.path().join("cuda.json");
        fs::write(&file, machine.to_string()).expect("a file");
        cuda::environment(&self.library, &file)
            .into_iter()
            .fold(Gdr::new(), |gdr, (name, value): (_, OsString)| gdr.env(name, value))
    }

    /// What the child that reads CUDA answers.
    fn answer(&self, machine: &Value) -> Value {
        child(self.gdr(machine), "__read-cuda")
    }
}

/// What a child of this name answers.
fn child(gdr: Gdr, name: &str) -> Value {
    let run = gdr.args([name, "false"]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// A machine of the simulation.
fn machine(name: &str) -> Value {
    let text = fs::read_to_string(cuda::machine(name)).expect("a machine");
    serde_json::from_str(&text).expect("JSON")
}

/// A machine whose cuInit answers this.
fn refusing(code: u32) -> Value {
    json!({"driver_version": 13_000, "gpus": [{"bdf": "0000:03:00.0"}], "errors": {"cuInit": code}})
}

/// The finding of a check on the sound machine, where CUDA answered this.
fn judged(answer: &Value, check: &str) -> Value {
    let root = Machine::load("sound").laid_out();
    fs::write(root.path().join("gdr/cuda.json"), answer.to_string()).expect("a file");
    let run = Gdr::new().sysroot(root.path()).args(["doctor", "--format", "json"]).run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["id"] == check);
    found.cloned().unwrap_or_else(|| panic!("no {check}"))
}

#[test]
fn reports_two_gpus_and_links() {
    let fake = Fake::new(Driver::Current);
    let mut two = machine("two");
    two["gpus"][1]["attributes"] = json!({"124": 0});
    two["pairs"] = json!([{"from": 1, "to": 0, "can_access": false}]);
    let answer = fake.answer(&two);
    let cuda = &answer["read"];
    assert_eq!(cuda["driver_version"], json!({"known": 13_000}));
    assert!(cuda["library"].as_str().is_some_and(|path| path.ends_with("libcuda.so.1")));
    // By cuda.h's numbers: 75 and 76, 116, 117, 118, 122, 124, 128.
    let first = &cuda["gpus"][0];
    assert_eq!((&first["ordinal"], &first["bdf"]), (&json!(0), &json!("0000:03:00.0")));
    for (name, value) in [
        ("compute", json!({"major": 9, "minor": 0})),
        ("integrated", json!(false)),
        ("rdma", json!(true)),
        ("rdma_flush", json!(1)),
        ("rdma_ordering", json!(200)),
        ("dma_buf", json!(true)),
        ("fabric_handles", json!(true)),
        ("memory_node", json!(null)),
    ] {
        assert_eq!(first[name], json!({"known": value}), "{name}");
    }
    assert_eq!(first["stream_memops"]["v1"], json!({"known": false}));
    assert_eq!(first["stream_memops"]["v2_64_bit"], json!({"known": true}));
    assert_eq!(cuda["gpus"][1]["dma_buf"], json!({"known": false}));
    let ways: Vec<_> = cuda["pairs"].as_array().expect("pairs").iter().collect();
    assert_eq!(ways.len(), 2);
    assert_eq!(
        (&ways[0]["can_access"], &ways[0]["access"]),
        (&json!({"known": true}), &json!({"known": true}))
    );
    assert_eq!((&ways[1]["from"], &ways[1]["can_access"]), (&json!(1), &json!({"known": false})));
}

#[test]
fn passive_doctor_creates_no_context() {
    let fake = Fake::new(Driver::Current);
    let log = fake.directory.path().join("log");
    let mut two = machine("two");
    two["log"] = json!(log);
    let record = fake.directory.path().join("snapshot.json");
    for arguments in [
        vec![OsString::from("doctor")],
        vec!["snapshot".into(), "-o".into(), record.clone().into()],
    ] {
        let _ = fs::remove_file(&log);
        let run = fake.gdr(&two).env("CUDA_VISIBLE_DEVICES", "").args(&arguments).run();
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        let calls = fs::read_to_string(&log).expect("calls");
        let inits = calls.lines().filter(|call| *call == "cuInit").count();
        assert_eq!(inits, 1, "CUDA is asked once: {calls}");
        for call in calls.lines() {
            assert!(
                !call.contains("Ctx") && !call.contains("cuMem"),
                "{call} makes or wants a context"
            );
        }
    }
    let held: Value =
        serde_json::from_slice(&fs::read(&record).expect("the snapshot")).expect("JSON");
    let gpus = &held["libraries"]["cuda"]["answered"]["read"]["gpus"];
    assert_eq!(gpus.as_array().map(Vec::len), Some(2), "{held:#}");
}

#[test]
fn old_driver_answers_partly() {
    let fake = Fake::new(Driver::Old);
    let answer = fake.answer(&machine("old"));
    let gpu = &answer["read"]["gpus"][0];
    assert_eq!(gpu["name"], json!({"known": "Tesla P100-PCIE-16GB"}));
    assert_eq!(gpu["flush_remote_writes"], json!({"known": true}), "attribute 98");
    for name in ["rdma", "rdma_flush", "rdma_ordering", "dma_buf", "fabric_handles"] {
        assert_eq!(gpu[name], json!({"unknown": "not_covered"}), "{name}");
    }
    let found = judged(&answer, "gpu.rdma-capable");
    assert_eq!(found["outcome"], "pass", "{found:#}");
    let mut pair = machine("old");
    pair["gpus"] = json!([{"bdf": "0000:03:00.0"}, {"bdf": "0000:05:00.0"}]);
    pair["pair"] = json!({"can_access": true});
    let way = &fake.answer(&pair)["read"]["pairs"][0];
    assert_eq!(way["can_access"], json!({"known": true}));
    assert_eq!(
        way["access"],
        json!({"unknown": "not_covered"}),
        "cuDeviceGetP2PAttribute is missing"
    );
}

#[test]
fn cuda_error_leads_to_finding() {
    let fake = Fake::new(Driver::Current);
    for (code, name, check, outcome, words) in [
        (100, "CUDA_ERROR_NO_DEVICE", "gpu.driver", "fail", "CUDA shows no GPU"),
        (3, "CUDA_ERROR_NOT_INITIALIZED", "gpu.driver", "fail", "uvm_disable_hmm"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY", "gpu.fabric", "fail", "nvidia-fabricmanager"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "gpu.driver", "fail", "Reboot"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "gpu.driver", "fail", "cuda-compat"),
        (999, "CUDA_ERROR_UNKNOWN", "gpu.driver", "fail", "nvidia-uvm"),
    ] {
        let answer = fake.answer(&refusing(code));
        let failed = &answer["failed"];
        assert_eq!(failed["code"], code);
        assert_eq!(failed["reason"], format!("cuInit: {name} ({code})"));
        assert_eq!(failed["driver_version"], json!({"known": 13_000}), "it tells even so");
        let found = judged(&answer, check);
        assert_eq!(found["outcome"], outcome, "{found:#}");
        assert!(found.to_string().contains(words), "{found:#}");
        assert_eq!(judged(&answer, "gpu.rdma-capable")["outcome"], "unknown", "{code}");
    }
}

#[test]
fn failing_call_affects_one_fact() {
    let fake = Fake::new(Driver::Current);
    let mut lost = machine("two");
    lost["errors"] =
        json!({"cuDeviceGetAttribute": 999, "cuDeviceCanAccessPeer": 999, "cuDeviceGetName": 999});
    let answer = fake.answer(&lost);
    let gpu = &answer["read"]["gpus"][1];
    assert_eq!(gpu["bdf"], "0000:05:00.0");
    for name in ["rdma", "name"] {
        assert_eq!(gpu[name], json!({"unknown": "broken"}), "{name}");
    }
    assert_eq!(answer["read"]["pairs"][0]["can_access"], json!({"unknown": "broken"}));
    assert_eq!(judged(&answer, "gpu.rdma-capable")["outcome"], "unknown");
}

#[test]
fn hanging_library_times_out() {
    let fake = Fake::new(Driver::Current);
    let mut hangs = machine("two");
    hangs["hang_in"] = json!("cuInit");
    let record = fake.directory.path().join("snapshot.json");
    let start = std::time::Instant::now();
    let run =
        fake.gdr(&hangs).args(["--library-timeout", "1", "snapshot", "-o"]).args([&record]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(start.elapsed().as_secs() < 30);
    let held: Value =
        serde_json::from_slice(&fs::read(&record).expect("the snapshot")).expect("JSON");
    let failed = &held["libraries"]["cuda"]["failed"];
    assert_eq!(failed["why"], "timed_out", "{failed}");
    assert!(
        failed["message"]
            .as_str()
            .is_some_and(|words| words.contains("libcuda.so.1 did not answer within 1 s"))
    );
}

#[test]
fn invalid_libraries() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let with =
        |directory: &Path| child(Gdr::new().env("LD_LIBRARY_PATH", directory), "__read-cuda");
    if !Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists() {
        let absent = with(dir.path());
        let reason = absent["absent"]["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("no libcuda.so.1 on this machine"), "{absent}");
        let found = judged(&absent, "gpu.driver");
        assert_eq!(found["outcome"], "fail", "{found:#}");
    }
    fs::write(
        dir.path().join("libcuda.so.1"),
        "no library at all, and long enough to be read as one",
    )
    .expect("a file");
    let unusable = with(dir.path());
    assert_eq!(unusable["failed"]["code"], Value::Null, "{unusable}");
    assert!(judged(&unusable, "gpu.driver").to_string().contains("cannot be used"));
    // A library that has nothing but cuInit.
    crate::support::fake_cuda(dir.path(), "0");
    let bare = with(dir.path());
    assert_eq!(bare["failed"]["reason"], "this driver has no cuDeviceGetCount", "{bare}");
}

#[test]
fn trial_exports_dma_buf() {
    let fake = Fake::new(Driver::Current);
    let two = machine("two");
    let tried =
        |fake: &Fake, machine: &Value| child(fake.gdr(machine), "__try-mapping")["tried"].clone();
    let well = tried(&fake, &two);
    assert_eq!(
        (&well[0]["bdf"], &well[0]["dma_buf"]),
        (&json!("0000:03:00.0"), &json!("exported")),
        "{well:#}"
    );
    let mut refuses = two.clone();
    refuses["errors"] = json!({"cuMemGetHandleForAddressRange": 801});
    let refused = tried(&fake, &refuses)[1]["dma_buf"].clone();
    let reason = refused["refused"]["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (801)"),
        "{refused}"
    );
    let old = tried(&Fake::new(Driver::Old), &two)[0]["dma_buf"].clone();
    let reason = old["refused"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("this driver has no cuMemGetHandleForAddressRange"), "{old}");
}
