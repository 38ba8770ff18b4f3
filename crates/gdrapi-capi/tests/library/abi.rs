//! The library as a file, and the header: exactly what programs built for gdrcopy look for.

use std::path::Path;
use std::process::Command;

use crate::need::{Need, need};
use crate::support::{shipped, succeed};

#[test]
fn exactly_the_17_functions_are_exported() {
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
    assert_eq!(expected.len(), 17);
    assert_eq!(names, expected);
}

#[test]
fn the_loader_finds_the_name_of_gdrcopy_and_needs_libc_only() {
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
    assert_eq!(values("(SONAME)"), ["libgdrapi.so.2"]);
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
        !text.contains("Version definition section"),
        "gdrcopy's symbols have no versions"
    );
    assert!(
        text.contains("NODELETE"),
        "its threads would lose their code to a dlclose"
    );
}

#[test]
fn the_header_has_the_layout_and_the_signatures_of_2_6_in_c_and_in_cxx() {
    if !(need(Need::C) && need(Need::Cxx)) {
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libgdrapi.so");
    std::fs::copy(shipped(), &library).unwrap();
    std::os::unix::fs::symlink("libgdrapi.so", directory.path().join("libgdrapi.so.2")).unwrap();
    for (compiler, language, standard) in [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++17")] {
        let program = directory.path().join(language);
        let output = Command::new(compiler)
            .args([
                standard,
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-expansion-to-defined",
                "-x",
                language,
                "-I",
            ])
            .arg(package.join("include"))
            .arg(package.join("tests/c/layout.c"))
            .args(["-x", "none", "-o"])
            .arg(&program)
            .arg(&library)
            .args(
                std::env::var("GDR_TEST_CFLAGS")
                    .unwrap_or_default()
                    .split_whitespace(),
            )
            .output()
            .unwrap();
        succeed(compiler, &output);
        let output = Command::new(&program)
            .env("LD_LIBRARY_PATH", directory.path())
            .output();
        succeed(language, &output.unwrap());
    }
}
