//! Paths of the built libraries, and compilation of C programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clib::{built, flags, succeed};

/// `libgdrapi.so` as shipped: Cargo builds it next to this test.
pub fn shipped() -> PathBuf {
    built().join("deps/libgdrapi.so")
}

/// Directory of `libgdrapi_sim.so`, the library with simulated device memory.
pub fn simulated() -> PathBuf {
    built().join("examples")
}

/// Compiles `tests/c/NAME.c` into `into`, linked with `libraries` (`-L`, `-l`), with the flags of
/// `GDR_TEST_CFLAGS`.
pub fn compile(name: &str, into: &Path, libraries: &[&str]) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.join(name);
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(header())
        .arg("-o")
        .arg(&program)
        .arg(package.join("tests/c").join(name).with_extension("c"))
        .args(libraries)
        .args(flags());
    succeed(name, &compiler.output().expect("a C compiler"));
    program
}

/// Include directory of the header.
pub fn header() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    format!("-I{}", package.join("include").display())
}
