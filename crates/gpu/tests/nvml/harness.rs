//! Runs the reader on a machine file in a child process.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fakes::Driver;
use gpu::nvml::{Nvml, Outcome, Query};

pub type Test = Result<(), Box<dyn Error>>;

pub const EVERYTHING: Query = Query { links: true, p2p: true, p2p_only: None, details: true };
pub const NOTHING: Query = Query { links: false, p2p: false, p2p_only: None, details: false };

/// Command that runs only [`child`](super::child).
pub fn reader(query: Query, out: &Path) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", "child"])
        .env("NVML_TEST_OUT", out)
        .env("NVML_TEST_WANT", serde_json::to_string(&query)?);
    Ok(command)
}

/// Result of the child, with a timeout.
pub fn outcome(mut command: Command, out: &Path) -> Result<Outcome, Box<dyn Error>> {
    let mut child = command.stdout(std::process::Stdio::null()).spawn()?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill()?;
            child.wait()?;
            return Err("the reader hangs".into());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if !status.success() {
        return Err(format!("the reader failed: {status}").into());
    }
    Ok(serde_json::from_str(&std::fs::read_to_string(out)?)?)
}

/// Reading of a machine file.
pub fn simulate(driver: Driver, machine: &Path, query: Query) -> Result<Outcome, Box<dyn Error>> {
    let directory = fakes::nvml::build(driver)?;
    let temporary = tempfile::tempdir()?;
    let out = temporary.path().join("outcome.json");
    let mut command = reader(query, &out)?;
    command.envs(fakes::nvml::environment(&directory, machine));
    outcome(command, &out)
}

pub fn read(driver: Driver, machine: &str, query: Query) -> Result<Nvml, Box<dyn Error>> {
    match simulate(driver, &fakes::nvml::machine(machine), query)? {
        Outcome::Read(nvml) => Ok(nvml),
        other => Err(format!("{other:?}").into()),
    }
}

/// The machine of `base` with some keys replaced.
pub fn changed(base: &str, changes: &str, directory: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut machine: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(fakes::nvml::machine(base))?)?;
    let changes: serde_json::Map<String, serde_json::Value> = serde_json::from_str(changes)?;
    for (key, value) in changes {
        machine[key] = value;
    }
    let path = directory.join("machine.json");
    std::fs::write(&path, machine.to_string())?;
    Ok(path)
}

pub fn read_changed(base: &str, changes: &str, query: Query) -> Result<Outcome, Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    simulate(Driver::Current, &changed(base, changes, temporary.path())?, query)
}
