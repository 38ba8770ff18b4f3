//! The library as a file, and the headers: exactly what programs built for libgdsync look for.

use std::path::Path;
use std::process::Command;

use crate::clib::{check_dynamic_section, check_layout, exported, succeed};
use crate::support::{compile, headers, shipped, simulated_cuda};

#[test]
#[ignore = "needs nm and readelf"]
fn exactly_these_functions_are_exported() {
    let expected: Vec<&str> = include_str!("exported.txt").lines().collect();
    assert_eq!(exported(&shipped()), expected);
}

#[test]
#[ignore = "needs nm and readelf"]
fn the_loader_finds_the_name_of_libgdsync_and_needs_libc_only() {
    check_dynamic_section(&shipped(), "libgdsync.so.2");
}

#[test]
#[ignore = "needs a C compiler, a C++ compiler, libibverbs-dev"]
fn the_headers_have_the_layout_and_the_signatures_of_2_2_in_c_and_in_cxx() {
    check_layout(&shipped(), "libgdsync", &headers());
}

#[test]
#[ignore = "needs a C++ compiler, libibverbs-dev"]
fn what_kernels_include_waits_as_it_says() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("device");
    let arguments = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"];
    compile(
        "c++",
        &arguments,
        &[package.join("tests/c/device.cc")],
        &program,
        &[],
    );
    succeed("device", &Command::new(&program).output().unwrap());
}

/// The library loads no CUDA by itself, and says what is missing where there is none.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn without_cuda_streams_are_refused_and_the_rest_works() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::copy(shipped(), here.join("libgdsync.so.2")).unwrap();
    let program = here.join("without");
    let libraries = [here.join("libgdsync.so.2").display().to_string()];
    let arguments = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];
    compile(
        "cc",
        &arguments,
        &[package.join("tests/c/without.c")],
        &program,
        &libraries,
    );
    let run = |paths: &std::ffi::OsStr| {
        Command::new(&program)
            .env("LD_LIBRARY_PATH", paths)
            .output()
            .unwrap()
    };
    if Path::new("/dev/nvidiactl").exists() {
        // A machine with a driver: whatever it answers is not this test's.
        return;
    }
    let alone = run(here.as_os_str());
    succeed("without", &alone);
    assert_eq!(
        String::from_utf8_lossy(&alone.stdout),
        format!("{}\n", libc::ENODEV)
    );
    // With a CUDA to be loaded it is loaded; no context is current, and none is made.
    let both = std::env::join_paths([here, &simulated_cuda()]).unwrap();
    let with = run(&both);
    succeed("with", &with);
    assert_eq!(
        String::from_utf8_lossy(&with.stdout),
        format!("{}\n", libc::EINVAL)
    );
}
