//! Where the built libraries are, and how a C program is made and run against them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
            "-I",
        ])
        .arg(package.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(package.join("tests/c").join(name).with_extension("c"))
        .args(libraries);
    // The address sanitizer's flags, when the library was built with it: .ci/run.
    compiler.args(
        std::env::var("GDR_TEST_CFLAGS")
            .unwrap_or_default()
            .split_whitespace(),
    );
    succeed(name, &compiler.output().expect("a C compiler"));
    program
}

/// Fails with what the program said unless it ended well.
pub fn succeed(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// `target/debug` or its like: the parent of the directory this test lies in.
fn built() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of this test");
    path.pop();
    path.pop();
    path
}
