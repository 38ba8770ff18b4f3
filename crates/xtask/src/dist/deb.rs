//! Debian packages: an ar archive of two tar archives (deb(5)).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::build::GLIBC;
use super::packages::Package;
use super::tarball::{archive, compress};
use super::{Arch, Release};
use crate::libraries::{Content, File};

/// Writes the package; returns its path.
pub fn write(
    out: &Path,
    release: &Release,
    arch: Arch,
    package: &Package,
) -> anyhow::Result<PathBuf> {
    let version = release.package_version();
    let path = out.join(format!("{}_{version}_{}.deb", package.name, arch.debian()));
    // dpkg makes the list of checksums itself when it unpacks.
    let mut control = vec![File::new("control", 0o644, fields(&version, arch, package))];
    control.extend(scripts(package));
    let control = compress(&archive("./", &control, release.time)?)?;
    let data = compress(&archive("./", &package.files, release.time)?)?;
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, member) in [
        ("debian-binary", b"2.0\n".as_slice()),
        ("control.tar.gz", &control),
        ("data.tar.gz", &data),
    ] {
        let size = member.len();
        bytes.extend(
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", release.time, 0, 0, "100644")
                .bytes(),
        );
        bytes.extend(member);
        if size % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn fields(version: &str, arch: Arch, package: &Package) -> String {
    let size: usize = package.files.iter().map(|file| size(file).div_ceil(1024)).sum();
    let mut depends: Vec<String> =
        package.own.iter().map(|name| format!("{name} (= {version})")).collect();
    depends.extend(package.depends.iter().map(|&name| name.to_owned()));
    if package.has_code {
        depends.push(format!("libc6 (>= {GLIBC})"));
    }
    let mut text = format!(
        "Package: {}\nVersion: {version}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\nSection: {}\nPriority: optional\n",
        package.name,
        arch.debian(),
        super::packages::MAINTAINER,
        package.section,
    );
    let others = package.others.join(", ");
    let names: Vec<&str> =
        package.others.iter().map(String::as_str).filter(|name| !name.contains(' ')).collect();
    let provided = if package.interface.is_empty() { &[] } else { names.as_slice() };
    let provides: Vec<String> =
        provided.iter().map(|name| format!("{name} (= {}-1)", package.interface)).collect();
    for (field, value) in [
        ("Depends", depends.join(", ")),
        ("Conflicts", others.clone()),
        ("Replaces", others),
        ("Provides", provides.join(", ")),
    ] {
        if !value.is_empty() {
            // Ignored: a String takes all.
            let _ = writeln!(text, "{field}: {value}");
        }
    }
    let _ = writeln!(text, "Description: {}", package.summary);
    for line in &package.description {
        let _ = writeln!(text, " {line}");
    }
    text
}

fn size(file: &File) -> usize {
    match &file.content {
        Content::Bytes { bytes, .. } => bytes.len(),
        Content::Link(_) => 1,
    }
}

fn scripts(package: &Package) -> Vec<File> {
    let mut files = Vec::new();
    for (name, when, script) in [
        ("postinst", "configure", &package.installed),
        ("prerm", "remove", &package.removing),
        ("postrm", "remove", &package.removed),
    ] {
        if let Some(script) = script {
            let text = format!("#!/bin/sh\nset -e\n[ \"$1\" = {when} ] || exit 0\n{script}");
            files.push(File::new(name, 0o755, text));
        }
    }
    if !package.sonames.is_empty() {
        let triggers = "activate-noawait ldconfig\n";
        files.push(File::new("triggers", 0o644, triggers));
        let lines = package.sonames.iter();
        let lines = lines.map(|(library, number)| format!("{library} {number} {}\n", package.name));
        files.push(File::new("shlibs", 0o644, lines.collect::<String>()));
    }
    files
}
