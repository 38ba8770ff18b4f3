//! Files that a run adds to the image: script, binaries with their libraries, and settings.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::archive::Archive;
use super::hardware;
use super::image::Image;
use super::job::Job;
use super::machine::Machine;
use super::tool;

const INIT: &str = include_str!("guest/init.sh");
const INIT_SYSTEMD: &str = include_str!("guest/init-systemd.sh");
const LOOK_ALIKES: &str = include_str!("guest/look-alikes.sh");
const HELPERS: &str = include_str!("guest/gdr-guest.sh");
const GDRDRV: &str = include_str!("guest/gdrdrv.sh");

/// Writes the whole initramfs of a guest: the base, then this run's files.
pub fn write(path: &Path, image: &Image, machine: &Machine, number: u8, job: &Job) -> Result<()> {
    let what = || format!("cannot write the guest's initramfs {}", path.display());
    fs::copy(&image.base, path).with_context(what)?;
    let file = File::options().append(true).open(path).with_context(what)?;
    let mut archive = Archive::new(BufWriter::new(file));

    let init = if machine.systemd { INIT_SYSTEMD } else { INIT };
    archive.file("init", 0o755, init.as_bytes())?;
    archive.file("usr/lib/gdr-guest.sh", 0o644, HELPERS.as_bytes())?;
    archive.file("gdr/look-alikes.sh", 0o644, LOOK_ALIKES.as_bytes())?;
    archive.file("gdr/look-alikes", 0o644, hardware::plan(machine.bridges).as_bytes())?;
    archive.file("gdr/environment", 0o644, environment(machine, number, job).as_bytes())?;
    let script = fs::read(&job.script).with_context(|| {
        format!("cannot read the script {}; --script names a file", job.script.display())
    })?;
    archive.file("gdr/script", 0o755, &script)?;
    for fakes in machine.fakes {
        let place = if fakes.indexed {
            format!("usr/lib/modules/{}/updates", image.release)
        } else {
            "usr/lib".to_owned()
        };
        for module in fakes.built(image)? {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            archive.copy(&format!("{place}/{name}"), &module)?;
        }
    }
    archive.file("usr/lib/gdrdrv.sh", 0o644, GDRDRV.as_bytes())?;
    let beside = path.with_extension("stripped");
    let mut carried = String::new();
    for binary in &job.binaries {
        for file in carry(&mut archive, binary, &beside)? {
            carried += &format!("{file}\n");
        }
    }
    // For guests that boot another system, which copies these files.
    archive.file("gdr/carried", 0o644, carried.as_bytes())?;
    archive.finish().map(drop)
}

/// Shell assignments for the init script.
fn environment(machine: &Machine, number: u8, job: &Job) -> String {
    let mut lines = vec![
        format!("export GDR_MACHINE={}", machine.name),
        format!("export GDR_SIMULATED={}", machine.simulated()),
        format!("export GDR_GUEST={number}"),
    ];
    if machine.soft_roce {
        lines.push(format!("export GDR_ADDRESS=10.0.0.{number}"));
        let peer = if machine.guests > 1 { 3 - number } else { number };
        lines.push(format!("export GDR_PEER=10.0.0.{peer}"));
    }
    lines.extend(job.variables.iter().map(|(name, value)| format!("export {name}={value}")));
    lines.join("\n") + "\n"
}

/// Adds a host binary to the guest's /bin, and its libraries where the binary looks for them; returns all paths.
///
/// Stripped, because a guest reads its whole initramfs under emulation, and two thirds of a debug build are debug information. `beside`
/// is a path for temporary files.
fn carry<W: io::Write>(
    archive: &mut Archive<W>,
    binary: &Path,
    beside: &Path,
) -> Result<Vec<String>> {
    let name = binary
        .file_name()
        .with_context(|| format!("--bin {} names no file", binary.display()))?
        .to_string_lossy()
        .into_owned();
    let real = fs::canonicalize(binary)
        .with_context(|| format!("--bin {} does not exist; build it first", binary.display()))?;
    let mut carried = vec![format!("usr/bin/{name}")];
    // Scripts are copied unchanged.
    let stripped =
        tool::output(Command::new("strip").args(["--strip-all", "-o"]).arg(beside).arg(&real))
            .is_ok();
    archive.copy(&carried[0], if stripped { beside } else { &real })?;
    for library in libraries(&real)? {
        let within = library.strip_prefix("/").unwrap_or(&library).to_string_lossy().into_owned();
        let within = if within.starts_with("lib") { format!("usr/{within}") } else { within };
        if !archive.has(&within) {
            let real = fs::canonicalize(&library)
                .with_context(|| format!("cannot resolve {}", library.display()))?;
            archive.copy(&within, &real)?;
        }
        carried.push(within);
    }
    Ok(carried)
}

/// The output of ldd, including the dynamic loader: loader and libc must match, so all come from the host.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = match tool::output(Command::new("ldd").arg(binary)) {
        Ok(output) => output,
        // ldd fails on static binaries.
        Err(error) if format!("{error:#}").contains("not a dynamic executable") => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut libraries = Vec::new();
    for line in output.lines() {
        if line.contains("not found") {
            bail!(
                "{} needs {}, which this host lacks too; install it",
                binary.display(),
                line.trim()
            );
        }
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        libraries.extend(path.map(PathBuf::from));
    }
    Ok(libraries)
}
