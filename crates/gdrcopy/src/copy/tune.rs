//! Short benchmark that picks kernels, once per process.
//!
//! It writes only to memory the caller provides, and no file.

use std::hint::black_box;
use std::time::{Duration, Instant};

use gdr_sys::process::SetOnce;

use super::choice::{self, Choice};
use super::kernel::{Kernel, Move, kernels};
use super::{arch, fence};

/// Source of the chosen kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Named in `GDR_COPY_KERNEL`.
    Named,
    /// Measured by this process.
    Measured,
    /// Not measured: default for this CPU.
    Unmeasured,
}

/// Kernels that [`Copier::for_caching`](super::Copier::for_caching) uses for write-combined
/// mappings, and their source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Write kernel.
    pub write: &'static str,
    /// Read kernel.
    pub read: &'static str,
    /// Source of the choice.
    pub origin: Origin,
}

/// Bytes of device memory that [`tune`] uses; with less it measures less.
pub const TUNE_BYTES: usize = WRITE_BYTES;

const WRITE_BYTES: usize = 32 << 10;
/// Reads are slow: this size takes 8 to 11 µs.
const READ_BYTES: usize = 8 << 10;
/// Host memory for several rounds. Real copies usually miss the L1 cache, where kernels differ
/// most: stores then compete with loads for line fill buffers.
const HOST_BYTES: usize = 128 << 10;
const ROUNDS: usize = 5;
/// Time limit of the measurement; it usually takes half.
const BUDGET: Duration = Duration::from_micros(500);
/// Percent by which a kernel must beat the default one.
const MARGIN: u32 = 8;

/// Measures the fastest kernels for this mapping, unless they are named, already known to this
/// process, or known for this kind of CPU. Takes half a millisecond at most. Existing [`Copier`](super::Copier)s do not change.
///
/// # Safety
/// `device` is a write-combined mapping of `len` bytes that nothing else uses meanwhile and whose
/// contents may be overwritten.
pub unsafe fn tune(device: *mut u8, len: usize) -> Tuning {
    if let Ok(Some(choice)) = choice::named() {
        return Tuning::of(choice, Origin::Named);
    }
    if known().is_none() && !arch::is_preference_measured() {
        // SAFETY: guaranteed by the caller.
        let choice = unsafe { measure(device, len) };
        // Another thread may have measured meanwhile: the first result stays.
        let _ = MEASURED.set(choice);
    }
    tuning()
}

/// Current choice, without measuring.
pub fn tuning() -> Tuning {
    if let Ok(Some(choice)) = choice::named() {
        return Tuning::of(choice, Origin::Named);
    }
    match known() {
        Some(choice) => Tuning::of(choice, Origin::Measured),
        None => Tuning::of(choice::unmeasured(), Origin::Unmeasured),
    }
}

/// Measured choice of this process.
pub(super) fn known() -> Option<Choice> {
    MEASURED.get().copied()
}

static MEASURED: SetOnce<Choice> = SetOnce::new();

impl Tuning {
    fn of(choice: Choice, origin: Origin) -> Tuning {
        Tuning { write: choice.write.name, read: choice.read.name, origin }
    }
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
        // SAFETY: the kernel is supported, and both sides hold `reads` bytes: a slot is at least
        // that long.
        unsafe { (kernel.read as Move)(host.as_mut_ptr().add(slot), device, reads) };
        // Otherwise the next read could hit this read's streaming buffers.
        fence::all();
        black_box(&mut host);
    });
    let write = fastest(&candidates, favoured.write, end, |kernel| {
        // SAFETY: the kernel is supported, and both sides hold `writes` bytes.
        unsafe { (kernel.write as Move)(device, host.as_ptr(), writes) };
        fence::writes();
    });
    Choice { write, read }
}

/// Kernel with the shortest time over interleaved rounds, if clearly faster than the default.
/// Minimum, not median: a CPU takes up to 0.5 ms to run its wide units at full speed, most of a
/// measurement.
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
            let started = Instant::now();
            copy(kernel);
            *time = started.elapsed().min(*time);
        }
    }
    let time_of = |name| {
        candidates.iter().zip(&times).find(|(kernel, _)| kernel.name == name).map(|(_, time)| *time)
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
    fn tune_ends_with_supported_kernels() {
        let mut memory = vec![0_u8; TUNE_BYTES];
        let started = Instant::now();
        // SAFETY: ordinary memory of the given length.
        let Choice { write, read } = unsafe { measure(memory.as_mut_ptr(), memory.len()) };
        assert!(write.supported() && read.supported() && !write.named_only && !read.named_only);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }

    #[test]
    fn keeps_default_without_clear_winner() {
        let names: Vec<&'static Kernel> = kernels().iter().take(2).collect();
        let [slow, quick] = names[..] else { return };
        let wait = |time: Duration| {
            let started = Instant::now();
            while started.elapsed() < time {}
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
            "no change when out of time"
        );
    }
}
