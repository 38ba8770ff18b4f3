//! The reader of NVML against the SIMULATED library of crate `fake-nvml`. Each case runs the child that gdr starts for it. Expected
//! values come from the machine files, written by hand, and from nvml.h.

use std::path::{Path, PathBuf};

use fakes::Driver;
use serde_json::{Value, json};

use crate::support::Gdr;

/// The child's answer about a machine.
fn answer(driver: Driver, machine: &Path, query: &str) -> Value {
    let library = fakes::nvml::build(driver).expect("the simulated library");
    let mut gdr = Gdr::new().args(["__read-nvml", query]);
    for (name, value) in fakes::nvml::environment(&library, machine) {
        gdr = gdr.env(name, value);
    }
    let run = gdr.run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).expect("JSON")
}

/// A query of links, peer-to-peer statuses and details.
fn query(links: bool, p2p: bool, details: bool) -> String {
    json!({"links": links, "p2p": p2p, "p2p_only": null, "details": details, "errors": details, "from_gpus": 0})
        .to_string()
}

fn read(driver: Driver, machine: &str) -> Value {
    answer(driver, &fakes::nvml::machine(machine), &query(true, true, true))["read"].take()
}

/// The two H200 with some keys replaced.
fn changed(changes: Value, query: &str) -> Value {
    let text = std::fs::read_to_string(fakes::nvml::machine("h200-x2")).expect("a machine");
    let mut machine: Value = serde_json::from_str(&text).expect("JSON");
    for (key, value) in changes.as_object().expect("an object") {
        machine[key] = value.clone();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path: PathBuf = directory.path().join("machine.json");
    std::fs::write(&path, machine.to_string()).expect("a file");
    answer(Driver::Current, &path, query)
}

fn read_changed(changes: Value) -> Value {
    changed(changes, &query(true, true, true))["read"].take()
}

fn not_covered() -> Value {
    json!({"unknown": "not_covered"})
}

#[test]
fn eight_gpus() {
    let nvml = read(Driver::Current, "h200-x8");
    assert!(nvml["library"].as_str().is_some_and(|path| path.ends_with("/libnvidia-ml.so.1")));
    assert_eq!(nvml["driver_version"], json!({"known": "580.159.04"}));
    assert_eq!(nvml["cuda_version"], json!({"known": 13000}));
    assert_eq!(nvml["protected_links"], json!({"known": "none"}));
    assert_eq!(nvml["unreachable"], json!([]));
    let gpus = nvml["gpus"].as_array().expect("GPUs");
    let slots = ["06", "07", "08", "09", "0a", "0b", "0c", "0d"];
    assert_eq!(gpus.len(), slots.len());
    for ((index, gpu), slot) in gpus.iter().enumerate().zip(slots) {
        assert_eq!(gpu["bdf"], format!("0000:00:{slot}.0"));
        assert_eq!((&gpu["index"], &gpu["minor"]["known"]), (&json!(index), &json!(index)));
        assert_eq!(gpu["name"], json!({"known": "NVIDIA H200"}));
        let links = gpu["active_links"]["known"].as_array().expect("links");
        assert_eq!((links.len(), &gpu["inactive_links"]["known"]), (18, &json!(0)));
        for link in links {
            assert_eq!(link["remote"], json!({"known": "switch"}));
            assert_eq!(link["remote_bdf"], not_covered(), "the guest does not see the switches");
        }
    }
    for (detail, value) in [
        ("persistence", json!(true)),
        ("mig", json!(false)),
        ("bar1", json!({"total": 274_877_906_944_u64, "used": 1_703_936})),
        ("memory_total", json!(150_754_820_096_u64)),
        ("memory_node", json!(null)),
        ("fabric", json!("completed")),
        (
            "fabric_registration",
            json!({"status": 0, "clique": 0, "cluster": false, "health": "healthy"}),
        ),
        ("performance_state", json!(0)),
        ("virtualization", json!("passthrough")),
        ("architecture", json!("hopper")),
    ] {
        assert_eq!(gpus[7][detail], json!({ "known": value }), "{detail}");
    }
    let pairs = nvml["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 56, "28 pairs in both directions");
    for pair in pairs {
        for capability in ["read", "write", "nvlink", "atomics"] {
            assert_eq!(pair["p2p"][capability], json!({"known": "ok"}));
        }
        assert_eq!(pair["p2p"]["pci"], json!({"known": "not_supported"}));
    }
}

#[test]
fn what_is_not_queried_is_unknown() {
    let path = fakes::nvml::machine("h200-x2");
    let nvml = answer(Driver::Current, &path, &query(false, false, false))["read"].take();
    assert_eq!((&nvml["pairs"], &nvml["cuda_version"]), (&json!([]), &not_covered()));
    for gpu in nvml["gpus"].as_array().expect("GPUs") {
        assert!(gpu["uuid"]["known"].as_str().is_some_and(|uuid| uuid.starts_with("GPU-")));
        for field in ["active_links", "inactive_links", "bar1", "fabric", "architecture"] {
            assert_eq!(gpu[field], not_covered(), "{field}");
        }
    }
}

/// Only the functions of a query are called: a library that hangs in all others still answers.
#[test]
fn query_of_links_calls_link_functions() {
    for other in [
        "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetMemoryInfo",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlShutdown",
    ] {
        let answer = changed(json!({ "hang_in": other }), &query(true, false, false));
        assert!(answer["read"].is_object(), "{answer}");
    }
}

#[test]
fn gpus_without_nvlink() {
    let nvml = read(Driver::Current, "none-nvlink-pair");
    for gpu in nvml["gpus"].as_array().expect("GPUs") {
        assert_eq!(gpu["active_links"], json!({"known": []}));
        assert_eq!((&gpu["mig"], &gpu["fabric"]), (&not_covered(), &not_covered()));
    }
    for capability in ["read", "write", "atomics", "pci"] {
        assert_eq!(nvml["pairs"][0]["p2p"][capability], json!({"known": "chipset"}));
    }
    assert_eq!(nvml["pairs"][0]["p2p"]["nvlink"], json!({"known": "not_supported"}));
    assert_eq!(nvml["protected_links"], not_covered());
}

#[test]
fn old_driver() {
    let nvml = read(Driver::Old, "h200-x2");
    assert_eq!(nvml["confidential_compute"], not_covered());
    assert_eq!(
        nvml["cuda_version"],
        json!({"known": 13000}),
        "the first form of the function exists"
    );
    for gpu in nvml["gpus"].as_array().expect("GPUs") {
        for missing in ["mig", "fabric", "fabric_registration", "memory_node", "architecture"] {
            assert_eq!(gpu[missing], not_covered(), "{missing}");
        }
        assert_eq!(gpu["active_links"]["known"].as_array().map(Vec::len), Some(18));
    }
    let p2p = &nvml["pairs"][0]["p2p"];
    assert_eq!((&p2p["read"], &p2p["pci"]), (&not_covered(), &not_covered()));
}

#[test]
fn numbers_newer_than_the_header() {
    let nvml = read_changed(json!({
    "pair": {"p2p": [77, 6, 0, 0]},
    "confidential_compute": {"environment": 2, "feature": 1, "devtools": 0, "multi_gpu": 8},
    "gpus": [
        {"bdf": "00000000:00:06.0", "architecture": u32::MAX, "virtualization": 21, "fabric":
            {"state": 200, "status": 0, "clique_id": 5, "health_summary": 9,
             "cluster_uuid": "ee0b4f11-2233-4455-6677-8899aabbccdd"}},
        {"bdf": "00000000:C1:00.0", "links": [{"active": true, "remote_type": 255, "remote_bdf": "00000000:C3:00.0"}]}
    ]}));
    let p2p = &nvml["pairs"][0]["p2p"];
    assert_eq!(
        (&p2p["read"]["known"], &p2p["write"]["known"]),
        (&json!("unknown"), &json!("unknown"))
    );
    assert_eq!(p2p["pci"], not_covered(), "an unknown capability is not an error");
    assert_eq!(nvml["confidential_compute"], json!({"known": true}));
    assert_eq!(nvml["protected_links"], json!({"known": "unknown 8"}));
    let [first, second] = nvml["gpus"].as_array().expect("GPUs").as_slice() else {
        panic!("{nvml}")
    };
    assert_eq!(first["architecture"]["known"], "unknown 4294967295");
    assert_eq!(first["virtualization"]["known"], "unknown 21");
    assert_eq!(first["fabric"]["known"], "unknown 200");
    let registration = json!({"status": 0, "clique": 5, "cluster": true, "health": "unknown 9"});
    assert_eq!(first["fabric_registration"]["known"], registration);
    let link = json!([{"index": 0, "remote": {"known": "unknown 255"}, "remote_bdf": {"known": "0000:c3:00.0"}}]);
    assert_eq!(second["active_links"]["known"], link);
}

/// 2: the driver knows the structure without the summary; 1: only the older function.
#[test]
fn fabric_in_all_versions() {
    for version in [2, 1] {
        let fabric = json!({"version": version, "state": 3, "status": 0, "clique_id": 7, "health_mask": 426});
        let nvml = read_changed(json!({"gpus": [{"bdf": "00000000:00:06.0", "fabric": fabric}]}));
        let registration = &nvml["gpus"][0]["fabric_registration"]["known"];
        assert_eq!((&registration["clique"], &registration["health"]), (&json!(7), &json!(null)));
    }
}

#[test]
fn coherent_gpu_is_a_numa_node() {
    let nvml = read_changed(json!({"gpus": [{"bdf": "00000009:01:00.0", "numa_node": 4}]}));
    assert_eq!(nvml["gpus"][0]["memory_node"], json!({"known": 4}));
}

/// A total, and a counter of each link; what the GPU lacks is left out, and a GPU without links is not asked.
#[test]
fn link_errors_are_summed() {
    let nvml = read_changed(json!({"gpus": [
        {"bdf": "00000000:00:06.0", "fields": {"52": 2, "161/0": 3, "161/17": 4, "214/18": 9}},
        {"bdf": "00000000:00:07.0", "links": [], "fields": {"52": 1}}]}));
    assert_eq!(nvml["gpus"][0]["link_errors"], json!({"known": {"dl_replay": 7, "replay": 2}}));
    assert_eq!(nvml["gpus"][1]["link_errors"], not_covered());
}

#[test]
fn failed_gpu_does_not_hide_others() {
    let nvml = read_changed(json!({
        "errors": {"nvmlDeviceGetName": 4, "nvmlDeviceGetNvLinkState": 15},
        "gpus": [{"bdf": "00000000:00:06.0", "error": 15}, {"bdf": "00000000:00:07.0", "minor": 1}]}));
    let lost = "GPU 0: nvmlDeviceGetHandleByIndex_v2: the GPU has fallen off the bus (15)";
    assert_eq!(nvml["unreachable"], json!([lost]));
    let [gpu] = nvml["gpus"].as_array().expect("GPUs").as_slice() else { panic!("{nvml}") };
    assert_eq!((&gpu["index"], &gpu["bdf"]), (&json!(1), &json!("0000:00:07.0")));
    assert_eq!(gpu["name"], json!({"unknown": "denied"}));
    assert_eq!(gpu["active_links"], json!({"unknown": "broken"}));
    assert_eq!(nvml["pairs"], json!([]));
}

#[test]
fn failed_initialization_keeps_its_code() {
    for (code, name) in [
        (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
        (9, "NVML_ERROR_DRIVER_NOT_LOADED"),
        (4, "NVML_ERROR_NO_PERMISSION"),
        (29, "NVML_ERROR_INVALID_STATE"),
        (4242, "NVML_ERROR_4242"),
    ] {
        let answer = changed(json!({ "init_error": code }), &query(true, true, true));
        let failed = &answer["failed"];
        assert_eq!(failed["code"], code, "{answer}");
        let reason = failed["reason"].as_str().expect("a reason");
        assert!(reason.starts_with(&format!("{name}: nvmlInit_v2: ")), "{reason}");
        assert!(reason.ends_with(&format!("({code})")), "{reason}");
    }
}
