//! Attribute survey against the simulated CUDA: values, errors, and no context.
//!
//! The library is opened once per process, so each case runs in its own process: this test starts
//! itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use fakes::{Driver, cuda};
use gpu::{Attribute, Cuda, Failure, P2pAttribute};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Set for the child process.
const CHILD: &str = "GDR_TEST_SURVEY";

fn survey_json() -> Value {
    let attributes = [
        Attribute::COMPUTE_CAPABILITY_MAJOR,
        Attribute::GPU_DIRECT_RDMA_SUPPORTED,
        Attribute::GPU_DIRECT_RDMA_WRITES_ORDERING,
        Attribute::DMA_BUF_SUPPORTED,
    ];
    let cuda = match Cuda::open() {
        Ok(cuda) => cuda,
        Err(error) => return json!({"no_library": error.to_string()}),
    };
    let text = |answer: Result<Option<i32>, Failure>| match answer {
        Ok(value) => json!(value),
        Err(failure) => json!(failure.to_string()),
    };
    let found = cuda.gpus();
    let (mut gpus, mut pairs) = (Vec::new(), Vec::new());
    for gpu in found.iter().flatten() {
        gpus.push(json!({
            "ordinal": gpu.ordinal(),
            "pci": gpu.pci().map(|pci| pci.to_string()),
            "name": gpu.name().ok(),
            "attributes": attributes.map(|number| json!([number.0, text(gpu.attribute(number))])),
        }));
        for to in found.iter().flatten().filter(|to| to.ordinal() != gpu.ordinal()) {
            let peer = text(gpu.p2p_attribute(*to, P2pAttribute::ACCESS_SUPPORTED));
            pairs.push(json!([gpu.ordinal(), to.ordinal(), gpu.can_access(*to).ok(), peer]));
        }
    }
    json!({
        "version": cuda.version().ok(),
        "gpus": found.as_ref().map_or_else(|failure| json!(failure.to_string()), |_| json!(gpus)),
        "pairs": pairs,
        "library": cuda.library().file_name().map(|name| name.to_string_lossy().into_owned()),
    })
}

#[test]
fn child() {
    if let Some(answer) = std::env::var_os(CHILD) {
        fs::write(answer, survey_json().to_string()).expect("the answer is written");
    }
}

/// Surveys this machine in its own process.
fn survey_of(driver: Driver, machine: &Value) -> Result<Value, Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let (file, answer) = (directory.path().join("machine.json"), directory.path().join("answer"));
    fs::write(&file, machine.to_string())?;
    let status = Command::new(std::env::current_exe()?)
        .args(["--exact", "child"])
        .env(CHILD, &answer)
        .envs(cuda::environment(&cuda::build(driver)?, &file))
        .output()?
        .status;
    assert!(status.success());
    Ok(serde_json::from_str(&fs::read_to_string(&answer)?)?)
}

fn machine(name: &str) -> Result<Value, Box<dyn std::error::Error>> {
    Ok(serde_json::from_str(&fs::read_to_string(cuda::machine(name))?)?)
}

#[test]
fn two_gpus_and_both_directions() -> Outcome {
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("log");
    let mut two = machine("two")?;
    two["gpus"][1]["attributes"] = json!({"116": 0});
    two["pairs"] = json!([{"from": 1, "to": 0, "can_access": false}]);
    two["log"] = json!(log);
    let found = survey_of(Driver::Current, &two)?;
    assert_eq!(found["version"], 13_000);
    assert_eq!(found["library"], "libcuda.so.1");
    assert_eq!(
        found["gpus"],
        json!([
            {"ordinal": 0, "pci": "0000:03:00.0", "name": "NVIDIA H200",
             "attributes": [[75, 9], [116, 1], [118, 200], [124, 1]]},
            {"ordinal": 1, "pci": "0000:05:00.0", "name": "NVIDIA H200",
             "attributes": [[75, 9], [116, 0], [118, 200], [124, 1]]},
        ])
    );
    assert_eq!(found["pairs"], json!([[0, 1, true, 1], [1, 0, false, 1]]));
    let log = fs::read_to_string(&log)?;
    assert!(log.contains("cuDeviceGetAttribute"), "{log}");
    assert!(!log.contains("Ctx") && !log.contains("cuMem"), "a context was touched: {log}");
    Ok(())
}

#[test]
fn old_driver_has_fewer_attributes() -> Outcome {
    let mut old = machine("old")?;
    old["gpus"] = json!([{"bdf": "0000:03:00.0"}, {}]);
    old["pair"] = json!({"can_access": true});
    let found = survey_of(Driver::Old, &old)?;
    assert_eq!(found["version"], 9010);
    let gpu = &found["gpus"][0];
    assert_eq!(gpu["attributes"], json!([[75, 6], [116, null], [118, null], [124, null]]));
    assert_eq!(found["gpus"][1]["pci"], Value::Null, "no PCI device");
    assert_eq!(
        found["pairs"][0],
        json!([0, 1, true, "this driver has no cuDeviceGetP2PAttribute"])
    );
    Ok(())
}

#[test]
fn failed_initialisation_keeps_code_and_version() -> Outcome {
    for (code, words) in [
        (100, "cuInit: CUDA_ERROR_NO_DEVICE (100)"),
        (802, "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802)"),
        (803, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        (4711, "cuInit: CUDA error 4711"),
    ] {
        let refuses = json!({"driver_version": 12_040, "gpus": [{}], "errors": {"cuInit": code}});
        let found = survey_of(Driver::Current, &refuses)?;
        assert_eq!((&found["version"], &found["gpus"]), (&json!(12_040), &json!(words)));
    }
    let lost = json!({"gpus": [{"bdf": "0000:03:00.0"}], "errors": {"cuDeviceGetAttribute": 999}});
    let found = survey_of(Driver::Current, &lost)?;
    assert_eq!(found["gpus"][0]["pci"], "0000:03:00.0", "the rest is complete");
    assert_eq!(
        found["gpus"][0]["attributes"][1],
        json!([116, "cuDeviceGetAttribute: CUDA_ERROR_UNKNOWN (999)"])
    );
    Ok(())
}

#[test]
fn missing_library_is_an_error() -> Outcome {
    if Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let answer = directory.path().join("answer");
    let status = Command::new(std::env::current_exe()?)
        .args(["--exact", "child"])
        .env(CHILD, &answer)
        .output()?
        .status;
    assert!(status.success());
    let found: Value = serde_json::from_str(&fs::read_to_string(&answer)?)?;
    let words = found["no_library"].as_str().unwrap_or_default();
    assert!(words.starts_with("no libcuda.so.1 on this machine"), "{found}");
    Ok(())
}
