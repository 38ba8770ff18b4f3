//! RPM packages, written by the crate rpm.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rpm::{BuildConfig, CompressionType, Dependency, FileOptions, PackageBuilder};

use super::build::GLIBC;
use super::packages::{LICENSE, MAINTAINER, Package};
use super::{Arch, Release};
use crate::libraries::Content;

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
    let config = BuildConfig::v4()
        .compression(CompressionType::Gzip)
        .source_date(release.time);
    let mut builder = PackageBuilder::new(name, version, LICENSE, arch.name(), package.summary);
    builder
        .using_config(config)
        .release(revision.to_string())
        .description(package.description.join("\n"))
        .group(if package.section == "utils" {
            "System/Base"
        } else {
            "System/Libraries"
        })
        .packager(MAINTAINER)
        .build_host("localhost");
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
    relations(&mut builder, release, package);
    for (script, argument, set) in [
        (
            &package.installed,
            None,
            PackageBuilder::post_install_script as fn(&mut _, String) -> &mut _,
        ),
        (
            &package.removing,
            Some(0),
            PackageBuilder::pre_uninstall_script,
        ),
        (
            &package.removed,
            Some(0),
            PackageBuilder::post_uninstall_script,
        ),
    ] {
        let ldconfig = package.soname.as_ref().map_or("", |_| "/sbin/ldconfig\n");
        let when = argument.map_or(String::new(), |number| {
            format!("[ \"$1\" = {number} ] || exit 0\n")
        });
        if let Some(script) = script {
            set(&mut builder, format!("{ldconfig}{when}{script}"));
        }
    }
    let built = builder.build().with_context(|| format!("package {name}"))?;
    built
        .write_file(&path)
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

fn relations(builder: &mut PackageBuilder, release: &Release, package: &Package) {
    for name in &package.own {
        builder.requires(Dependency::eq(
            name,
            format!("{}-{}", release.version, release.revision),
        ));
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
    }
    if let Some((library, number)) = &package.soname {
        builder.provides(Dependency::any(format!("{library}.so.{number}()(64bit)")));
    }
}
