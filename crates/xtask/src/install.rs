//! The C libraries of this workspace and their installed files: versioned file and links, headers, pkg-config file.
//! `cargo xtask install-capi` puts them into a prefix; `dist` packs them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// `cargo xtask install-capi`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Installed location: PREFIX/lib, PREFIX/include
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    pub prefix: PathBuf,
    /// Staging directory in front of the prefix, as in packaging
    #[arg(long, value_name = "DIR")]
    pub destdir: Option<PathBuf>,
    /// Library; may be repeated. libgdsync's headers need libgdrapi's
    #[arg(long = "library", value_name = "NAME", default_value = "gdrapi")]
    pub libraries: Vec<Library>,
    /// The profile to build with
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub profile: String,
}

/// A C library of this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Library {
    /// libgdrapi.so.2
    Gdrapi,
    /// libgdsync.so.2
    Gdsync,
}

/// One installed file, relative to the prefix or the root of a package.
#[derive(Debug, Clone)]
pub struct File {
    pub path: String,
    pub content: Content,
}

#[derive(Debug, Clone)]
pub enum Content {
    Bytes { mode: u32, bytes: Vec<u8> },
    Link(String),
}

impl File {
    pub fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        let (path, bytes) = (path.into(), bytes.into());
        let content = Content::Bytes { mode, bytes };
        Self { path, content }
    }

    fn link(path: String, target: String) -> Self {
        let content = Content::Link(target);
        Self { path, content }
    }
}

impl Library {
    /// Name in the library's file; the package is NAME-capi.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gdrapi => "gdrapi",
            Self::Gdsync => "gdsync",
        }
    }

    /// File name of cargo's output.
    pub fn artifact(self) -> &'static str {
        match self {
            Self::Gdrapi => "libgdrapi.so",
            Self::Gdsync => "libgdsync_capi.so",
        }
    }

    /// The header with the version, and the prefix of its two constants.
    fn version(self) -> (&'static str, &'static str) {
        match self {
            Self::Gdrapi => ("gdrapi.h", "GDR_API"),
            Self::Gdsync => ("gdsync/core.h", "GDS_API"),
        }
    }

    /// The first line of the package's description.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Gdrapi => "gdrcopy library that needs no kernel module",
            Self::Gdsync => "GPUDirect Async library for upstream rdma-core",
        }
    }

    /// Packages of others with the same library file: Debian's names, and RPM's.
    pub fn others(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            // gdrcopy 2.2 and earlier had the library in the deb of that name.
            Self::Gdrapi => (&["libgdrapi", "gdrcopy (<= 2.2-1)"], &["gdrcopy"]),
            Self::Gdsync => (&["libgdsync"], &["libgdsync"]),
        }
    }

    /// The library whose headers this one's headers include.
    pub fn needs(self) -> Option<Self> {
        match self {
            Self::Gdrapi => None,
            Self::Gdsync => Some(Self::Gdrapi),
        }
    }

    /// Packages of Debian or of RPM distributions that its headers need.
    pub fn needs_packages(self, debian: bool) -> &'static [&'static str] {
        match (self, debian) {
            (Self::Gdrapi, _) => &[],
            (Self::Gdsync, true) => &["libibverbs-dev"],
            (Self::Gdsync, false) => &["pkgconfig(libibverbs)"],
        }
    }

    fn package(self) -> PathBuf {
        workspace().join(format!("crates/{}-capi", self.name()))
    }

    /// The version of the interface: the number in the SONAME, and the next.
    pub fn interface(self) -> anyhow::Result<(u32, u32)> {
        let (header, constants) = self.version();
        let header = self.package().join("include").join(header);
        let text = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
        version(&text, constants)
    }

    /// What a program needs at run time; `library` is the content of cargo's output.
    pub fn runtime(self, lib: &str, library: Vec<u8>) -> anyhow::Result<Vec<File>> {
        let (name, (major, minor)) = (self.name(), self.interface()?);
        let full = format!("lib{name}.so.{major}.{minor}");
        Ok(vec![
            File::link(format!("{lib}/lib{name}.so.{major}"), full.clone()),
            File::new(format!("{lib}/{full}"), 0o755, library),
        ])
    }

    /// What the compiler needs; `prefix` is what the pkg-config file says, `lib` a directory below it.
    pub fn development(self, prefix: &str, lib: &str) -> anyhow::Result<Vec<File>> {
        let (name, (major, minor)) = (self.name(), self.interface()?);
        let target = format!("lib{name}.so.{major}");
        let mut files = vec![File::link(format!("{lib}/lib{name}.so"), target)];
        for header in self.headers() {
            let bytes = fs::read(self.package().join("include").join(header))?;
            files.push(File::new(format!("include/{header}"), 0o644, bytes));
        }
        let text = fs::read_to_string(self.package().join(format!("{name}.pc.in")))?
            .replace("@PREFIX@", prefix)
            .replace("libdir=${prefix}/lib\n", &format!("libdir=${{prefix}}/{lib}\n"))
            .replace("@VERSION@", &format!("{major}.{minor}"));
        let path = format!("{lib}/pkgconfig/{name}.pc");
        files.push(File::new(path, 0o644, text));
        Ok(files)
    }

    fn headers(self) -> &'static [&'static str] {
        match self {
            Self::Gdrapi => &["gdrapi.h", "gdrconfig.h"],
            Self::Gdsync => &[
                "gdsync.h",
                "gdsync/compat/infiniband/gdsync_exp.h",
                "gdsync/compat/infiniband/verbs_exp.h",
                "gdsync/core.h",
                "gdsync/device.cuh",
                "gdsync/mlx5.h",
                "gdsync/tools.h",
            ],
        }
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.prefix.is_absolute() {
        bail!("--prefix {} is not an absolute path", args.prefix.display());
    }
    args.libraries
        .iter()
        .try_for_each(|library| install(args, *library))
}

