//! gdr on a real kernel, in the virtual machines of `cargo xtask vm`, compared with lspci there.
//!
//! [`acs`]: ports. [`repairs`]: repairs of ports and modules. [`rdma`]: Soft-RoCE. [`links`]: its links with faults. [`gdrdrv`]: the fake gdrdrv driver. [`gdsync`]:
//! GPUDirect Async over the proxy.

mod acs;
mod gdrdrv;
mod gdsync;
mod links;
mod rdma;
mod repairs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use xtask::vm::{Image, Job, named, run};

const DEADLINE: Duration = Duration::from_secs(900);

fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
    })
}

/// A program of the workspace in `target/debug`. Cargo gives a test only its own package's binaries. `cargo test` has compiled these.
fn built(program: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--bins", "--examples"])
            .current_dir(root())
            .status()
            .expect("cargo");
        assert!(built.success(), "the workspace does not build");
    });
    root().join("target/debug").join(program)
}

/// Compiles a C program for a guest.
fn compiled(program: &str, directory: &Path, sources: &[&str], libraries: &[String]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    let built = Command::new("gcc-12")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&path)
        .args(sources)
        .args(libraries)
        .current_dir(directory)
        .status()
        .expect("gcc-12");
    assert!(built.success(), "{program} does not build");
    path
}

/// A number from the environment, or the default.
fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |number| number.parse().expect("a number"))
}

/// How often a repair is killed at a random moment, besides once at each step: `GDR_KILLS`.
fn kills() -> u64 {
    from_environment("GDR_KILLS", 2)
}

/// Runs a script in a machine; returns the directory of its files.
fn in_machine(machine: &str, script: &str, binaries: Vec<PathBuf>) -> PathBuf {
    let image = Image::prepare(&root().join("target/vm")).expect("an image");
    let files = root().join("target/vm/tests").join(format!("{machine}-{script}"));
    let job = Job {
        script: root().join("tests/vm").join(format!("{script}.sh")),
        binaries,
        timeout: DEADLINE,
        files: files.clone(),
        variables: vec![("GDR_KILLS", kills().to_string())],
        disk: None,
    };
    let outcome = run(named(machine).expect("a machine"), &image, &job).expect("it runs");
    assert!(
        outcome.passed(),
        "{machine} {script}: {}",
        serde_json::to_string_pretty(&outcome).expect("JSON")
    );
    files
}

fn json(path: &Path) -> Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
