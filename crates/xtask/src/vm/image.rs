//! The guest's kernel and base file system, built from Debian packages and cached in `target/vm/`.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{BufWriter, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::archive::Archive;
use super::modules;
use super::packages::Selection;
use super::tool::{self, progress};

/// Increment when this file builds a different image from the same packages.
const RECIPE: u32 = 2;

/// Parts of packages that guests do not use.
const LEFT_OUT: &[&str] = &[
    "boot",
    "lib/modules",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/bug",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "usr/lib/x86_64-linux-gnu/gconv",
];

/// A kernel and its base initramfs.
#[derive(Clone, Debug)]
pub struct Image {
    /// The kernel, for QEMU. Uncompressed where it was packed by xz, because decompression is slow under emulation: half of a short boot.
    pub kernel: PathBuf,
    /// Uncompressed for the same reason.
    pub base: PathBuf,
    pub release: String,
    /// Directory of the image, and of files built for its kernel.
    pub directory: PathBuf,
}

impl Image {
    /// The image for apt's current packages; built unless `cache` has it.
    pub fn prepare(cache: &Path) -> Result<Self> {
        let selection = Selection::current()?;
        let mut key = DefaultHasher::new();
        (RECIPE, &selection.identity, modules::WANTED, LEFT_OUT).hash(&mut key);
        let directory = cache.join(format!("image-{:016x}", key.finish()));
        let image = Self {
            kernel: directory.join("kernel"),
            base: directory.join("base.cpio"),
            release: selection.release.clone(),
            directory: directory.clone(),
        };
        if !directory.exists() {
            fs::create_dir_all(cache)
                .with_context(|| format!("cannot create {}", cache.display()))?;
            // Serialises concurrent builds.
            let lock = File::create(cache.join("lock")).and_then(|file| file.lock().map(|()| file));
            let _lock = lock.with_context(|| format!("cannot lock {}", cache.display()))?;
            if directory.exists() {
                return Ok(image);
            }
            let work =
                tempfile::Builder::new().prefix("building-").tempdir_in(cache).with_context(
                    || format!("no working directory could be made in {}", cache.display()),
                )?;
            build(&selection, work.path())?;
            // Renamed when complete: an interrupted build leaves no image.
            fs::rename(work.path().join("image"), &directory)
                .with_context(|| format!("cannot move {} into place", directory.display()))?;
        }
        Ok(image)
    }
}

/// Builds `work/image/{kernel,base.cpio}`.
fn build(selection: &Selection, work: &Path) -> Result<()> {
    let (tree, staged, image) = (work.join("tree"), work.join("staged"), work.join("image"));
    progress(format_args!("downloading and unpacking the guest's packages"));
    selection.unpack(&work.join("downloads"), &tree)?;
    progress(format_args!("choosing kernel modules"));
    let release = modules::stage(&tree, &staged)?;
    progress(format_args!("writing the initramfs of Linux {release}"));
    fs::create_dir_all(&image).with_context(|| format!("cannot create {}", image.display()))?;
    let kernel = tree.join(format!("boot/vmlinuz-{release}"));
    unpack_kernel(&kernel, &image.join("kernel"))
        .with_context(|| format!("cannot unpack {}", kernel.display()))?;

    let path = image.join("base.cpio");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut archive = Archive::new(BufWriter::new(file));
    for directory in [
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "out",
        "root",
        "etc",
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/lib64",
    ] {
        archive.directory(directory)?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.symlink(name, &format!("usr/{name}"))?;
    }
    carry(&mut archive, &tree, &tree)?;
    carry(&mut archive, &staged, &staged)?;
    archive.finish()?;
    libraries_are_there(&tree)
}

/// Writes the ELF file that a compressed kernel contains; another kernel is copied.
fn unpack_kernel(from: &Path, to: &Path) -> Result<()> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let kernel = fs::read(from)?;
    let Some(start) = kernel.windows(XZ.len()).position(|bytes| bytes == XZ) else {
        return fs::copy(from, to).map(drop).map_err(Into::into);
    };
    let mut packed = File::open(from)?;
    packed.seek(SeekFrom::Start(start as u64))?;
    // What follows the stream is ignored.
    let mut unpack = Command::new("xz");
    unpack.args(["--decompress", "--stdout", "--single-stream"]).stdin(packed);
    tool::output(unpack.stdout(File::create(to)?))?;
    if !is_elf(to) {
        bail!("the xz stream at byte {start} is not an ELF file");
    }
    Ok(())
}

/// Copies everything below `at` into the archive, in Debian's merged-/usr layout.
fn carry(archive: &mut Archive<BufWriter<File>>, root: &Path, at: &Path) -> Result<()> {
    let mut entries = fs::read_dir(at)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("cannot list {}", at.display()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let from = entry.path();
        let relative = from.strip_prefix(root)?.to_string_lossy().into_owned();
        if root.ends_with("tree") && LEFT_OUT.contains(&relative.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            carry(archive, root, &from)?;
        } else {
            archive.copy(&merged(&relative), &from)?;
        }
    }
    Ok(())
}

/// `bin/x` → `usr/bin/x`: the guest's /bin is a link, through which an archive must not write.
fn merged(relative: &str) -> String {
    match relative.split('/').next() {
        Some("bin" | "sbin" | "lib" | "lib64") => format!("usr/{relative}"),
        _ => relative.to_owned(),
    }
}

/// Checks that all programs find their libraries in the tree, because the package list is written by hand.
fn libraries_are_there(tree: &Path) -> Result<()> {
    // These programs of iproute2 need more libraries, and no guest uses them.
    const UNUSED: &[&str] = &["ss", "arpd"];
    for directory in ["bin", "sbin", "usr/bin", "usr/sbin", "usr/lib/x86_64-linux-gnu/libibverbs"] {
        let Ok(listing) = fs::read_dir(tree.join(directory)) else {
            continue;
        };
        for entry in listing {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let executable = fs::metadata(&path)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
            if !executable && !name.contains(".so")
                || UNUSED.contains(&name.as_str())
                || !is_elf(&path)
            {
                continue;
            }
            let listed = match tool::output(modules::loader(tree).arg("--list").arg(&path)) {
                Ok(listed) => listed,
                Err(error) if format!("{error:#}").contains("shared libraries") => {
                    return Err(error.context(format!(
                        "{name} lacks a library; add its package to USER_SPACE"
                    )));
                }
                // Static programs have no libraries.
                Err(_) => continue,
            };
            let root = tree.to_string_lossy();
            let stray = |line: &&str| {
                line.contains("not found") || line.contains("=> /") && !line.contains(&*root)
            };
            if let Some(line) = listed.lines().find(stray) {
                bail!(
                    "{name} needs a library that no listed package brings: {}; add its package to USER_SPACE",
                    line.trim()
                );
            }
        }
    }
    Ok(())
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}
