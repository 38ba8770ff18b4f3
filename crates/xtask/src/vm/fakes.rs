//! Test doubles of kernel modules that Debian does not have, compiled for a guest's kernel.
//!
//! The kernel's headers are unpacked beside the build and never installed, so that they are those of the guest's
//! kernel whatever the host runs. The compiler and make are the host's.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::image::Image;
use super::packages::Selection;
use super::tool::{self, progress};

/// Fake modules that are compiled together.
#[derive(Clone, Copy, Debug)]
pub struct Fakes {
    /// What they are called, and the folder of their sources below `tests/vm`.
    name: &'static str,
    /// What they are made of, by name.
    sources: &'static [(&'static str, &'static str)],
    /// Where the guest has them: with its other modules, for modprobe to find, or beside, for insmod.
    pub indexed: bool,
    modules: &'static [&'static str],
}

macro_rules! sources {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../tests/vm/", $folder, "/", $name)))),*]
    };
}

/// The one that speaks gdrdrv's ABI.
pub const GDRDRV: Fakes = Fakes {
    name: "gdrdrv-double",
    sources: sources!["gdrdrv-double": "Kbuild" "abi.h" "double.h" "device.c" "requests.c" "memory.c" "proc.c"],
    indexed: false,
    modules: &["gdrdrv-double.ko"],
};

/// Those that have no more than the names, the parameters and the users of the modules they double.
pub const NAMES: Fakes = Fakes {
    name: "module-doubles",
    sources: sources!["module-doubles": "Kbuild" "nvidia.c" "nvidia-peermem.c" "gdrdrv.c"],
    indexed: true,
    modules: &["nvidia.ko", "nvidia-peermem.ko", "gdrdrv.ko"],
};

impl Fakes {
    /// The modules for the image's kernel, in the order of their names; built if they do not lie beside the image.
    pub fn built(&self, image: &Image) -> Result<Vec<PathBuf>> {
        let mut key = DefaultHasher::new();
        self.sources.hash(&mut key);
        let kept = image
            .directory
            .join(format!("{}-{:016x}", self.name, key.finish()));
        if !kept.exists() {
            let work = tempfile::Builder::new()
                .prefix("building-doubles-")
                .tempdir_in(&image.directory)
                .with_context(|| {
                    format!(
                        "no working directory could be made in {}",
                        image.directory.display()
                    )
                })?;
            let built = build(self, &image.release, work.path())?;
            // Complete or absent; where two builds ran side by side, the second finds the place taken.
            if let Err(error) = fs::rename(&built, &kept)
                && !kept.exists()
            {
                return Err(error)
                    .with_context(|| format!("{} could not be put in place", kept.display()));
            }
        }
        Ok(self
            .modules
            .iter()
            .map(|module| kept.join(module))
            .collect())
    }
}

/// The folder with the modules, and with what else the build left.
fn build(fakes: &Fakes, release: &str, work: &Path) -> Result<PathBuf> {
    let (selection, compiler) = Selection::headers(release)?;
    tool::output(Command::new(&compiler).arg("--version"))?;
    progress(format_args!("compiling {} for Linux {release}", fakes.name));
    let (tree, source) = (work.join("tree"), work.join("source"));
    selection.unpack(&work.join("downloads"), &tree)?;
    fs::create_dir(&source).with_context(|| format!("{} could not be made", source.display()))?;
    for (name, text) in fakes.sources {
        let path = source.join(name);
        fs::write(&path, text)
            .with_context(|| format!("{} could not be written", path.display()))?;
    }
    let headers = tree
        .join("usr/src")
        .join(format!("linux-headers-{release}"));
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(&headers);
    // The package's own Makefile names the other package's by the place where both are installed.
    make.arg("-f").arg(common(&tree, release)?);
    make.arg(format!("M={}", source.display())).arg("modules");
    // Those of a make or a kernel build that this runs in.
    make.env_remove("MAKEFLAGS").env_remove("KBUILD_OUTPUT");
    tool::output(&mut make).context(
        "the doubles could not be compiled; where a program or library is missing, apt-get install make gcc-12 libelf1",
    )?;
    Ok(source)
}

/// The Makefile of the headers that all flavours of a kernel share: of 6.1.0-56-amd64 those are 6.1.0-56-common.
fn common(tree: &Path, release: &str) -> Result<PathBuf> {
    let (version, _) = release
        .rsplit_once('-')
        .with_context(|| format!("the kernel release {release:?} names no flavour"))?;
    Ok(tree
        .join("usr/src")
        .join(format!("linux-headers-{version}-common/Makefile")))
}
