//! The short measurement that picks kernels, and its memory: once a process, once a machine.
//!
//! It writes only to memory the caller offers for it, never to a user's. What it finds is kept in the user's cache
//! directory and taken again while CPU, kernels and version are the same; a file that is damaged or cannot be written is
//! as good as none.

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::choice::{self, Choice};
use super::kernel::{Kernel, Move, kernel, kernels};
use super::{arch, fence};

/// Where a choice of kernels comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `GDR_COPY_KERNEL` names it.
    Named,
    /// Measured by this process.
    Measured,
    /// Measured by an earlier process on this machine.
    Remembered,
    /// Not measured: what suits CPUs like this one.
    Unmeasured,
}

/// The kernels that [`Copier::for_caching`](super::Copier::for_caching) takes for write-combining mappings, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The kernel that writes.
    pub write: &'static str,
    /// The kernel that reads.
    pub read: &'static str,
    /// Why these.
    pub origin: Origin,
}

/// Bytes of device memory that [`tune`] uses; it takes less too, but then measures less.
pub const TUNE_BYTES: usize = WRITE_BYTES;

const WRITE_BYTES: usize = 64 << 10;
/// Reads are slow: 4 KiB take 4 to 6 µs.
const READ_BYTES: usize = 4 << 10;
const ROUNDS: usize = 9;
/// The end of the measurement, whatever is missing by then. Usually it takes a tenth of this.
const BUDGET: Duration = Duration::from_millis(5);
/// A kernel must be this much faster than the one favoured unmeasured to be taken instead, in percent.
const MARGIN: u128 = 4;

/// Measures which kernels are fastest on this mapping, unless they are named or known already: by this process, or by the
/// file `gdr/copy-kernels` in the user's cache directory. Takes at most a few milliseconds. A [`Copier`](super::Copier)
/// made before keeps what it has.
///
/// # Safety
/// `device` is a write-combining mapping of `len` bytes that nobody else uses meanwhile and whose contents nobody wants.
pub unsafe fn tune(device: *mut u8, len: usize) -> Tuning {
    if let Ok(Some(choice)) = choice::named() {
        return Tuning::of(choice, Origin::Named);
    }
    if known().is_none() {
        // SAFETY: the caller's promise.
        let choice = unsafe { measure(device, len) };
        if MEASURED.set(choice).is_ok()
            && let Some(path) = cache_path()
        {
            remember(&path, choice);
        }
    }
    tuning()
}

/// What is chosen now, without measuring.
pub fn tuning() -> Tuning {
    if let Ok(Some(choice)) = choice::named() {
        return Tuning::of(choice, Origin::Named);
    }
    match (MEASURED.get(), remembered()) {
        (Some(choice), _) => Tuning::of(*choice, Origin::Measured),
        (None, Some(choice)) => Tuning::of(choice, Origin::Remembered),
        (None, None) => Tuning::of(choice::unmeasured(), Origin::Unmeasured),
    }
}

/// What was measured, now or earlier.
pub(super) fn known() -> Option<Choice> {
    MEASURED.get().copied().or_else(remembered)
}

static MEASURED: OnceLock<Choice> = OnceLock::new();

impl Tuning {
    fn of(choice: Choice, origin: Origin) -> Tuning {
        Tuning {
            write: choice.write.name,
            read: choice.read.name,
            origin,
        }
    }
}

fn remembered() -> Option<Choice> {
    static FILE: OnceLock<Option<Choice>> = OnceLock::new();
    *FILE.get_or_init(|| recall(&cache_path()?))
}

/// # Safety
/// As [`tune`].
unsafe fn measure(device: *mut u8, len: usize) -> Choice {
    let favoured = choice::unmeasured();
    let candidates: Vec<_> = kernels()
        .iter()
        .filter(|kernel| kernel.load > 8 && kernel.supported() && !kernel.named_only)
        .collect();
    let mut host = vec![0_u8; WRITE_BYTES];
    let end = Instant::now() + BUDGET;
    let (reads, writes) = (len.min(READ_BYTES), len.min(WRITE_BYTES));
    let read = fastest(&candidates, favoured.read, end, |kernel| {
        // SAFETY: supported, and both sides hold `reads` bytes.
        unsafe { (kernel.read as Move)(host.as_mut_ptr(), device, reads) };
        black_box(&mut host);
    });
    let write = fastest(&candidates, favoured.write, end, |kernel| {
        // SAFETY: supported, and both sides hold `writes` bytes.
        unsafe { (kernel.write as Move)(device, host.as_ptr(), writes) };
        fence::writes();
    });
    Choice { write, read }
}

