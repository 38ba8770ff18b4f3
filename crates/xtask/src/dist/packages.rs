//! The packages: which files each has, and how it relates to others. A C library is an entry of `libraries::LIBRARIES`.

use std::fs;

use anyhow::Context as _;

use super::build::Built;
use super::tarball::compress;
use super::{Arch, Format, Release};
use crate::libraries::{Content, File, Library, workspace};

pub const MAINTAINER: &str = "gdr maintainers <gdr@localhost.invalid>";
pub const LICENSE: &str = "MIT OR Apache-2.0";
/// Programs that call gdr: directories of `integrations/`.
const INTEGRATIONS: [&str; 8] = [
    "grafana",
    "kubernetes",
    "kubernetes/preflight",
    "kubernetes/preflight-example",
    "nhc",
    "node-problem-detector",
    "prometheus",
    "slurm",
];

#[derive(Default)]
pub struct Package {
    pub name: String,
    pub section: &'static str,
    pub summary: &'static str,
    /// Lines.
    pub description: Vec<&'static str>,
    /// Packages of this release that it needs, in the same version.
    pub own: Vec<String>,
    /// Packages of the distribution that it needs.
    pub depends: Vec<&'static str>,
    /// Packages of others with the same files.
    pub others: Vec<String>,
    /// Names of the C library's file without number, and the number.
    pub sonames: Vec<(String, u32)>,
    /// Name of the pkg-config file.
    pub pkg_config: Option<&'static str>,
    /// Version of the C interface, for programs that ask for the other package.
    pub interface: String,
    /// It has programs or libraries.
    pub has_code: bool,
    /// Shell commands after installation, before removal, after removal.
    pub installed: Option<String>,
    pub removing: Option<String>,
    pub removed: Option<String>,
    /// Files of the workspace for the directory of documents.
    pub documents: &'static [&'static str],
    /// Without a leading slash.
    pub files: Vec<File>,
}

/// Where a kind of package has its files.
struct Layout {
    usr: &'static str,
    lib: String,
    zsh: &'static str,
    fish: &'static str,
}

impl Layout {
    fn new(format: Format, arch: Arch) -> Self {
        let (usr, lib, zsh, fish) = match format {
            Format::Deb => (
                "usr/",
                format!("lib/{}-linux-gnu", arch.name()),
                "vendor-completions",
                "vendor_completions.d",
            ),
            Format::Rpm => ("usr/", "lib64".to_owned(), "site-functions", "vendor_completions.d"),
            Format::Tar => ("", "lib".to_owned(), "site-functions", "vendor_completions.d"),
        };
        Self { usr, lib, zsh, fish }
    }
}

pub fn all(
    format: Format,
    release: &Release,
    arch: Arch,
    built: &Built,
    licenses: &str,
) -> anyhow::Result<Vec<Package>> {
    let layout = Layout::new(format, arch);
    let mut packages = vec![gdr(format, &layout, built)?];
    for (library, bytes) in &built.libraries {
        packages.push(runtime(format, &layout, library, bytes)?);
        packages.push(development(format, &layout, library)?);
    }
    if format == Format::Tar {
        let script = fs::read(workspace().join("packaging/install.sh"))?;
        packages[0].files.push(File::new("install.sh", 0o755, script));
    }
    for package in &mut packages {
        if format != Format::Tar {
            for file in &mut package.files {
                file.path.insert_str(0, layout.usr);
            }
        }
        texts(format, release, package, licenses)?;
        modes(format, package);
    }
    Ok(packages)
}

