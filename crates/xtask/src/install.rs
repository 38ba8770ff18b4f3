//! Lays out libgdrapi as programs look for it: the library under its version and the two names it is asked for, the
//! headers, and the pkg-config file.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// `cargo xtask install-capi`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the library will be found: PREFIX/lib, PREFIX/include
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    pub prefix: PathBuf,
    /// Put everything below this directory instead, as packages do
    #[arg(long, value_name = "DIR")]
    pub destdir: Option<PathBuf>,
    /// The profile to build with
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub profile: String,
}

/// Builds and installs.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.prefix.is_absolute() {
        bail!("--prefix {} is not an absolute path", args.prefix.display());
    }
    let package = workspace().join("crates/gdrapi-capi");
    let header = package.join("include/gdrapi.h");
    let (major, minor) = version(&fs::read_to_string(&header).with_context(|| header.display().to_string())?)?;
    let library = build(&args.profile)?;

    let root = match &args.destdir {
        Some(destdir) => destdir.join(args.prefix.components().filter(normal).collect::<PathBuf>()),
        None => args.prefix.clone(),
    };
    let (lib, include) = (root.join("lib"), root.join("include"));
    let full = format!("libgdrapi.so.{major}.{minor}");
    let soname = format!("libgdrapi.so.{major}");
    place(&fs::read(&library)?, 0o755, &lib.join(&full))?;
    link(&full, &lib.join(&soname))?;
    link(&soname, &lib.join("libgdrapi.so"))?;
    for name in ["gdrapi.h", "gdrconfig.h"] {
        place(
            &fs::read(package.join("include").join(name))?,
            0o644,
            &include.join(name),
        )?;
    }
    let text = fs::read_to_string(package.join("gdrapi.pc.in"))?
        .replace("@PREFIX@", &args.prefix.display().to_string())
        .replace("@VERSION@", &format!("{major}.{minor}"));
    place(text.as_bytes(), 0o644, &lib.join("pkgconfig/gdrapi.pc"))
}

/// The library as Cargo made it.
fn build(profile: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", "gdrapi-capi", "--lib"])
        .args(["--message-format", "json-render-diagnostics", "--profile", profile])
        .current_dir(workspace())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build -p gdrapi-capi: {}", output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("filenames")?.as_array().cloned())
        .flatten();
    let mut names = files.filter_map(|file| file.as_str().map(PathBuf::from));
    let library = names.find(|path| path.file_name().is_some_and(|name| name == "libgdrapi.so"));
    library.context("cargo built no libgdrapi.so")
}

/// `GDR_API_MAJOR_VERSION` and `GDR_API_MINOR_VERSION` of the header.
fn version(header: &str) -> anyhow::Result<(u32, u32)> {
    let number = |name: &str| -> anyhow::Result<u32> {
        let line = header
            .lines()
            .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        let text = line.with_context(|| format!("gdrapi.h defines no {name}"))?;
        text.trim().parse().with_context(|| format!("{name} is {text}"))
    };
    Ok((number("GDR_API_MAJOR_VERSION")?, number("GDR_API_MINOR_VERSION")?))
}

/// Puts the bytes there in one step: a process that uses the old file keeps it.
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

/// A free name next to `path`, whose directory is made.
fn sibling(path: &Path) -> anyhow::Result<PathBuf> {
    let directory = path.parent().context("a path below the prefix")?;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
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
