//! `cargo xtask dist`: builds for old glibc, and packs archives, debs and rpms. All that a file depends on is the commit:
//! its time is the time of every file, so two builds give the same bytes.

mod build;
mod crates;
mod deb;
mod packages;
mod rpm;
mod tarball;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use sha2::{Digest as _, Sha256};

use crate::libraries::workspace;

/// `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture; may be repeated
    #[arg(long, value_name = "NAME", default_values = ["x86_64", "aarch64"])]
    pub arch: Vec<Arch>,
    /// What to pack; may be repeated
    #[arg(long, value_name = "FORMAT", default_values = ["tar", "deb", "rpm"])]
    pub format: Vec<Format>,
    /// Where the files go; what an earlier run left there is removed
    #[arg(long, value_name = "DIR", default_value = "target/dist/out")]
    pub out: PathBuf,
    /// Where cargo builds
    #[arg(long, value_name = "DIR", default_value = "target/dist/build")]
    pub build: PathBuf,
    /// Checkout to compile, instead of this one
    #[arg(long, value_name = "DIR")]
    pub source: Option<PathBuf>,
    /// Packs what `cargo build` makes, for this machine alone, to try the packages
    #[arg(long, conflicts_with_all = ["arch", "source", "build"])]
    pub debug: bool,
    /// Revision of the packages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub revision: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
}

impl Arch {
    /// Name in targets and rpms.
    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// Name in debs.
    fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Tar,
    Deb,
    Rpm,
}

/// What every file of a release has in common.
struct Release {
    version: &'static str,
    revision: u32,
    commit: String,
    /// Seconds since 1970 of the commit, or SOURCE_DATE_EPOCH.
    time: u32,
    /// The same as Debian's changelogs have it.
    date: String,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let release = Release::new(args.revision)?;
    let out = workspace().join(&args.out);
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
    }
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let this = || Arch::from_str(std::env::consts::ARCH, false).map_err(anyhow::Error::msg);
    let architectures = if args.debug { vec![this()?] } else { args.arch.clone() };
    for arch in architectures {
        pack(args, &release, arch, &out)?;
    }
    checksums(&out)
}

/// Says what comes next: the whole takes many minutes. An error of standard error is ignored.
fn progress(arch: Arch, step: &str) {
    let _ = writeln!(std::io::stderr(), "dist {}: {step}", arch.name());
}

fn pack(args: &Args, release: &Release, arch: Arch, out: &Path) -> anyhow::Result<()> {
    let built = build::build(args, release, arch)?;
    progress(arch, "licenses and the bill of materials");
    let crates = crates::released(arch)?;
    let stem = format!("gdr-{}-{}", release.version, arch.name());
    let licenses = crates::licenses(&crates)?;
    fs::write(out.join(format!("{stem}.cdx.json")), crates::bill(release, arch, &crates)?)?;
    progress(arch, "packs the debug information");
    tarball::write(&out.join(format!("{stem}-debug.tar.gz")), &stem, &built.debug, release.time)?;
    for format in &args.format {
        progress(arch, &format!("packs {format:?}").to_lowercase());
        let packages = packages::all(*format, release, arch, &built, &licenses)?;
        let mut made = Vec::new();
        for package in &packages {
            made.push(match format {
                Format::Tar => continue,
                Format::Deb => deb::write(out, release, arch, package)?,
                Format::Rpm => rpm::write(out, release, arch, package)?,
            });
        }
        match format {
            Format::Tar => {
                let files: Vec<_> =
                    packages.into_iter().flat_map(|package| package.files).collect();
                tarball::write(&out.join(format!("{stem}.tar.gz")), &stem, &files, release.time)?;
            }
            Format::Deb => tarball::bundle(out, &format!("{stem}-deb"), &made, release.time)?,
            Format::Rpm => tarball::bundle(out, &format!("{stem}-rpm"), &made, release.time)?,
        }
    }
    Ok(())
}

/// Writes SHA256SUMS, as sha256sum --check reads it.
fn checksums(out: &Path) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().context("a file's name")?.display().to_string();
        let digest = Sha256::digest(fs::read(&path)?);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(std::io::stdout(), "{}", path.display())?;
        lines.push((name.clone(), format!("{digest}  {name}\n")));
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    Ok(fs::write(out.join("SHA256SUMS"), text)?)
}

impl Release {
    /// Version and revision of the packages.
    fn package_version(&self) -> String {
        format!("{}-{}", self.version, self.revision)
    }

    fn new(revision: u32) -> anyhow::Result<Self> {
        let dirty = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => git(&["log", "-1", "--format=%ct"])?,
        };
        let time: u32 = time.parse().with_context(|| format!("SOURCE_DATE_EPOCH {time}"))?;
        let mut date = Command::new("date");
        date.args(["--utc", "--rfc-email", &format!("--date=@{time}")]);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            revision,
            commit: if dirty { commit + "-modified" } else { commit },
            time,
            date: text(date.env("LC_ALL", "C"))?,
        })
    }
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    text(Command::new("git").args(arguments))
}

/// Runs a program in the workspace; returns what it prints.
fn text(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output =
        command.current_dir(workspace()).output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
