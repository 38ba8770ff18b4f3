//! The library file and the headers match those of libgdsync.

use std::path::Path;
use std::process::Command;

use crate::clib::{check_dynamic_section, check_layout, exported, succeed};
use crate::support::{compile, headers, shipped, simulated_cuda};

#[test]
#[ignore = "needs nm and readelf"]
fn exports_exactly_these_functions() {
    let expected: Vec<&str> = include_str!("exported.txt").lines().collect();
    assert_eq!(exported(&shipped()), expected);
}

#[test]
#[ignore = "needs nm and readelf"]
fn soname_and_dependencies() {
    check_dynamic_section(&shipped(), "libgdsync.so.2");
}

#[test]
#[ignore = "needs a C compiler, a C++ compiler, libibverbs-dev"]
fn headers_match_version_2_2() {
    check_layout(&shipped(), "libgdsync", &headers());
}

#[test]
#[ignore = "needs a C++ compiler, libibverbs-dev"]
fn device_header_waits() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("device");
    let arguments = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"];
    compile("c++", &arguments, &[package.join("tests/c/device.cc")], &program, &[]);
    succeed("device", &Command::new(&program).output().unwrap());
}

/// The library loads CUDA on demand and reports its absence.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn works_without_cuda_except_streams() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::copy(shipped(), here.join("libgdsync.so.2")).unwrap();
    let program = here.join("without");
    let libraries = [here.join("libgdsync.so.2").display().to_string()];
    let arguments = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];
    compile("cc", &arguments, &[package.join("tests/c/without.c")], &program, &libraries);
    let run = |paths: &std::ffi::OsStr| {
        Command::new(&program).env("LD_LIBRARY_PATH", paths).output().unwrap()
    };
    if Path::new("/dev/nvidiactl").exists() {
        // The machine has a driver.
        return;
    }
    let alone = run(here.as_os_str());
    succeed("without", &alone);
    assert_eq!(String::from_utf8_lossy(&alone.stdout), format!("{}\n", libc::ENODEV));
    // It loads CUDA, finds no current context and creates none.
    let both = std::env::join_paths([here, &simulated_cuda()]).unwrap();
    let with = run(&both);
    succeed("with", &with);
    assert_eq!(String::from_utf8_lossy(&with.stdout), format!("{}\n", libc::EINVAL));
}
