//! The library as a file, and the headers: exactly what programs built for libgdsync look for.

use std::path::Path;
use std::process::Command;

use crate::need::{Need, need};
use crate::support::{compile, shipped, simulated_cuda, succeed};

#[test]
fn exactly_these_functions_are_exported() {
    if !need(Need::Binutils) {
        return;
    }
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(shipped())
        .output();
    let output = output.expect("nm, of binutils");
    succeed("nm", &output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, kind, name] = fields.as_slice() else {
            panic!("nm: {line}");
        };
        assert_eq!(kind, "T", "{name} is no function of global text");
        names.push(name);
    }
    names.sort_unstable();
    let expected: Vec<&str> = include_str!("exported.txt").lines().collect();
    assert_eq!(names, expected);
}

#[test]
fn the_loader_finds_the_name_of_libgdsync_and_needs_libc_only() {
    if !need(Need::Binutils) {
        return;
    }
    let output = Command::new("readelf")
        .args(["-d", "-V"])
        .arg(shipped())
        .output();
    let output = output.expect("readelf, of binutils");
    succeed("readelf", &output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let values = |key: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains(key));
        let value = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
        lines.filter_map(value).collect()
    };
    assert_eq!(values("(SONAME)"), ["libgdsync.so.2"]);
    let needed = values("(NEEDED)");
    let known = [
        "libc.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    ];
    for library in &needed {
        // A sanitized build is no library that ships.
        let sanitizer = std::env::var_os("GDR_TEST_CFLAGS").is_some() && library.contains("asan");
        assert!(
            known.contains(&library.as_str()) || sanitizer,
            "needs {library}"
        );
    }
    assert!(needed.iter().any(|library| library == "libc.so.6"));
    assert!(values("(RUNPATH)").is_empty() && values("(RPATH)").is_empty());
    assert!(
        text.contains("NODELETE"),
        "what it registered would lose its owner to a dlclose"
    );
}

#[test]
fn the_headers_have_the_layout_and_the_signatures_of_2_2_in_c_and_in_cxx() {
    if !(need(Need::C) && need(Need::Cxx) && need(Need::VerbsHeaders)) {
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libgdsync.so");
    std::fs::copy(shipped(), &library).unwrap();
    std::os::unix::fs::symlink("libgdsync.so", directory.path().join("libgdsync.so.2")).unwrap();
    for (compiler, language, standard) in [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++17")] {
        let program = directory.path().join(language);
        let arguments = [standard, "-Wall", "-Wextra", "-Werror", "-x", language];
        let libraries = [
            "-x".to_owned(),
            "none".to_owned(),
            library.display().to_string(),
        ];
        compile(
            compiler,
            &arguments,
            &[package.join("tests/c/layout.c")],
            &program,
            &libraries,
        );
        let output = Command::new(&program)
            .env("LD_LIBRARY_PATH", directory.path())
            .output();
        succeed(language, &output.unwrap());
    }
}

#[test]
fn what_kernels_include_waits_as_it_says() {
    if !(need(Need::Cxx) && need(Need::VerbsHeaders)) {
        return;
    }
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
fn without_cuda_streams_are_refused_and_the_rest_works() {
    if !(need(Need::C) && need(Need::VerbsHeaders)) {
        return;
    }
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
