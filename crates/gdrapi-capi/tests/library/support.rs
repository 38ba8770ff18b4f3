//! Where the built libraries are, and how a C program is made and run against them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clib::{built, flags, succeed};

/// `libgdrapi.so` as it ships: Cargo builds it next to this test.
pub fn shipped() -> PathBuf {
    built().join("deps/libgdrapi.so")
}

/// The directory of `libgdrapi_sim.so`: the same with simulated device memory to hand out.
pub fn simulated() -> PathBuf {
    built().join("examples")
}

/// Compiles `tests/c/NAME.c` into `into`, against `libraries` (`-L`, `-l`), with the flags of
/// `GDR_TEST_CFLAGS`.
pub fn compile(name: &str, into: &Path, libraries: &[&str]) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.join(name);
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
        ])
        .arg(header())
        .arg("-o")
        .arg(&program)
        .arg(package.join("tests/c").join(name).with_extension("c"))
        .args(libraries)
        .args(flags());
    succeed(name, &compiler.output().expect("a C compiler"));
    program
}

/// The directory of the header, for a compiler.
pub fn header() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    format!("-I{}", package.join("include").display())
}
