//! Fake kernel modules that Debian does not have, compiled for the guest's kernel.
//!
//! The kernel headers are unpacked beside the build, not installed, so that they match the guest's kernel. Compiler and make are the
//! host's.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::image::Image;
use super::packages::Selection;
use super::tool::{self, progress};

/// Fake modules of one build.
#[derive(Clone, Copy, Debug)]
pub struct Fakes {
    /// Name, and directory of the sources below `tests/vm`.
    name: &'static str,
    /// Sources by name.
    sources: &'static [(&'static str, &'static str)],
    /// True: installed with the guest's modules, for modprobe. False: a separate file, for insmod.
    pub indexed: bool,
    modules: &'static [&'static str],
}

macro_rules! sources {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../tests/vm/", $folder, "/", $name)))),*]
    };
}

/// Implements gdrdrv's ABI.
pub const GDRDRV: Fakes = Fakes {
    name: "gdrdrv-fake",
    sources: sources!["gdrdrv-fake": "Kbuild" "abi.h" "fake.h" "device.c" "requests.c" "memory.c" "proc.c"],
    indexed: false,
    modules: &["gdrdrv-fake.ko"],
};

/// Modules with only the name, parameters and users of the real ones.
pub const NAMES: Fakes = Fakes {
    name: "module-fakes",
    sources: sources!["module-fakes": "Kbuild" "nvidia.c" "nvidia-peermem.c" "gdrdrv.c"],
    indexed: true,
    modules: &["nvidia.ko", "nvidia-peermem.ko", "gdrdrv.ko"],
};

impl Fakes {
    /// The modules for the image's kernel, sorted by name; built unless cached beside the image.
    pub fn built(&self, image: &Image) -> Result<Vec<PathBuf>> {
        let mut key = DefaultHasher::new();
        self.sources.hash(&mut key);
        let kept = image.directory.join(format!("{}-{:016x}", self.name, key.finish()));
        if !kept.exists() {
            let work = tempfile::Builder::new()
                .prefix("building-fakes-")
                .tempdir_in(&image.directory)
                .with_context(|| {
                    format!("no working directory could be made in {}", image.directory.display())
                })?;
            let built = build(self, &image.release, work.path())?;
            // Renamed when complete; of two concurrent builds the second finds the first's result.
            if let Err(error) = fs::rename(&built, &kept)
                && !kept.exists()
            {
                return Err(error)
                    .with_context(|| format!("cannot move {} into place", kept.display()));
            }
        }
        Ok(self.modules.iter().map(|module| kept.join(module)).collect())
    }
}

/// Directory with the built modules and other build output.
fn build(fakes: &Fakes, release: &str, work: &Path) -> Result<PathBuf> {
    let (selection, compiler) = Selection::headers(release)?;
    tool::output(Command::new(&compiler).arg("--version"))?;
    progress(format_args!("compiling {} for Linux {release}", fakes.name));
    let (tree, source) = (work.join("tree"), work.join("source"));
    selection.unpack(&work.join("downloads"), &tree)?;
    fs::create_dir(&source).with_context(|| format!("cannot create {}", source.display()))?;
    for (name, text) in fakes.sources {
        let path = source.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let headers = tree.join("usr/src").join(format!("linux-headers-{release}"));
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(&headers);
    // The package's Makefile refers to the common headers by their installed path.
    make.arg("-f").arg(common(&tree, release)?);
    make.arg(format!("M={}", source.display())).arg("modules");
    // Variables of an outer make or kernel build.
    make.env_remove("MAKEFLAGS").env_remove("KBUILD_OUTPUT");
    tool::output(&mut make).context(
        "cannot compile the fakes; where a program or library is missing, apt-get install make gcc-12 libelf1",
    )?;
    Ok(source)
}

/// The Makefile of the headers common to all flavours: for 6.1.0-56-amd64 in 6.1.0-56-common.
fn common(tree: &Path, release: &str) -> Result<PathBuf> {
    let (version, _) = release
        .rsplit_once('-')
        .with_context(|| format!("the kernel release {release:?} names no flavour"))?;
    Ok(tree.join("usr/src").join(format!("linux-headers-{version}-common/Makefile")))
}
