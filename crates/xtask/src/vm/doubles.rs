//! The test double of the gdrdrv kernel driver (`tests/vm/gdrdrv-double/`), compiled for a guest's kernel.
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

macro_rules! sources {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../tests/vm/gdrdrv-double/", $name)))),*]
    };
}

/// What the module is made of, by name.
const SOURCES: &[(&str, &str)] = sources!["Kbuild" "abi.h" "double.h" "device.c" "requests.c" "memory.c" "proc.c"];

/// The module for the image's kernel; built if it does not lie beside the image.
pub fn module(image: &Image) -> Result<PathBuf> {
    let mut key = DefaultHasher::new();
    SOURCES.hash(&mut key);
    let module = image.directory.join(format!("gdrdrv-double-{:016x}.ko", key.finish()));
    if !module.exists() {
        let work = tempfile::Builder::new()
            .prefix("building-gdrdrv-")
            .tempdir_in(&image.directory)
            .with_context(|| format!("no working directory could be made in {}", image.directory.display()))?;
        let built = build(&image.release, work.path())?;
        // Complete or absent, also where two builds ran side by side.
        fs::rename(&built, &module).with_context(|| format!("{} could not be put in place", module.display()))?;
    }
    Ok(module)
}

fn build(release: &str, work: &Path) -> Result<PathBuf> {
    let (selection, compiler) = Selection::headers(release)?;
    tool::output(Command::new(&compiler).arg("--version"))?;
    progress(format_args!("compiling the gdrdrv double for Linux {release}"));
    let (tree, source) = (work.join("tree"), work.join("source"));
    selection.unpack(&work.join("downloads"), &tree)?;
    fs::create_dir(&source).with_context(|| format!("{} could not be made", source.display()))?;
    for (name, text) in SOURCES {
        let path = source.join(name);
        fs::write(&path, text).with_context(|| format!("{} could not be written", path.display()))?;
    }
    let headers = tree.join("usr/src").join(format!("linux-headers-{release}"));
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(&headers);
    // The package's own Makefile names the other package's by the place where both are installed.
    make.arg("-f").arg(common(&tree, release)?);
    make.arg(format!("M={}", source.display())).arg("modules");
    // Those of a make or a kernel build that this runs in.
    make.env_remove("MAKEFLAGS").env_remove("KBUILD_OUTPUT");
    tool::output(&mut make).context(
        "the gdrdrv double could not be compiled; where a program or library is missing, \
         apt-get install make gcc-12 libelf1",
    )?;
    Ok(source.join("gdrdrv-double.ko"))
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
