//! RPM packages, written by the crate rpm.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rpm::{BuildConfig, CompressionType, Dependency, FileOptions, PackageBuilder};

use super::build::GLIBC;
use super::packages::{LICENSE, MAINTAINER, Package};
use super::{Arch, Release};
use crate::libraries::Content;

/// Directories of the package `filesystem`.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share",
    "/usr/share/doc",
    "/usr/share/licenses",
    "/usr/share/man",
    "/usr/share/man/man1",
];

/// Writes the package; returns its path.
pub fn write(
    out: &Path,
    release: &Release,
    arch: Arch,
    package: &Package,
) -> anyhow::Result<PathBuf> {
    let (version, revision) = (release.version, release.revision);
    let name = &package.name;
    let path = out.join(format!("{name}-{version}-{revision}.{}.rpm", arch.name()));
    // Version 4 of the format, and gzip: rpm of RHEL 8 and SLES 15 reads both.
    let config = BuildConfig::v4().compression(CompressionType::Gzip).source_date(release.time);
    let mut builder = PackageBuilder::new(name, version, LICENSE, arch.name(), package.summary);
    builder
        .using_config(config)
        .release(revision.to_string())
        .description(package.description.join("\n"))
        .group(match package.section {
            "utils" => "System/Base",
            "libdevel" => "Development/Libraries/C and C++",
            _ => "System/Libraries",
        })
        .packager(MAINTAINER)
        .build_host("localhost")
        .add_changelog_entry(
            format!("{MAINTAINER} - {}", release.package_version()),
            "- Made by 'cargo xtask dist'; CHANGELOG.md has the changes",
            release.time,
        );
    for file in &package.files {
        let path = format!("/{}", file.path);
        match &file.content {
            Content::Link(target) => builder.with_symlink(FileOptions::symlink(path, target))?,
            Content::Bytes { mode, bytes } => {
                let mut options = FileOptions::new(&path).mode(0o100_000 | u16::try_from(*mode)?);
                if path.starts_with("/usr/share/licenses/") {
                    options = options.license();
                } else if path.starts_with("/usr/share/doc/") || path.starts_with("/usr/share/man/")
                {
                    options = options.doc();
                }
                builder.with_file_contents(bytes.as_slice(), options)?
            }
        };
    }
    for directory in directories(package) {
        builder.with_dir_entry(FileOptions::dir(directory).mode(0o040_755))?;
    }
    relations(&mut builder, release, package);
    scripts(&mut builder, package);
    let built = builder.build().with_context(|| format!("package {name}"))?;
    built.write_file(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Directories that go with the package: all but those that every system has.
fn directories(package: &Package) -> BTreeSet<String> {
    let paths = package.files.iter().map(|file| format!("/{}", file.path));
    let parents = paths.flat_map(|path| {
        let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).collect();
        ends.into_iter().map(move |end| path[..end].to_owned())
    });
    let system = |path: &str| SYSTEM.contains(&path);
    parents.filter(|path| !system(path)).collect()
}

fn scripts(builder: &mut PackageBuilder, package: &Package) {
    let ldconfig = if package.sonames.is_empty() { "" } else { "/sbin/ldconfig\n" };
    // After an update, the number of packages that are left is 1.
    let last = "[ \"$1\" = 0 ] || exit 0\n";
    if let Some(script) = &package.installed {
        builder.post_install_script(format!("{ldconfig}{script}"));
    }
    if let Some(script) = &package.removing {
        builder.pre_uninstall_script(format!("{last}{script}"));
    }
    if let Some(script) = &package.removed {
        builder.post_uninstall_script(format!("{ldconfig}{last}{script}"));
    }
}

fn relations(builder: &mut PackageBuilder, release: &Release, package: &Package) {
    for name in &package.own {
        builder.requires(Dependency::eq(name, release.package_version()));
    }
    for name in &package.depends {
        builder.requires(Dependency::any(*name));
    }
    if package.has_code {
        builder.requires(Dependency::any(format!("libc.so.6(GLIBC_{GLIBC})(64bit)")));
    }
    // No Obsoletes: an update must not replace NVIDIA's package by itself.
    for name in &package.others {
        builder.conflicts(Dependency::any(name));
        builder.provides(Dependency::eq(name, &package.interface));
    }
    for (library, number) in &package.sonames {
        builder.provides(Dependency::any(format!("{library}.so.{number}()(64bit)")));
    }
    if let Some(name) = package.pkg_config {
        builder.provides(Dependency::eq(format!("pkgconfig({name})"), &package.interface));
    }
}
