//! The programs the host must have: run here, and named with their package when they are missing.

use std::io::{ErrorKind, Write};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Where each program comes from on Debian.
const PACKAGES: &[(&str, &str)] = &[
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("dpkg", "dpkg"),
    ("gcc-12", "gcc-12"),
    ("ldd", "libc-bin"),
    ("make", "make"),
    ("mmdebstrap", "mmdebstrap"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("tar", "tar"),
];

/// Runs a program to its end and hands back its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|error| missing(&name, error))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        bail!("{command:?} ended with {status}: {}", said.trim());
    }
    String::from_utf8(stdout).with_context(|| format!("{name} wrote something that is not UTF-8"))
}

/// The error of a program that could not be started, with the package that brings it.
pub fn missing(name: &str, error: std::io::Error) -> anyhow::Error {
    let package = PACKAGES
        .iter()
        .find(|(program, _)| *program == name)
        .map(|(_, package)| *package);
    match (error.kind(), package) {
        (ErrorKind::NotFound, Some(package)) => {
            anyhow::anyhow!("{name} not found: apt-get install {package}")
        }
        _ => anyhow::Error::new(error).context(format!("{name} could not be started")),
    }
}

/// One line of progress on standard error. Nobody reads it by machine, so a closed stderr is no reason to stop.
pub fn progress(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "vm: {line}");
}
