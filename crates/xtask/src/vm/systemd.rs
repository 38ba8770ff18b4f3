//! A guest that boots Debian with systemd from a disk, repeatedly: mmdebstrap builds the disk once, and it is kept beside the image.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::image::Image;
use super::tool::{self, progress};

/// Packages besides the base system.
const PACKAGES: &str = "systemd-sysv,udev,kmod,pciutils,dash";

/// Increment when this file builds a different disk.
const RECIPE: u32 = 1;

/// The disk's size; the file is sparse.
const SIZE: u64 = 1 << 30;

/// Copies the disk to `to`, for one guest to write.
pub fn disk(image: &Image, to: &Path) -> Result<()> {
    tool::copy_disk(&kept(image)?, to)
}

/// The disk as built.
fn kept(image: &Image) -> Result<PathBuf> {
    let kept = image.directory.join(format!("systemd-{RECIPE}.img"));
    if kept.exists() {
        return Ok(kept);
    }
    progress(format_args!("building a disk with systemd"));
    let work = tempfile::Builder::new()
        .prefix("building-")
        .tempdir_in(&image.directory)
        .context("no working directory could be made")?;
    let (tree, disk) = (work.path().join("tree"), work.path().join("disk"));
    tool::output(
        Command::new("mmdebstrap")
            .args(["--quiet", "--variant=minbase"])
            .arg(format!("--include={PACKAGES}"))
            .args([
                "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-exclude=/usr/share/man/*",
            ])
            .arg("bookworm")
            .arg(&tree),
    )?;
    File::create(&disk).and_then(|file| file.set_len(SIZE)).context("cannot create the disk")?;
    tool::output(
        Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", "-d"]).arg(&tree).arg(&disk),
    )?;
    // Renamed when complete.
    fs::rename(&disk, &kept)
        .with_context(|| format!("cannot move {} into place", kept.display()))?;
    Ok(kept)
}
