//! The binary itself: what it needs to start.

use std::process::Command;

#[test]
fn needs_only_libc_and_libgcc() {
    let output =
        Command::new("ldd").arg(env!("CARGO_BIN_EXE_gdr")).output().expect("ldd comes with libc");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut seen = 0;
    for line in text.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let file = name.rsplit('/').next().unwrap_or_default();
        let allowed = [
            "linux-vdso.so",
            "linux-gate.so",
            "ld-linux",
            "libc.so.6",
            // A part of glibc: logarithms.
            "libm.so.6",
            "libgcc_s.so.1",
        ];
        assert!(allowed.iter().any(|allowed| file.starts_with(allowed)), "it also needs: {line}");
        seen += 1;
    }
    assert!(seen >= 3, "ldd said nothing: {text}");
}

#[test]
fn prints_version() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_gdr")).arg("--version").output().expect("gdr starts");
    let wanted = format!("gdr {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
}

#[test]
fn prints_how_it_was_built() {
    for arguments in ["--version --verbose", "-v -V", "-Vv"] {
        let output = Command::new(env!("CARGO_BIN_EXE_gdr"))
            .args(arguments.split(' '))
            .output()
            .expect("gdr starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let first = format!("gdr {}", env!("CARGO_PKG_VERSION"));
        let names: Vec<&str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": ").map(|(name, _)| name))
            .collect();
        assert_eq!(text.lines().next(), Some(first.as_str()));
        assert_eq!(names, ["commit", "target", "glibc", "profile", "features"]);
    }
}
