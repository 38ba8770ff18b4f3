//! Host programs: runs them, and names the package of a missing one.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Debian package of each program.
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
    ("xz", "xz-utils"),
];

/// Runs a program to its end and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| missing(&name, error))?;
    if !status.success() {
        let message = String::from_utf8_lossy(&stderr);
        bail!("{command:?} ended with {status}: {}", message.trim());
    }
    String::from_utf8(stdout).with_context(|| format!("{name} wrote something that is not UTF-8"))
}

/// Copies a disk image, without its holes.
pub fn copy_disk(from: &Path, to: &Path) -> Result<()> {
    output(Command::new("cp").arg("--sparse=always").arg(from).arg(to)).map(drop)
}

/// The error of a program that cannot be started, with its package.
pub fn missing(name: &str, error: std::io::Error) -> anyhow::Error {
    let package =
        PACKAGES.iter().find(|(program, _)| *program == name).map(|(_, package)| *package);
    match (error.kind(), package) {
        (ErrorKind::NotFound, Some(package)) => {
            anyhow::anyhow!("{name} not found: apt-get install {package}")
        }
        _ => anyhow::Error::new(error).context(format!("cannot start {name}")),
    }
}

/// Prints one line of progress to standard error; a closed stderr is ignored.
pub fn progress(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "vm: {line}");
}
