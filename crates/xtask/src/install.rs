//! `cargo xtask install-capi`: builds C libraries and installs them in a prefix.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::compile;
use crate::libraries::{Content, LIBRARIES, Library, workspace};

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
    #[arg(long = "library", value_name = "NAME", default_value = "gdrapi", value_parser = library())]
    pub libraries: Vec<&'static Library>,
    /// The profile to build with
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub profile: String,
}

fn library() -> impl clap::builder::TypedValueParser<Value = &'static Library> {
    PossibleValuesParser::new(LIBRARIES.iter().map(|library| library.name))
        .try_map(|name| Library::by_name(&name).ok_or("unknown library"))
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.prefix.is_absolute() {
        bail!("--prefix {} is not an absolute path", args.prefix.display());
    }
    args.libraries.iter().try_for_each(|library| install(args, library))
}

fn install(args: &Args, which: &Library) -> anyhow::Result<()> {
    let mut command = compile::cargo("build");
    command
        .args(["--lib", "--package", &which.package()])
        .args(["--profile", &args.profile])
        .current_dir(workspace());
    let built = compile::run(&mut command)?;
    let library = fs::read(compile::find(&built, which.artifact)?)?;
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
