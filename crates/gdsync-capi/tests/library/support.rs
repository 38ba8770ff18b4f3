//! Compiles and runs C programs with the built libraries and the simulated CUDA.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fakes::{Driver, cuda, verbs};

use crate::clib::{built, flags, succeed};

/// The released library, which Cargo builds next to this test.
pub fn shipped() -> PathBuf {
    built().join("deps/libgdsync_capi.so")
}

/// The directory of `libgdsync_sim.so`, the variant for the simulated CUDA.
pub fn simulated() -> PathBuf {
    built().join("examples")
}

/// The directory of the simulated `libcuda.so.1`.
pub fn simulated_cuda() -> PathBuf {
    cuda::build(Driver::Current).expect("the simulated CUDA")
}

/// Compiler flags for our headers and the tests' stubs of CUDA's and MOFED's headers.
pub fn headers() -> Vec<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["include", "../gdrapi-capi/include", "tests/stubs"]
        .iter()
        .map(|directory| format!("-I{}", package.join(directory).display()))
        .collect()
}

/// The compiler flag for programs for libgdsync's releases.
pub fn compatible() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    format!("-I{}", package.join("include/gdsync/compat").display())
}

/// Compiles and links sources with the headers.
pub fn compile(
    compiler: &str,
    arguments: &[&str],
    sources: &[PathBuf],
    program: &Path,
    libraries: &[String],
) {
    let output = Command::new(compiler)
        .args(arguments)
        .args(headers())
        .arg("-o")
        .arg(program)
        .args(sources)
        .args(libraries)
        .args(flags())
        .output();
    succeed(compiler, &output.unwrap_or_else(|error| panic!("{compiler}: {error}")));
}

/// Linker flags for `libgdsync_sim.so` and the simulated CUDA.
pub fn simulated_libraries(cuda: &Path) -> Vec<String> {
    vec![
        format!("-L{}", simulated().display()),
        "-lgdsync_sim".to_owned(),
        format!("-L{}", cuda.display()),
        "-l:libcuda.so.1".to_owned(),
    ]
}

/// [`simulated_libraries`] with the simulated libibverbs.
pub fn simulated_libraries_and_verbs(cuda: &Path) -> Vec<String> {
    let verbs = verbs::build().expect("the simulated libibverbs");
    let mut libraries = simulated_libraries(cuda);
    libraries.extend([format!("-L{}", verbs.display()), "-l:libibverbs.so.1".to_owned()]);
    libraries
}

/// Runs a program on a simulated machine.
pub fn run(
    program: &Path,
    arguments: &[&str],
    machine: &serde_json::Value,
    variables: &[(&str, &str)],
) -> Output {
    run_on(Driver::Current, program, arguments, machine, variables)
}

/// [`run`] with the simulated CUDA of this driver.
pub fn run_on(
    driver: Driver,
    program: &Path,
    arguments: &[&str],
    machine: &serde_json::Value,
    variables: &[(&str, &str)],
) -> Output {
    let directory = program.parent().expect("a directory");
    let file = directory.join("machine.json");
    fs::write(&file, machine.to_string()).expect("a machine file");
    let cuda = cuda::build(driver).expect("the simulated CUDA");
    let mut directories = vec![simulated(), cuda];
    if machine.get("verbs").is_some() {
        directories.push(verbs::build().expect("the simulated libibverbs"));
    }
    let paths = std::env::join_paths(directories).expect("paths");
    let mut command = Command::new(program);
    for name in [
        "GDS_ENABLE_DEBUG",
        "GDS_ENABLE_DUMP_MEMOPS",
        "GDS_DISABLE_WRITE64",
        "GDS_DISABLE_WAIT_NOR",
        "GDS_DISABLE_REMOTE_FLUSH",
        "GDS_DISABLE_WRITEMEMORY",
        "GDS_DISABLE_MEMBAR",
        "GDS_DISABLE_WEAK_CONSISTENCY",
        "GDS_ENABLE_FLUSHER",
        "GDS_ENABLE_WAIT_CHECKER",
        "GDS_SIMULATE_WRITE64",
        "GDS_HCA",
        "CUDA_VISIBLE_DEVICES",
    ] {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", paths)
        .env("FAKE_CUDA", &file)
        .env("FAKE_VERBS", file)
        .envs(variables.iter().copied())
        .output()
        .expect("the program just compiled")
}
