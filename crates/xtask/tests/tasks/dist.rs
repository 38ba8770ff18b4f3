//! `cargo xtask dist` with a cargo that builds nothing: what a person sees while it takes its minutes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

#[test]
fn says_what_is_compiled_before_it_begins() {
    let directory = tempfile::tempdir().expect("a directory");
    let cargo = directory.path().join("cargo");
    fs::write(&cargo, "#!/bin/sh\necho '   Compiling gdr' >&2\n").expect("a file");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("a mode");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["dist", "--arch", "x86_64", "--format", "tar", "--out"])
        .arg(directory.path().join("out"))
        .arg("--build")
        .arg(directory.path().join("build"))
        .env("CARGO", &cargo)
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("xtask was built");
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let expected = [
        "dist x86_64: compiles the program",
        "Compiling gdr",
        "dist x86_64: compiles the libraries",
        "Compiling gdr",
        "Error: cargo built no gdr",
    ];
    assert_eq!(lines, expected, "{text}");
    assert_eq!(output.status.code(), Some(1));
}
