//! One run: machine, script, and outcome.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use super::guest::{Fault, Guest};
use super::image::Image;
use super::machine::Machine;
use super::outcome::Outcome;
use super::tool::{copy_disk, progress};

/// Work to do in a machine.
#[derive(Clone, Debug)]
pub struct Job {
    /// Shell script that every guest runs, as root, with dash.
    pub script: PathBuf,
    /// Host binaries for the guests' /bin, with their libraries.
    pub binaries: Vec<PathBuf>,
    /// Timeout of the machine.
    pub timeout: Duration,
    /// Directory for the guests' /out, emptied first. With several guests, one subdirectory each.
    pub files: PathBuf,
    /// Additional environment variables of the script.
    pub variables: Vec<(&'static str, String)>,
    /// A raw disk that outlives the run: the guests' /dev/vdb.
    pub disk: Option<PathBuf>,
}

/// Runs a job to its end. A failing script is an outcome; an error means that the machine did not run.
///
/// QEMU 7.2 sometimes fails when several threads emulate several CPUs: it crashes (SIGSEGV, about one boot in 50 on two busy cores), or
/// loses an interrupt and the guest's kernel hangs. The job is then repeated with the disk as it was, and with a message.
pub fn run(machine: &Machine, image: &Image, job: &Job) -> Result<Outcome> {
    // Compiled before the timeout starts; the guests' archives reuse the result.
    for fakes in machine.fakes {
        fakes.built(image)?;
    }
    let original = job.disk.as_deref().map(copied).transpose()?;
    again(machine, || {
        if let (Some(original), Some(disk)) = (&original, &job.disk) {
            copy_disk(original.path(), disk)?;
        }
        attempt(machine, image, job)
    })
}

/// A copy of the disk, beside it.
fn copied(disk: &Path) -> Result<NamedTempFile> {
    let directory = disk.parent().unwrap_or(Path::new("."));
    let copy = NamedTempFile::new_in(directory)
        .with_context(|| format!("cannot create a file in {}", directory.display()))?;
    copy_disk(disk, copy.path())?;
    Ok(copy)
}

/// Repeats an attempt if the emulator failed.
fn again<T>(machine: &Machine, attempt: impl Fn() -> Result<T>) -> Result<T> {
    const TRIES: usize = 3;
    for _ in 1..TRIES {
        match attempt() {
            Err(error) if error.is::<Fault>() => {
                progress(format_args!("{}: {error}; once more", machine.name));
            }
            result => return result,
        }
    }
    attempt()
}

/// Runs a job until the console shows `mark`, kills the machine `after` that, and returns the console. Data that the guest has not written
/// to its disks is lost. A crash of the emulator counts as an earlier cut: the next boot finds the same disk.
pub fn cut_off(
    machine: &Machine,
    image: &Image,
    job: &Job,
    mark: &str,
    after: Duration,
) -> Result<String> {
    again(machine, || cut_once(machine, image, job, mark, after))
}

fn cut_once(
    machine: &Machine,
    image: &Image,
    job: &Job,
    mark: &str,
    after: Duration,
) -> Result<String> {
    let work = tempfile::Builder::new()
        .prefix("gdr-vm-")
        .tempdir()
        .context("no working directory could be made")?;
    progress(format_args!("{}: starting, to be cut off", machine.name));
    let start = Instant::now();
    let mut guest = Guest::start(machine, 1, image, job, work.path())?;
    while !guest.console().contains(mark) {
        if !guest.running()? || start.elapsed() > job.timeout {
            bail!("the guest did not print '{mark}': {}", guest.console());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(after);
    let console = guest.console();
    drop(guest);
    progress(format_args!(
        "{}: cut off after {:.1} s",
        machine.name,
        start.elapsed().as_secs_f64()
    ));
    Ok(console)
}

fn attempt(machine: &Machine, image: &Image, job: &Job) -> Result<Outcome> {
    let work = tempfile::Builder::new()
        .prefix("gdr-vm-")
        .tempdir()
        .context("no working directory could be made")?;
    clear(&job.files)?;
    progress(format_args!("{}: starting ({})", machine.name, machine.description));
    let start = Instant::now();
    let mut guests = Vec::new();
    for number in 1..=machine.guests {
        guests.push(Guest::start(machine, number, image, job, work.path())?);
    }
    let mut timed_out = false;
    while guests.iter_mut().map(Guest::running).collect::<Result<Vec<_>>>()?.contains(&true) {
        if start.elapsed() > job.timeout {
            timed_out = true;
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let seconds = start.elapsed().as_secs_f64();
    let collected = guests
        .into_iter()
        .map(|guest| {
            let files =
                if machine.guests == 1 { job.files.clone() } else { job.files.join(guest.name()) };
            guest.finish(&files)
        })
        .collect::<Result<Vec<_>>>()?;
    let outcome = Outcome::new(machine, seconds, timed_out, job.files.clone(), collected);
    progress(format_args!("{}: {} after {seconds:.1} s", machine.name, outcome.word()));
    Ok(outcome)
}

/// Removes output of an earlier run.
fn clear(files: &Path) -> Result<()> {
    if files.join(super::guest::CONSOLE).exists()
        || files.join("guest1").join(super::guest::CONSOLE).exists()
    {
        fs::remove_dir_all(files).with_context(|| format!("cannot clear {}", files.display()))?;
    }
    fs::create_dir_all(files).with_context(|| format!("cannot create {}", files.display()))
}