fn install(args: &Args, which: Library) -> anyhow::Result<()> {
    let library = fs::read(build(which, &args.profile)?)?;
    let root = match &args.destdir {
        Some(destdir) => destdir.join(args.prefix.components().filter(normal).collect::<PathBuf>()),
        None => args.prefix.clone(),
    };
    let mut files = which.runtime("lib", library)?;
    files.extend(which.development(&args.prefix.display().to_string(), "lib")?);
    for file in &files {
        let path = root.join(&file.path);
        match &file.content {
            Content::Bytes { mode, bytes } => place(bytes, *mode, &path)?,
            Content::Link(target) => link(target, &path)?,
        }
    }
    Ok(())
}

/// Builds the library; returns its path.
fn build(which: Library, profile: &str) -> anyhow::Result<PathBuf> {
    let package = format!("{}-capi", which.name());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", &package, "--lib"])
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--profile",
            profile,
        ])
        .current_dir(workspace())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build -p {package}: {}", output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("filenames")?.as_array().cloned())
        .flatten();
    let mut names = files.filter_map(|file| file.as_str().map(PathBuf::from));
    let file = which.artifact();
    let library = names.find(|path| path.file_name().is_some_and(|found| found == file));
    library.with_context(|| format!("cargo built no {file}"))
}

/// Values of `…_MAJOR_VERSION` and `…_MINOR_VERSION` in the header.
fn version(header: &str, constants: &str) -> anyhow::Result<(u32, u32)> {
    let number = |which: &str| -> anyhow::Result<u32> {
        let name = format!("{constants}_{which}_VERSION");
        let line = header
            .lines()
            .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(&name));
        let text = line.with_context(|| format!("the header defines no {name}"))?;
        text.trim()
            .parse()
            .with_context(|| format!("{name} is {text}"))
    };
    Ok((number("MAJOR")?, number("MINOR")?))
}

/// Writes a file atomically: a process that uses the old file keeps it.
fn place(bytes: &[u8], mode: u32, path: &Path) -> anyhow::Result<()> {
    let fresh = sibling(path)?;
    fs::write(&fresh, bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
    fs::rename(&fresh, path).with_context(|| format!("cannot write {}", path.display()))
}

fn link(target: &str, path: &Path) -> anyhow::Result<()> {
    let fresh = sibling(path)?;
    symlink(target, &fresh).with_context(|| format!("cannot link {}", fresh.display()))?;
    fs::rename(&fresh, path).with_context(|| format!("cannot link {}", path.display()))
}

/// A free name beside `path`, whose directory is created.
fn sibling(path: &Path) -> anyhow::Result<PathBuf> {
    let directory = path.parent().context("a path below the prefix")?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    Ok(name.into())
}

fn normal(component: &Component<'_>) -> bool {
    matches!(component, Component::Normal(_))
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
