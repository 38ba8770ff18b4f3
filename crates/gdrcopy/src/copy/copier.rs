//! What a mapping copies with: kernels for both directions, when to share a copy among threads, and which fences.

use std::ops::Range;

use super::choice::{self, Choice, Error};
use super::kernel::{Kernel, Move};
use super::plan::LINE;
use super::pool::{ANYWHERE, Cpus, Direction, Job, MOST_THREADS, Place};
use super::{fence, memory};

/// How the CPU caches a mapping of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Stores gather in buffers, loads are not cached: a GPU behind PCIe.
    WriteCombining,
    /// Ordinary memory, coherent with the device: Grace Hopper, and simulated devices.
    Cached,
    /// Each access goes to the device by itself and must be aligned: Arm's Device memory, `UC` on x86.
    Uncached,
}

/// Copies between host memory and one kind of mapping. Made once a mapping, cheap to copy, usable from any thread.
///
/// | caching | accesses | threads | after `to_device` | after `from_device` |
/// |---|---|---|---|---|
/// | write-combining | the chosen kernels, aligned, each byte once | many, for large copies | `fence::writes` | streamed lines dropped |
/// | uncached | `portable`: at most 8 bytes, aligned, each byte once | one | `fence::writes` | nothing |
/// | cached | the C library's `memcpy` | one | nothing | nothing |
///
/// **Writes.** When `to_device` returns, its bytes are on their way in order: whatever this thread stores afterwards, to
/// the device or to a flag in host memory, is seen after them. That they have arrived, a read of the same device shows.
/// Within one copy there is no order, and nothing wider than an aligned 8-byte piece arrives whole by promise.
///
/// **Reads.** `from_device` on write-combining memory is weakly ordered. It may begin before earlier loads have ended, and
/// its bytes may be those of a read of the same line shortly before (two or three calls, a microsecond or so): x86-64's
/// streaming loads are answered from their buffers where they can be. To read data that a flag announced, use
/// [`from_device_ordered`](Self::from_device_ordered), which costs about 0.6 µs more. An aligned read of 1, 2, 4 or 8 bytes
/// is one plain load that goes to the device each time, so it can poll.
#[derive(Clone, Copy, Debug)]
pub struct Copier {
    write: Way,
    read: Way,
    caching: Caching,
    threads: usize,
    place: &'static Place,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    kernel: Move,
    name: &'static str,
    /// Copies of this many bytes and more are shared among threads.
    shared_from: usize,
}

/// From where on more threads are faster, measured on an H200 (16 CPUs, helpers spinning): reads of 16 KiB take 16 µs with
/// one thread and 4 with eight; writes of 64 KiB 3.7 µs with one and 3.0 with two, of 16 KiB 2.7 µs with any number.
const SHARE_READS_FROM: usize = 16 << 10;
const SHARE_WRITES_FROM: usize = 64 << 10;

impl Copier {
    /// For a mapping of this caching: the kernel that `GDR_COPY_KERNEL` names, else what [`tune`](super::tune) measured on
    /// this machine, else what is best on CPUs like this one. `GDR_COPY_THREADS` limits the threads of one copy (1 to 16).
    /// Both variables speak of write-combining mappings only, but a wrong value is an error for all.
    ///
    /// # Errors
    /// A variable has a value that is not among those it takes, or names a kernel that this CPU lacks.
    pub fn for_caching(caching: Caching) -> Result<Copier, Error> {
        let (Choice { write, read }, threads) = choice::from_environment()?;
        Ok(match caching {
            Caching::WriteCombining => Copier {
                threads,
                ..Self::of(write, read)
            },
            Caching::Uncached => {
                let Kernel {
                    name, write, read, ..
                } = *choice::plainest();
                Self::alone(caching, name, write, read)
            }
            Caching::Cached => Self::alone(caching, "memcpy", memory::copy, memory::copy),
        })
    }

    /// With these kernels and the rules of write-combining memory, which are correct on any mapping that is not Arm's
    /// Device memory.
    ///
    /// # Errors
    /// This CPU lacks one of them.
    pub fn with_kernels(write: &'static Kernel, read: &'static Kernel) -> Result<Copier, Error> {
        match [write, read].into_iter().find(|kernel| !kernel.supported()) {
            Some(kernel) => Err(Error::KernelUnsupported {
                name: kernel.name(),
            }),
            None => Ok(Self::of(write, read)),
        }
    }

    /// The same, with helpers near these CPUs: those of the GPU's NUMA node, from its PCI device's `local_cpulist`. Only as
    /// far as the process's affinity allows.
    #[must_use]
    pub fn near(self, cpus: &Cpus) -> Copier {
        Copier {
            place: Place::near(cpus),
            ..self
        }
    }

    /// The same, with at most this many threads in a copy, the caller's included. 1 keeps it to the caller.
    #[must_use]
    pub fn with_threads(self, most: usize) -> Copier {
        Copier {
            threads: most.clamp(1, MOST_THREADS),
            ..self
        }
    }

    /// The caching it was made for.
    pub fn caching(&self) -> Caching {
        self.caching
    }

