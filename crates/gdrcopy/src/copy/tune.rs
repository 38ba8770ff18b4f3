//! The short measurement that picks kernels, and its memory: once a process, once a machine.
//!
//! It writes only to memory the caller offers for it, never to a user's. What it finds is kept in the user's cache
//! directory and taken again while CPU, kernels and version are the same; a file that is damaged or cannot be written is
//! as good as none.

use std::hint::black_box;
use std::time::{Duration, Instant};

use process::SetOnce;

use super::choice::{self, Choice};
use super::kernel::{Kernel, Move, kernels};
use super::{cache, fence};

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
/// Reads are slow: these take 33 to 45 µs.
const READ_BYTES: usize = 32 << 10;
/// Host memory for the copies of several rounds. Real copies end in memory that is not in the first cache, and there
/// kernels differ most: storing then competes with loading for the buffers in which lines are fetched.
const HOST_BYTES: usize = 512 << 10;
const ROUNDS: usize = 16;
/// The end of the measurement, whatever is missing by then. Usually it takes a tenth of this.
const BUDGET: Duration = Duration::from_millis(5);
/// A kernel must be this much faster than the one favoured unmeasured to be taken instead, in percent.
const MARGIN: u32 = 8;

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
            && let Some(path) = cache::path()
        {
            cache::remember(&path, choice);
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

static MEASURED: SetOnce<Choice> = SetOnce::new();

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
    static FILE: SetOnce<Option<Choice>> = SetOnce::new();
    *FILE.get_or_set(|| cache::recall(&cache::path()?))
}

/// # Safety
/// As [`tune`].
unsafe fn measure(device: *mut u8, len: usize) -> Choice {
    let favoured = choice::unmeasured();
    let candidates: Vec<_> = kernels()
        .iter()
        .filter(|kernel| kernel.load > 8 && kernel.supported() && !kernel.named_only)
        .collect();
    let mut host = vec![1_u8; HOST_BYTES];
    let end = Instant::now() + BUDGET;
    let (reads, writes) = (len.min(READ_BYTES), len.min(WRITE_BYTES));
    let mut round = 0;
    let read = fastest(&candidates, favoured.read, end, |kernel| {
        let slot = round % (HOST_BYTES / READ_BYTES) * READ_BYTES;
        round += 1;
        // SAFETY: supported, and both sides hold `reads` bytes: a slot is at least as long.
        unsafe { (kernel.read as Move)(host.as_mut_ptr().add(slot), device, reads) };
        // Or the next read would be answered from this one's streaming buffers.
        fence::all();
        black_box(&mut host);
    });
    let write = fastest(&candidates, favoured.write, end, |kernel| {
        // SAFETY: supported, and both sides hold `writes` bytes.
        unsafe { (kernel.write as Move)(device, host.as_ptr(), writes) };
        fence::writes();
    });
    Choice { write, read }
}

/// The kernel with the shortest time of interleaved rounds, if it is clearly shorter than the favoured one's. The shortest,
/// not a median: a CPU takes up to half a millisecond to raise its wide units to full speed, most of a measurement.
fn fastest(
    candidates: &[&'static Kernel],
    favoured: &'static Kernel,
    end: Instant,
    mut copy: impl FnMut(&'static Kernel),
) -> &'static Kernel {
    let mut times = vec![Duration::MAX; candidates.len()];
    for _ in 0..ROUNDS {
        for (kernel, time) in candidates.iter().zip(&mut times) {
            if Instant::now() > end {
                return favoured;
            }
            let begun = Instant::now();
            copy(kernel);
            *time = begun.elapsed().min(*time);
        }
    }
    let time_of = |name| {
        candidates
            .iter()
            .zip(&times)
            .find(|(kernel, _)| kernel.name == name)
            .map(|(_, time)| *time)
    };
    let best = candidates.iter().zip(&times).min_by_key(|(_, time)| **time);
    match (best, time_of(favoured.name)) {
        (Some((kernel, time)), Some(usual)) if *time * (100 + MARGIN) < usual * 100 => kernel,
        (Some((kernel, _)), None) => kernel,
        _ => favoured,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_ends_and_picks_what_runs() {
        let mut memory = vec![0_u8; TUNE_BYTES];
        let begun = Instant::now();
        // SAFETY: memory of the length named; ordinary, which is slower at nothing.
        let Choice { write, read } = unsafe { measure(memory.as_mut_ptr(), memory.len()) };
        assert!(write.supported() && read.supported() && !write.named_only && !read.named_only);
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
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
            wait(Duration::from_micros(if kernel.name == slow.name {
                90
            } else {
                30
            }));
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
