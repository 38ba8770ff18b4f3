//! `cargo xtask install-capi`, and a program built against the installed library as users build theirs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn succeed(what: &str, output: &Output) -> String {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn install(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["install-capi", "--profile", "dev"])
        .args(arguments)
        .output()
        .expect("xtask was built")
}

#[test]
fn builds_program_against_installation() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("opt");
    // Twice, because an update overwrites an installation.
    for _ in 0..2 {
        succeed("install-capi", &install(&["--prefix".as_ref(), prefix.as_os_str()]));
    }
    let mut names: Vec<_> =
        fs::read_dir(prefix.join("lib")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["libgdrapi.so", "libgdrapi.so.2", "libgdrapi.so.2.6", "pkgconfig"]);
    let target = |name: &str| fs::read_link(prefix.join("lib").join(name)).unwrap();
    assert_eq!(target("libgdrapi.so"), Path::new("libgdrapi.so.2"));
    assert_eq!(target("libgdrapi.so.2"), Path::new("libgdrapi.so.2.6"));
    let mode = |path: &str| fs::metadata(prefix.join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("lib/libgdrapi.so.2.6"), mode("include/gdrapi.h")), (0o755, 0o644));

    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "gdrapi"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    let flags = succeed("pkg-config", &flags);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gdrapi-capi/tests/c/quiet.c");
    let program = directory.path().join("program");
    let compiled = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace())
        .output();
    succeed("cc", &compiled.unwrap());
    let ran = Command::new(&program)
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .env("GDR_BACKEND", "sim")
        .output()
        .unwrap();
    assert_eq!(succeed("program", &ran), "open 0\nopen 0\nopen 0\n");
}

#[test]
fn stages_package_below_root() {
    let stage = tempfile::tempdir().unwrap();
    let arguments =
        ["--destdir".as_ref(), stage.path().as_os_str(), "--prefix".as_ref(), "/usr".as_ref()];
    succeed("install-capi", &install(&arguments));
    let text = fs::read_to_string(stage.path().join("usr/lib/pkgconfig/gdrapi.pc")).unwrap();
    assert!(text.starts_with("prefix=/usr\n"), "{text}");
    assert!(text.contains("\nVersion: 2.6\n"), "{text}");
}

/// Cargo only warns about two targets with one output file, of which the later wins.
#[test]
fn target_files_are_unique() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let mut found = std::collections::BTreeSet::new();
    for target in packages.iter().flat_map(|package| package["targets"].as_array().unwrap()) {
        let kinds: Vec<&str> =
            target["kind"].as_array().unwrap().iter().filter_map(|kind| kind.as_str()).collect();
        let kind = match kinds.as_slice() {
            ["bin"] => "program",
            kinds
                if kinds
                    .iter()
                    .any(|kind| ["lib", "rlib", "cdylib", "proc-macro"].contains(kind)) =>
            {
                "library"
            }
            _ => continue,
        };
        let name = target["name"].as_str().unwrap().replace('-', "_");
        assert!(found.insert((kind, name.clone())), "two targets make the {kind} {name}");
    }
    assert!(found.contains(&("library", "gdsync".to_owned())), "{found:?}");
}

#[test]
fn rejects_relative_prefix() {
    let output = install(&["--prefix".as_ref(), "here".as_ref()]);
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("--prefix here is not an absolute path")
    );
}

#[test]
fn libgdsync_headers() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("opt");
    let both = ["--library", "gdrapi", "--library", "gdsync", "--prefix"].map(OsStr::new);
    succeed("install-capi", &install(&[&both[..], &[prefix.as_os_str()]].concat()));
    let target = |name: &str| fs::read_link(prefix.join("lib").join(name)).unwrap();
    assert_eq!(target("libgdsync.so"), Path::new("libgdsync.so.2"));
    assert_eq!(target("libgdsync.so.2"), Path::new("libgdsync.so.2.2"));
    for header in [
        "gdrapi.h",
        "gdsync.h",
        "gdsync/compat/infiniband/gdsync_exp.h",
        "gdsync/compat/infiniband/verbs_exp.h",
        "gdsync/core.h",
        "gdsync/tools.h",
        "gdsync/mlx5.h",
        "gdsync/device.cuh",
    ] {
        assert!(prefix.join("include").join(header).is_file(), "{header}");
    }
    let package = fs::read_to_string(prefix.join("lib/pkgconfig/gdsync.pc")).unwrap();
    assert!(package.contains(&format!("prefix={}\n", prefix.display())), "{package}");
    assert!(package.contains("Version: 2.2\n"), "{package}");

    let include = format!("-I{}", prefix.join("include").display());
    let lib = format!("-L{}", prefix.join("lib").display());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = directory.path().join("program");
    let compiled = Command::new("cc")
        .args([&include, &lib])
        // In place of CUDA's header.
        .arg("-I")
        .arg(crates.join("gdsync-capi/tests/stubs"))
        .arg("-o")
        .arg(&program)
        .arg(crates.join("gdsync-capi/tests/c/layout.c"))
        .arg("-lgdsync")
        .output();
    succeed("cc", &compiled.unwrap());
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")).output();
    succeed("program", &ran.unwrap());
}

#[test]
#[ignore = "needs MPICH, libibverbs-dev"]
fn libmp_and_its_comm_library() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("opt");
    let all = ["gdrapi", "gdsync", "mp"].map(|name| ["--library", name]);
    let mut arguments: Vec<&OsStr> = all.iter().flatten().map(OsStr::new).collect();
    arguments.extend(["--prefix".as_ref(), prefix.as_os_str()]);
    succeed("install-capi", &install(&arguments));
    let target = |name: &str| fs::read_link(prefix.join("lib").join(name)).unwrap();
    assert_eq!(target("libmp.so"), Path::new("libmp.so.2"));
    assert_eq!(target("libmp.so.2"), Path::new("libmp.so.2.0"));
    assert_eq!(target("libmpcomm.so"), Path::new("libmp.so.2"));
    assert_eq!(target("libmpcomm.so.2"), Path::new("libmp.so.2"));

    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "mp"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let flags = succeed("pkg-config", &flags.unwrap());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for library in ["-lmp", "-lmpcomm"] {
        let program = directory.path().join("program");
        let compiled = Command::new("mpicc.mpich")
            .arg("-o")
            .arg(&program)
            .arg(crates.join("mp-capi/tests/c/layout.c"))
            .arg(library)
            .args(flags.split_whitespace())
            // In place of CUDA's headers.
            .arg("-I")
            .arg(crates.join("mp-capi/tests/stubs"))
            .arg("-I")
            .arg(crates.join("gdsync-capi/tests/stubs"))
            .output();
        succeed(library, &compiled.unwrap());
        let ran = Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")).output();
        succeed("program", &ran.unwrap());
    }
}