fn gdr(format: Format, layout: &Layout, built: &Built) -> anyhow::Result<Package> {
    let mut files = vec![File::new("bin/gdr", 0o755, built.gdr.clone())];
    for (name, bytes) in directory("docs/man")? {
        let (name, bytes) = (format!("{name}.gz"), compress(&bytes)?);
        files.push(File::new(format!("share/man/man1/{name}"), 0o644, bytes));
    }
    let (zsh, fish) = (layout.zsh, layout.fish);
    for (name, bytes) in directory("completions")? {
        files.push(match name.as_str() {
            "gdr.bash" => File::new("share/bash-completion/completions/gdr", 0o644, bytes),
            "_gdr" => File::new(format!("share/zsh/{zsh}/_gdr"), 0o644, bytes),
            "gdr.fish" => File::new(format!("share/fish/{fish}/gdr.fish"), 0o644, bytes),
            _ => anyhow::bail!("completions/{name}: no package has a place for it"),
        });
    }
    for (from, to) in [("profiles", "share/gdr/profiles"), ("docs/schema", "share/gdr/schema")] {
        for (name, bytes) in directory(from)? {
            files.push(File::new(format!("{to}/{name}"), 0o644, bytes));
        }
    }
    for caller in INTEGRATIONS {
        for (name, bytes) in directory(&format!("integrations/{caller}"))? {
            let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
            let path = format!("share/gdr/integrations/{caller}/{name}");
            files.push(File::new(path, mode, bytes));
        }
    }
    if format != Format::Tar {
        for (name, bytes) in directory("packaging/systemd")? {
            files.push(File::new(format!("lib/systemd/system/{name}"), 0o644, bytes));
        }
    }
    Ok(Package {
        name: "gdr".to_owned(),
        section: "utils",
        summary: "checks, repairs and proves NVIDIA GPUDirect",
        description: vec![
            "gdr tells whether NVIDIA GPUDirect works on a machine. If it does not, it",
            "names the cause and can make the fix; if it does, it moves data, verifies",
            "every byte and measures the speed. It needs only libc: NVIDIA's driver and",
            "RDMA libraries are found at run time, and reported if they are missing.",
        ],
        has_code: true,
        installed: Some(script("gdr.installed")?),
        removing: Some(script("gdr.removing")?),
        removed: Some(script("gdr.removed")?),
        files,
        ..Package::default()
    })
}

fn runtime(
    format: Format,
    layout: &Layout,
    library: &Library,
    bytes: &[u8],
) -> anyhow::Result<Package> {
    let (major, minor) = library.interface()?;
    let file = format!("lib{}", library.name);
    let alias = library.alias.map(|alias| (format!("lib{alias}"), major));
    let others = match format {
        Format::Rpm => library.other_rpms,
        Format::Deb | Format::Tar => library.other_debs,
    };
    let soname = format!("{file}.so.{major}");
    Ok(Package {
        name: format!("gdr-{file}"),
        section: "libs",
        summary: library.summary,
        description: vec![
            "A library with the interface and the file name of NVIDIA's: programs that",
            "were built for that one use this one unchanged.",
        ],
        others: others.iter().map(|&name| name.to_owned()).collect(),
        sonames: [(file, major)].into_iter().chain(alias).collect(),
        interface: format!("{major}.{minor}"),
        has_code: true,
        installed: Some(script("library.installed")?.replace("@SONAME@", &soname)),
        removed: (format == Format::Rpm).then(|| ":\n".to_owned()),
        files: library.runtime(&layout.lib, bytes.to_vec())?,
        ..Package::default()
    })
}

fn development(format: Format, layout: &Layout, library: &Library) -> anyhow::Result<Package> {
    let (suffix, depends) = match format {
        Format::Rpm => ("devel", library.needs_rpms),
        Format::Deb | Format::Tar => ("dev", library.needs_debs),
    };
    // pkg-config knows where its file lies, so an unpacked archive may be anywhere.
    let prefix = match format {
        Format::Tar => "${pcfiledir}/../..",
        Format::Deb | Format::Rpm => "/usr",
    };
    let (major, minor) = library.interface()?;
    let mut own = vec![format!("gdr-lib{}", library.name)];
    let needs = library.needs.iter();
    own.extend(needs.map(|name| format!("gdr-lib{name}-{suffix}")));
    // NVIDIA's debs have the headers in the package of the library, its rpms in one of their own.
    let others = match format {
        Format::Rpm => library.other_rpms,
        Format::Deb | Format::Tar => &[],
    };
    Ok(Package {
        name: format!("gdr-lib{}-{suffix}", library.name),
        section: "libdevel",
        summary: library.summary,
        description: vec!["Headers, the link that the linker follows, and the pkg-config file."],
        own,
        depends: depends.to_vec(),
        others: others.iter().map(|name| format!("{name}-devel")).collect(),
        pkg_config: Some(library.name),
        interface: format!("{major}.{minor}"),
        documents: library.documents,
        files: library.development(prefix, &layout.lib)?,
        ..Package::default()
    })
}

