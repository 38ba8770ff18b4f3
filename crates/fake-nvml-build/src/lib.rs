//! Where tests get the simulated NVML from (crate `fake-nvml`): a directory holding `libnvidia-ml.so.1`, built when asked
//! for, and the machine files it answers from. [`cuda`] has the same of the simulated CUDA (crate `fake-cuda`), [`verbs`] of the
//! simulated verbs (crate `fake-verbs`), [`uverbs`] of the kernel's uverbs node under the machine's own verbs (crate `fake-uverbs`).
//!
//! A test of a real program starts it with the variables of [`environment`]:
//!
//! ```no_run
//! # fn main() -> Result<(), String> {
//! let fake = fake_nvml_build::build(fake_nvml_build::Driver::Current)?;
//! let machine = fake_nvml_build::machine("h200-x8");
//! std::process::Command::new("gdr").envs(fake_nvml_build::environment(&fake, &machine));
//! # Ok(())
//! # }
//! ```
//!
//! Cargo cannot make a test depend on another package's C library, so the test runs cargo itself, offline, into
//! `target/fake-nvml` (some seconds the first time, a tenth of one after).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub mod uverbs;

/// Which driver's functions the library has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Current,
    /// An old driver: the newer symbols are missing, `nvmlDeviceGetP2PStatus` among them. No real version lacks just these.
    Old,
}

/// Builds the library and gives the directory that holds it as `libnvidia-ml.so.1`.
///
/// Tests and test programs may call this at the same time.
///
/// # Errors
///
/// What cargo or the file system says, in words for a failing test.
pub fn build(driver: Driver) -> Result<PathBuf, String> {
    library(driver, "", "fake-nvml", "libnvidia-ml.so.1")
}

/// The simulated CUDA driver: `libcuda.so.1`.
pub mod cuda {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use super::{Driver, library, workspace};

    /// Builds the library and gives the directory that holds it as `libcuda.so.1`. With [`Driver::Old`] the functions of
    /// `fake-cuda/src/newer.rs` are missing.
    ///
    /// # Errors
    ///
    /// What cargo or the file system says, in words for a failing test.
    pub fn build(driver: Driver) -> Result<PathBuf, String> {
        library(driver, "cuda-", "fake-cuda", "libcuda.so.1")
    }

    /// The machine file called `name`: `two`, `old`.
    #[must_use]
    pub fn machine(name: &str) -> PathBuf {
        let machines = workspace().join("crates/fake-cuda/machines");
        machines.join(name).with_extension("json")
    }

    /// What to start a program with, so that it finds the library of `directory`, answering from `machine`.
    #[must_use]
    pub fn environment(directory: &Path, machine: &Path) -> [(&'static str, OsString); 2] {
        [
            ("LD_LIBRARY_PATH", directory.into()),
            ("FAKE_CUDA", machine.into()),
        ]
    }
}

/// The simulated verbs: `libibverbs.so.1`.
pub mod verbs {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use super::{Driver, library, workspace};

    /// Builds the library and gives the directory that holds it as `libibverbs.so.1`.
    ///
    /// # Errors
    ///
    /// What cargo or the file system says, in words for a failing test.
    pub fn build() -> Result<PathBuf, String> {
        library(Driver::Current, "verbs-", "fake-verbs", "libibverbs.so.1")
    }

    /// The machine file called `name`: `two`, `roce`.
    #[must_use]
    pub fn machine(name: &str) -> PathBuf {
        let machines = workspace().join("crates/fake-verbs/machines");
        machines.join(name).with_extension("json")
    }

    /// What to start a program with, so that it finds the library of `directory`, answering from `machine`.
    #[must_use]
    pub fn environment(directory: &Path, machine: &Path) -> [(&'static str, OsString); 2] {
        [
            ("LD_LIBRARY_PATH", directory.into()),
            ("FAKE_VERBS", machine.into()),
        ]
    }
}

/// Builds a package's library and gives the directory that holds it under the name programs look for.
fn library(driver: Driver, prefix: &str, package: &str, name: &str) -> Result<PathBuf, String> {
    let target = target_directory();
    let (variant, features): (_, &[&str]) = match driver {
        Driver::Current => ("current", &[]),
        Driver::Old => ("old", &["--features", "old"]),
    };
    let directory = target.join(format!("{prefix}{variant}"));
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let lock = target.join("lock");
    // Both drivers come out of cargo under one name: nobody else builds until this one is in its place.
    let held = fs::File::create(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    held.lock()
        .map_err(|error| format!("{}: {error}", lock.display()))?;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        // A sanitizer is for the program under test, not for the library that it loads.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            package,
            "--manifest-path",
        ])
        .arg(workspace().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .args(features)
        // The library must come out for this machine, where the next step looks for it.
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo build -p {package}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let built = format!("debug/lib{}.so", package.replace('-', "_"));
    place(&target.join(built), &directory.join(name))?;
    Ok(directory)
}

/// The machine file called `name`: `h200-x8`, `h200-x2`, `none-nvlink-pair`.
#[must_use]
pub fn machine(name: &str) -> PathBuf {
    workspace()
        .join("crates/fake-nvml/machines")
        .join(name)
        .with_extension("json")
}

/// What to start a program with, so that it finds the library of `directory`, answering from `machine`.
#[must_use]
pub fn environment(directory: &Path, machine: &Path) -> [(&'static str, OsString); 2] {
    [
        ("LD_LIBRARY_PATH", directory.into()),
        ("FAKE_NVML", machine.into()),
    ]
}

/// A copy under the name, swapped in whole: a process may have the old one open, and a symbolic link would show its own
/// target in `/proc/self/maps`.
fn place(built: &Path, wanted: &Path) -> Result<(), String> {
    let same = |path: &Path| fs::read(path).ok();
    if same(wanted).is_some() && same(wanted) == same(built) {
        return Ok(());
    }
    let fresh = wanted.with_extension("new");
    fs::copy(built, &fresh).map_err(|error| format!("{}: {error}", built.display()))?;
    fs::rename(&fresh, wanted).map_err(|error| format!("{}: {error}", wanted.display()))
}

fn workspace() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path.pop();
    path
}

/// Not the directory the tests themselves were built in, which a cargo above this one may hold.
fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), PathBuf::from)
        .join("fake-nvml")
}
