//! What the fake libraries share, and what gives them to tests.
//!
//! A fake library answers from a file ([`machine`]); simulated dma-bufs go from one to another ([`dmabuf`]).
//!
//! [`nvml`] builds the fake NVML (crate `fake-nvml`) for tests: a directory with `libnvidia-ml.so.1`, and its machine files. [`cuda`] does
//! the same for crate `fake-cuda`, [`verbs`] for `fake-verbs`, [`uverbs`] for `fake-uverbs`.
//!
//! A test starts a program with the variables of [`nvml::environment`]:
//!
//! ```no_run
//! # fn main() -> Result<(), String> {
//! let fake = fakes::nvml::build(fakes::Driver::Current)?;
//! let machine = fakes::nvml::machine("h200-x8");
//! std::process::Command::new("gdr").envs(fakes::nvml::environment(&fake, &machine));
//! # Ok(())
//! # }
//! ```
//!
//! A package whose tests load a fake library has it among its `dev-dependencies`: cargo then builds the cdylib with the tests, beside
//! them. Under a sanitizer and in the fuzz targets, whose flags the fake libraries cannot have, they are those in the directory
//! `GDR_FAKES`, or the test runs cargo, offline, into `target/fakes`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

pub mod dmabuf;
pub mod machine;
pub mod uverbs;

/// Driver version of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Driver {
    Current,
    /// An old driver without the newer functions, such as `nvmlDeviceGetP2PStatus`. No real version lacks exactly these.
    Old,
}

/// The fake NVML: `libnvidia-ml.so.1`.
pub mod nvml {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use super::{Driver, library, workspace};

    /// Builds the library; returns the directory with `libnvidia-ml.so.1`.
    ///
    /// Safe to call concurrently, from several processes too.
    ///
    /// # Errors
    ///
    /// Text of cargo's or the file system's error, for a failing test.
    pub fn build(driver: Driver) -> Result<PathBuf, String> {
        library(driver, "", "fake-nvml", "libnvidia-ml.so.1")
    }

    /// The machine file `name`: `h200-x8`, `h200-x2`, `none-nvlink-pair`.
    #[must_use]
    pub fn machine(name: &str) -> PathBuf {
        workspace().join("crates/fake-nvml/machines").join(name).with_extension("json")
    }

    /// Environment of a program that uses the library in `directory` with this machine file.
    #[must_use]
    pub fn environment(directory: &Path, machine: &Path) -> [(&'static str, OsString); 2] {
        [("LD_LIBRARY_PATH", directory.into()), ("FAKE_NVML", machine.into())]
    }
}

/// The fake CUDA driver: `libcuda.so.1`.
pub mod cuda {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use super::{Driver, library, workspace};

    /// Builds the library; returns the directory with `libcuda.so.1`. [`Driver::Old`] lacks the newer functions.
    ///
    /// # Errors
    ///
    /// Text of cargo's or the file system's error, for a failing test.
    pub fn build(driver: Driver) -> Result<PathBuf, String> {
        library(driver, "cuda-", "fake-cuda", "libcuda.so.1")
    }

    /// The machine file `name`: `two`, `old`.
    #[must_use]
    pub fn machine(name: &str) -> PathBuf {
        let machines = workspace().join("crates/fake-cuda/machines");
        machines.join(name).with_extension("json")
    }

    /// Environment of a program that uses the library in `directory` with this machine file.
    #[must_use]
    pub fn environment(directory: &Path, machine: &Path) -> [(&'static str, OsString); 2] {
        [("LD_LIBRARY_PATH", directory.into()), ("FAKE_CUDA", machine.into())]
    }
}

/// The fake libibverbs: `libibverbs.so.1`.
pub mod verbs {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use super::{Driver, library, workspace};

    /// Builds the library; returns the directory with `libibverbs.so.1`.
    ///
    /// # Errors
    ///
    /// Text of cargo's or the file system's error, for a failing test.
    pub fn build() -> Result<PathBuf, String> {
        library(Driver::Current, "verbs-", "fake-verbs", "libibverbs.so.1")
    }

    /// As [`build`], in a directory where the library is its providers too, for Data Direct and EFA. Hard links, because the loader takes
    /// several names of one file for one library.
    ///
    /// # Errors
    ///
    /// As [`build`].
    pub fn build_with_providers() -> Result<PathBuf, String> {
        let built = build()?;
        let directory = built.with_file_name("verbs-providers");
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        std::fs::create_dir_all(&directory).map_err(failed)?;
        for name in ["libibverbs.so.1", "libmlx5.so.1", "libefa.so.1"] {
            // Another thread or process may link at the same time.
            let owner = (std::process::id(), std::thread::current().id());
            let fresh = directory.join(format!("{name}.{owner:?}"));
            let _ = std::fs::remove_file(&fresh);
            std::fs::hard_link(built.join("libibverbs.so.1"), &fresh).map_err(failed)?;
            std::fs::rename(&fresh, directory.join(name)).map_err(failed)?;
            // A rename onto another link of the same file does nothing.
            let _ = std::fs::remove_file(&fresh);
        }
        Ok(directory)
    }

    /// As [`build`], without newer functions, as rdma-core before version 30. No real version lacks exactly these.
    ///
    /// # Errors
    ///
    /// Text of cargo's or the file system's error, for a failing test.
    pub fn build_old() -> Result<PathBuf, String> {
        library(Driver::Old, "verbs-", "fake-verbs", "libibverbs.so.1")
    }