/// Adds the licences, and what the distributions want to find.
fn texts(
    format: Format,
    release: &Release,
    package: &mut Package,
    licenses: &str,
) -> anyhow::Result<()> {
    let name = &package.name;
    // One directory for all that an archive has; rpmlint wants a library's files to have the SONAME's number in their paths.
    let (doc, license) = match (format, package.sonames.first()) {
        (Format::Tar, _) => ("share/doc/gdr".to_owned(), "share/doc/gdr".to_owned()),
        (Format::Deb, _) => (format!("usr/share/doc/{name}"), format!("usr/share/doc/{name}")),
        (Format::Rpm, soname) => {
            let number = soname.map(|(_, number)| format!("-{number}"));
            let name = name.clone() + &number.unwrap_or_default();
            (format!("usr/share/doc/{name}"), format!("usr/share/licenses/{name}"))
        }
    };
    let read = |name: &str| fs::read(workspace().join(name)).with_context(|| name.to_owned());
    for document in package.documents {
        let (_, file) = document.rsplit_once('/').unwrap_or(("", document));
        let path = if file.ends_with(".c") {
            format!("{doc}/examples/{file}")
        } else {
            format!("{doc}/{file}")
        };
        package.files.push(File::new(path, 0o644, read(document)?));
    }
    if format == Format::Tar && package.name != "gdr" {
        return Ok(());
    }
    let (mit, apache) = (read("LICENSE-MIT")?, read("LICENSE-APACHE")?);
    let changes = compress(&read("CHANGELOG.md")?)?;
    let mut add = |directory: &str, name: &str, bytes: Vec<u8>| {
        let path = format!("{directory}/{name}");
        package.files.push(File::new(path, 0o644, bytes));
    };
    if format == Format::Deb {
        let mut text = b"gdr is licensed under the MIT license or, at your choice, the Apache License, version 2.0,\n\
            which is in /usr/share/common-licenses/Apache-2.0.\nCopyright: the contributors to gdr\n\n".to_vec();
        text.extend(mit);
        add(&doc, "copyright", text);
        let (version, date) = (release.package_version(), &release.date);
        let text = format!(
            "gdr ({version}) unstable; urgency=medium\n\n  * Made by 'cargo xtask dist'; changelog.gz has the changes.\n\n \
             -- {MAINTAINER}  {date}\n"
        );
        add(&doc, "changelog.Debian.gz", compress(text.as_bytes())?);
        add(&doc, "changelog.gz", changes);
    } else {
        add(&license, "LICENSE-MIT", mit);
        add(&license, "LICENSE-APACHE", apache);
        add(&doc, "CHANGELOG.md.gz", changes);
    }
    if package.has_code {
        add(&license, "crates.txt.gz", compress(licenses.as_bytes())?);
    }
    Ok(())
}

/// Debian's shared libraries are not executable.
fn modes(format: Format, package: &mut Package) {
    for file in &mut package.files {
        if let Content::Bytes { mode, .. } = &mut file.content
            && format == Format::Deb
            && !package.sonames.is_empty()
        {
            *mode = 0o644;
        }
    }
}

fn script(name: &str) -> anyhow::Result<String> {
    let path = workspace().join("packaging/scripts").join(name);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The files of a directory of the workspace, by name.
fn directory(name: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let path = workspace().join(name);
    let mut files = Vec::new();
    for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
        let entry = entry?;
        if entry.path().is_dir() {
            // It is named by itself.
            continue;
        }
        files.push((entry.file_name().display().to_string(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_with_a_description_and_an_example() {
        let library = Library::by_name("gdrapi").expect("the library");
        for (format, directory) in [
            (Format::Deb, "usr/share/doc/gdr-libgdrapi-dev"),
            (Format::Rpm, "usr/share/doc/gdr-libgdrapi-devel"),
            (Format::Tar, "share/doc/gdr"),
        ] {
            let layout = Layout::new(format, Arch::X86_64);
            let mut package = development(format, &layout, library).expect("a package");
            let release = Release::new(1).expect("a release");
            texts(format, &release, &mut package, "").expect("texts");
            for file in ["gdrcopy.md", "examples/copy.c"] {
                let path = format!("{directory}/{file}");
                assert!(package.files.iter().any(|file| file.path == path), "{path}");
            }
        }
    }
}