    /// What writes with: a kernel's name, or `memcpy`.
    pub fn write_kernel(&self) -> &'static str {
        self.write.name
    }

    /// What reads with: a kernel's name, or `memcpy`.
    pub fn read_kernel(&self) -> &'static str {
        self.read.name
    }

    /// Copies to device memory; see [`Copier`] for the order in which that is seen. Neither side need be aligned.
    ///
    /// # Safety
    /// `host` is readable and `device` writable for `len` bytes until this returns, and they do not overlap; the mapping
    /// has the caching this was made for; nobody else writes those host bytes meanwhile. What other agents do to the
    /// device's bytes meanwhile may tear, and is no undefined behaviour.
    #[inline]
    pub unsafe fn to_device(&self, device: *mut u8, host: *const u8, len: usize) {
        if len >= self.write.shared_from {
            let kernel = self.write.kernel;
            let job = Job {
                kernel,
                destination: device,
                source: host,
                len,
                direction: Direction::Write,
            };
            // SAFETY: the caller's promise.
            if unsafe { self.share(&job) } {
                return;
            }
        }
        // SAFETY: the caller's promise; the kernel is supported, or the Copier would not exist.
        unsafe { (self.write.kernel)(device, host, len) }
        if self.caching != Caching::Cached {
            fence::writes();
        }
    }

    /// Copies from device memory, in no order with other reads; see [`Copier`].
    ///
    /// # Safety
    /// As [`to_device`](Self::to_device), with the directions exchanged; nobody else touches those host bytes.
    #[inline]
    pub unsafe fn from_device(&self, host: *mut u8, device: *const u8, len: usize) {
        if len >= self.read.shared_from {
            let kernel = self.read.kernel;
            let job = Job {
                kernel,
                destination: host,
                source: device,
                len,
                direction: Direction::Read,
            };
            // SAFETY: the caller's promise.
            if unsafe { self.share(&job) } {
                return;
            }
        }
        // SAFETY: the caller's promise; the kernel is supported, or the Copier would not exist.
        unsafe { (self.read.kernel)(host, device, len) }
        if self.caching == Caching::WriteCombining {
            fence::drop_streamed_lines();
        }
    }

    /// Copies from device memory what is there now: all that had been written when a flag was seen before this call, and
    /// all that this thread wrote. Later accesses of this thread come after it.
    ///
    /// # Safety
    /// As [`from_device`](Self::from_device).
    pub unsafe fn from_device_ordered(&self, host: *mut u8, device: *const u8, len: usize) {
        fence::before_reads();
        if len >= self.read.shared_from {
            let kernel = self.read.kernel;
            let job = Job {
                kernel,
                destination: host,
                source: device,
                len,
                direction: Direction::OrderedRead,
            };
            // SAFETY: the caller's promise.
            if unsafe { self.share(&job) } {
                return;
            }
        }
        // SAFETY: the caller's promise; the kernel is supported, or the Copier would not exist.
        unsafe { (self.read.kernel)(host, device, len) }
        fence::after_reads();
    }

    /// One thread's part of a write, for callers with threads of their own: the kernel alone. Each thread calls
    /// [`fence::writes`] after its last part and before it reports it done. [`split`] cuts a copy into such parts.
    ///
    /// # Safety
    /// As [`to_device`](Self::to_device).
    #[inline]
    pub unsafe fn to_device_part(&self, device: *mut u8, host: *const u8, len: usize) {
        // SAFETY: the caller's promise; the kernel is supported, or the Copier would not exist.
        unsafe { (self.write.kernel)(device, host, len) }
    }

    /// One thread's part of a read: the kernel alone. Where order matters, each thread calls [`fence::before_reads`] before
    /// its first part and [`fence::after_reads`] after its last.
    ///
    /// # Safety
    /// As [`from_device`](Self::from_device).
    #[inline]
    pub unsafe fn from_device_part(&self, host: *mut u8, device: *const u8, len: usize) {
        // SAFETY: the caller's promise; the kernel is supported, or the Copier would not exist.
        unsafe { (self.read.kernel)(host, device, len) }
    }

    fn of(write: &'static Kernel, read: &'static Kernel) -> Copier {
        Copier {
            write: Way {
                kernel: write.write,
                name: write.name,
                shared_from: SHARE_WRITES_FROM,
            },
            read: Way {
                kernel: read.read,
                name: read.name,
                shared_from: SHARE_READS_FROM,
            },
            caching: Caching::WriteCombining,
            threads: MOST_THREADS,
            place: &ANYWHERE,
        }
    }

    /// Never with helpers.
    fn alone(caching: Caching, name: &'static str, write: Move, read: Move) -> Copier {
        let way = |kernel| Way {
            kernel,
            name,
            shared_from: usize::MAX,
        };
        Copier {
            write: way(write),
            read: way(read),
            caching,
            threads: 1,
            place: &ANYWHERE,
        }
    }

    /// # Safety
    /// As the copy it is part of.
    #[cold]
    #[inline(never)]
    unsafe fn share(&self, job: &Job) -> bool {
        // SAFETY: the caller's promise; the kernel is supported, or the Copier would not exist.
        unsafe { self.place.copy(job, self.threads) }
    }
}

/// Cuts a copy at device address `address` into at most `parts` ranges of about equal size, none empty, that meet at lines
/// of the device: no two threads then store to one line.
///
/// ```
/// use gdrcopy::copy::split;
/// assert_eq!(split(0x1010, 200, 2).collect::<Vec<_>>(), [0..112, 112..200]);
/// ```
pub fn split(address: usize, len: usize, parts: usize) -> impl Iterator<Item = Range<usize>> {
    let skew = address % LINE;
    let size = (skew + len)
        .div_ceil(parts.max(1))
        .next_multiple_of(LINE)
        .max(LINE);
    let count = if len == 0 {
        0
    } else {
        (skew + len).div_ceil(size)
    };
    (0..count).map(move |part| {
        let start = (part * size).saturating_sub(skew);
        start..((part + 1) * size - skew).min(len)
    })
}