    /// The machine file `name`: `two`, `roce`, `efa`, `unlike` (the second NIC has another MTU, and no dma-buf registration).
    #[must_use]
    pub fn machine(name: &str) -> PathBuf {
        let machines = workspace().join("crates/fake-verbs/machines");
        machines.join(name).with_extension("json")
    }

    /// Environment of a program that uses the library in `directory` with this machine file.
    #[must_use]
    pub fn environment(directory: &Path, machine: &Path) -> [(&'static str, OsString); 2] {
        [("LD_LIBRARY_PATH", directory.into()), ("FAKE_VERBS", machine.into())]
    }
}

/// Places a package's library, once per process; returns the directory with its soname.
fn library(driver: Driver, prefix: &str, package: &str, name: &str) -> Result<PathBuf, String> {
    static BUILT: Mutex<BTreeMap<(Driver, String), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut known = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (driver, package.to_owned());
    if let Some(directory) = known.get(&key) {
        return Ok(directory.clone());
    }
    let file = built(package)?;
    let target = file.with_file_name("fakes");
    let variant = match driver {
        Driver::Current => "current",
        Driver::Old => "old",
    };
    let directory = target.join(format!("{prefix}{variant}"));
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let lock = target.join("lock");
    // Other processes place it too: locked until the copy is in place.
    let held = fs::File::create(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    held.lock().map_err(|error| format!("{}: {error}", lock.display()))?;
    let mut library = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    if driver == Driver::Old {
        for function in newer_functions(package) {
            hide(&mut library, function)?;
        }
    }
    place(&library, &directory.join(name))?;
    known.insert(key, directory.clone());
    Ok(directory)
}

/// The library that cargo has built.
fn built(package: &str) -> Result<PathBuf, String> {
    let name = format!("lib{}.so", package.replace('-', "_"));
    if cfg!(any(sanitized, fuzzing)) {
        return match std::env::var_os("GDR_FAKES") {
            Some(directory) => Ok(Path::new(&directory).join(name)),
            None => compile(package),
        };
    }
    is_dependency(package)?;
    let program = std::env::current_exe().map_err(|error| format!("the running test: {error}"))?;
    // Tests and benchmarks lie in `deps`, examples and programs beside it.
    let beside =
        program.ancestors().skip(1).take(2).flat_map(|at| [at.to_owned(), at.join("deps")]);
    beside
        .map(|directory| directory.join(&name))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("cargo has built no {name} beside {}", program.display()))
}

/// Cargo brings a library up to date only for a package that depends on it: without that, an old one would be loaded.
fn is_dependency(package: &str) -> Result<(), String> {
    let Some(directory) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        return Ok(());
    };
    let manifest = Path::new(&directory).join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    let is_named = |line: &str| {
        line == format!("{package}.workspace = true") || line == format!("name = \"{package}\"")
    };
    if text.lines().any(is_named) {
        return Ok(());
    }
    Err(format!("{}: {package} must be one of the dev-dependencies", manifest.display()))
}

/// Runs cargo; returns the library's path.
fn compile(package: &str) -> Result<PathBuf, String> {
    let target = target_directory();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        // Sanitizers apply to the program under test, not to the fake.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args(["build", "--quiet", "--offline", "--package", package, "--manifest-path"])
        .arg(workspace().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // Explicit target and directory, so that the next step finds the file.
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo build -p {package}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(target.join(format!("debug/lib{}.so", package.replace('-', "_"))))
}

/// The functions that an old library lacks.
fn newer_functions(package: &str) -> &'static [&'static str] {
    match package {
        "fake-nvml" => &[
            "nvmlDeviceGetArchitecture",
            "nvmlDeviceGetGpuFabricInfo",
            "nvmlDeviceGetGpuFabricInfoV",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetNumaNodeId",
            "nvmlDeviceGetP2PStatus",
            "nvmlDeviceGetVirtualizationMode",
            "nvmlSystemGetConfComputeSettings",
            "nvmlSystemGetConfComputeState",
            "nvmlSystemGetCudaDriverVersion_v2",
        ],
        "fake-cuda" => &[
            "cuDeviceGetP2PAttribute",
            "cuDeviceGetUuid_v2",
            "cuEventElapsedTime_v2",
            "cuMemGetHandleForAddressRange",
            "cuStreamBatchMemOp_v2",
            "cuThreadExchangeStreamCaptureMode",
        ],
        "fake-verbs" => &[
            "_ibv_query_gid_ex",
            "_ibv_query_gid_table",
            "ibv_get_device_index",
            "ibv_reg_dmabuf_mr",
        ],
        _ => &[],
    }
}

/// Changes the first letter of a function's name in the library's string tables, so that the loader does not find the function.
fn hide(library: &mut [u8], function: &str) -> Result<(), String> {
    let name = format!("\0{function}\0");
    let found: Vec<usize> = memchr::memmem::find_iter(library, &name).collect();
    if found.is_empty() {
        return Err(format!("the library does not export {function}"));
    }
    for at in found {
        library[at + 1] = b'#';
    }
    Ok(())
}

/// Writes and renames, because a process may have the old file open. Not a symbolic link, whose target would show in
/// `/proc/self/maps`.
fn place(library: &[u8], wanted: &Path) -> Result<(), String> {
    if fs::read(wanted).is_ok_and(|placed| placed == library) {
        return Ok(());
    }
    let fresh = wanted.with_extension("new");
    let failed = |error: std::io::Error| format!("{}: {error}", fresh.display());
    fs::write(&fresh, library).map_err(failed)?;
    fs::rename(&fresh, wanted).map_err(failed)
}

fn workspace() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path.pop();
    path
}

/// Not the tests' own target directory, which an outer cargo may have locked.
fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), PathBuf::from)
        .join("fakes")
}
