//! Runs a test with both fake libraries: two GPUs and two NICs. The libraries read their machine files once, so the test executable
//! starts itself for each test.

use std::path::PathBuf;
use std::process::Command;

use fakes::{Driver, cuda, verbs};
use serde_json::{Value, json};

/// Set in the child process: the test to run.
const CASE: &str = "VERBS_GPU_CASE";

/// Two GPUs that support both memory paths, and two InfiniBand NICs with one port each.
pub fn machine() -> Value {
    json!({
        "driver_version": 13_000,
        "gpu": {"memory": 1 << 30, "attributes": {"41": 1, "75": 9, "116": 1, "124": 1}},
        "gpus": [{"bdf": "0000:03:00.0"}, {"bdf": "0000:05:00.0"}],
        "pair": {"can_access": true},
        "verbs": {"devices": [
            {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": [{"lid": 7}]},
            {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": [{"lid": 9}]},
        ]},
    })
}

/// Runs `case` in a child process with this machine.
pub fn on(test: &str, machine: &Value, case: impl FnOnce()) {
    on_library(test, machine, verbs::build, case);
}

/// Likewise, with a fake libmlx5 too.
pub fn on_mlx5(test: &str, machine: &Value, case: impl FnOnce()) {
    on_library(test, machine, verbs::build_with_providers, case);
}

fn on_library(
    test: &str,
    machine: &Value,
    verbs: fn() -> Result<PathBuf, String>,
    case: impl FnOnce(),
) {
    if let Ok(meant) = std::env::var(CASE) {
        if meant == test {
            case();
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("machine.json");
    std::fs::write(&file, machine.to_string()).expect("a file");
    let libraries =
        [verbs(), cuda::build(Driver::Current)].map(|built| built.expect("a simulated library"));
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(CASE, test);
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).expect("a list"));
    command.env("FAKE_CUDA", &file).env("FAKE_VERBS", &file);
    command.env_remove("CUDA_VISIBLE_DEVICES");
    let output = command.output().expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    // A misspelt name would pass without running a test.
    let has_run = said[0].contains("1 passed");
    assert!(output.status.success() && has_run, "{}", said.concat());
}
