//! Installs a C library in a prefix: versioned file and links, headers, pkg-config file.

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
    /// Library; may be repeated. libgdsync's headers need libgdrapi's, and libmp's need both
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
    /// libmp.so.2, also as libmpcomm.so.2
    Mp,
}

impl Library {
    /// Name in the library's file; the package is NAME-capi.
    fn name(self) -> &'static str {
        match self {
            Self::Gdrapi => "gdrapi",
            Self::Gdsync => "gdsync",
            Self::Mp => "mp",
        }
    }

    /// File name of cargo's output.
    fn artifact(self) -> &'static str {
        match self {
            Self::Gdrapi => "libgdrapi.so",
            Self::Gdsync => "libgdsync_capi.so",
            Self::Mp => "libmp_capi.so",
        }
    }

    /// The header with the version, and the prefix of its two constants.
    fn version(self) -> (&'static str, &'static str) {
        match self {
            Self::Gdrapi => ("gdrapi.h", "GDR_API"),
            Self::Gdsync => ("gdsync/core.h", "GDS_API"),
            Self::Mp => ("mp.h", "MP_API"),
        }
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
            Self::Mp => &["comm.h", "mp.h", "mp/comm.h", "mp/device.cuh"],
        }
    }

    /// Another name that programs link it by: libmp's build has its comm library, with libmp in it, as a second library.
    fn alias(self) -> Option<&'static str> {
        (self == Self::Mp).then_some("mpcomm")
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
    let name = which.name();
    let package = workspace().join(format!("crates/{name}-capi"));
    let (header, constants) = which.version();
    let header = package.join("include").join(header);
    let text = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
    let (major, minor) = version(&text, constants)?;
    let library = build(which, &args.profile)?;

    let root = match &args.destdir {
        Some(destdir) => destdir.join(args.prefix.components().filter(normal).collect::<PathBuf>()),
        None => args.prefix.clone(),
    };
    let (lib, include) = (root.join("lib"), root.join("include"));
    let full = format!("lib{name}.so.{major}.{minor}");
    let soname = format!("lib{name}.so.{major}");
    place(&fs::read(&library)?, 0o755, &lib.join(&full))?;
    link(&full, &lib.join(&soname))?;
    link(&soname, &lib.join(format!("lib{name}.so")))?;
    if let Some(alias) = which.alias() {
        link(&soname, &lib.join(format!("lib{alias}.so.{major}")))?;
        link(&soname, &lib.join(format!("lib{alias}.so")))?;
    }
    for header in which.headers() {
        place(
            &fs::read(package.join("include").join(header))?,
            0o644,
            &include.join(header),
        )?;
    }
    let text = fs::read_to_string(package.join(format!("{name}.pc.in")))?
        .replace("@PREFIX@", &args.prefix.display().to_string())
        .replace("@VERSION@", &format!("{major}.{minor}"));
    place(
        text.as_bytes(),
        0o644,
        &lib.join(format!("pkgconfig/{name}.pc")),
    )
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

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