/// The kernel with the shortest median of interleaved rounds, if it is clearly shorter than the favoured one's.
fn fastest(
    candidates: &[&'static Kernel],
    favoured: &'static Kernel,
    end: Instant,
    mut copy: impl FnMut(&'static Kernel),
) -> &'static Kernel {
    let mut times: Vec<Vec<u128>> = vec![Vec::new(); candidates.len()];
    for _ in 0..ROUNDS {
        for (kernel, times) in candidates.iter().zip(&mut times) {
            if Instant::now() > end {
                return favoured;
            }
            // Once for the caches, once for the clock.
            copy(kernel);
            let begun = Instant::now();
            copy(kernel);
            times.push(begun.elapsed().as_nanos());
        }
    }
    let medians = times.iter_mut().map(|times| *times.select_nth_unstable(ROUNDS / 2).1);
    let medians: Vec<(u128, &'static Kernel)> = medians.zip(candidates.iter().copied()).collect();
    let usual = medians
        .iter()
        .find(|(_, kernel)| kernel.name == favoured.name)
        .map(|(time, _)| *time);
    match (medians.iter().min_by_key(|(time, _)| *time), usual) {
        (Some((best, kernel)), Some(usual)) if best * (100 + MARGIN) < usual * 100 => kernel,
        (Some((_, kernel)), None) => kernel,
        _ => favoured,
    }
}

/// `$XDG_CACHE_HOME/gdr/copy-kernels`, by default under `~/.cache`. A relative directory is as good as none (XDG Base
/// Directory Specification).
fn cache_path() -> Option<PathBuf> {
    let absolute = |variable| {
        env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("gdr/copy-kernels"))
}

/// What the measurement holds for: the first line of the file.
fn conditions() -> String {
    let names: Vec<_> = kernels()
        .iter()
        .filter(|kernel| kernel.supported())
        .map(Kernel::name)
        .collect();
    format!(
        "gdr {} on {} with {}",
        env!("CARGO_PKG_VERSION"),
        arch::cpu_model(),
        names.join(",")
    )
}

fn remember(path: &Path, choice: Choice) {
    let text = format!(
        "{}\nwrite {}\nread {}\n",
        conditions(),
        choice.write.name,
        choice.read.name
    );
    // Whole or not at all: written beside, then moved. Failing is no matter: the next process measures again.
    let beside = path.with_extension(format!("new.{}", std::process::id()));
    let written = path.parent().map(fs::create_dir_all).is_some_and(|made| made.is_ok())
        && fs::write(&beside, text).is_ok()
        && fs::rename(&beside, path).is_ok();
    if !written {
        let _ = fs::remove_file(&beside);
    }
}

fn recall(path: &Path) -> Option<Choice> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    if lines.next()? != conditions() {
        return None;
    }
    let mut named = |direction| {
        let name = lines.next()?.strip_prefix(direction)?.strip_prefix(' ')?;
        kernel(name).filter(|kernel| kernel.supported() && !kernel.named_only)
    };
    Some(Choice {
        write: named("write")?,
        read: named("read")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_recalled() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/gdr/copy-kernels");
        let portable = choice::plainest();
        remember(
            &path,
            Choice {
                write: choice::unmeasured().write,
                read: portable,
            },
        );
        let recalled = recall(&path).expect("what was written");
        assert_eq!(
            (recalled.write.name, recalled.read.name),
            (choice::unmeasured().write.name, "portable")
        );
        let files = fs::read_dir(path.parent().expect("a parent"))
            .expect("a directory")
            .count();
        assert_eq!(files, 1, "the file beside is gone");
    }

    #[test]
    fn a_damaged_or_foreign_file_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("copy-kernels");
        assert!(recall(&path).is_none());
        let good = format!("{}\nwrite portable\nread portable\n", conditions());
        for bad in [
            String::new(),
            good.replace("gdr ", "gdr 99."),
            good.replace("write portable", "write memcpy"),
            good.replace("\nread portable\n", "\n"),
            good.replace("read ", "read"),
            good.replace("portable\n", "ls64\n"),
        ] {
            fs::write(&path, &bad).expect("a file");
            assert!(recall(&path).is_none(), "{bad:?}");
        }
        fs::write(&path, [0xff_u8; 64]).expect("a file");
        assert!(recall(&path).is_none());
        fs::write(&path, good).expect("a file");
        assert!(recall(&path).is_some());
    }

    #[test]
    fn an_unwritable_place_is_no_matter() {
        remember(Path::new("/proc/gdr/copy-kernels"), choice::unmeasured());
    }

    #[test]
    fn a_measurement_ends_and_picks_what_runs() {
        let mut memory = vec![0_u8; TUNE_BYTES];
        let begun = Instant::now();
        // SAFETY: memory of the length named; ordinary, which is slower at nothing.
        let Choice { write, read } = unsafe { measure(memory.as_mut_ptr(), memory.len()) };
        assert!(write.supported() && read.supported() && !write.named_only && !read.named_only);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[test]
    fn only_a_clear_winner_displaces_the_favoured_kernel() {
        let names: Vec<&'static Kernel> = kernels().iter().take(2).collect();
        let [slow, quick] = names[..] else { return };
        let wait = |time: Duration| {
            let begun = Instant::now();
            while begun.elapsed() < time {}
        };
        let far = Instant::now() + Duration::from_secs(60);
        let taken = fastest(&names, slow, far, |kernel| {
            wait(Duration::from_micros(if kernel.name == slow.name { 90 } else { 30 }));
        });
        assert_eq!(taken.name, quick.name);
        let past = Instant::now();
        assert_eq!(
            fastest(&names, slow, past, |_| {}).name,
            slow.name,
            "out of time, nothing changes"
        );
    }
}
