//! Copies for a mapping: kernels for both directions, thread thresholds, fences.

use std::ops::Range;

use super::choice::{self, Choice, Error};
use super::kernel::{Kernel, Move};
use super::plan::LINE;
use super::pool::{ANYWHERE, Budget, CpuPool, Cpus, Direction, Job, MAX_THREADS};
use super::{arch, fence, memory};

/// CPU caching of a device memory mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Write-combined stores, uncached loads: a GPU behind PCIe.
    WriteCombining,
    /// Ordinary memory, coherent with the device: Grace Hopper and simulated devices.
    Cached,
    /// Each access reaches the device and must be aligned: Arm Device memory, `UC` on x86.
    Uncached,
}

/// Copies between host memory and one kind of mapping. Create one for each mapping; it is cheap to
/// copy and usable from any thread.
///
/// | caching | accesses | threads | after `to_device` | after `from_device` |
/// |---|---|---|---|---|
/// | write-combining | the chosen kernels, aligned, each byte once | several, for large copies | `fence::writes` | streamed lines dropped |
/// | uncached | `portable`: at most 8 bytes, aligned, each byte once | one | `fence::writes` | nothing |
/// | cached | the C library's `memcpy` | one | nothing | nothing |
///
/// **Writes.** When `to_device` returns, its stores are ordered before this thread's later stores
/// to the device or to host flags. A read of the same device confirms arrival. Within one copy
/// there is no order, and only aligned 8-byte units are atomic.
///
/// **Reads.** On write-combined memory `from_device` is weakly ordered. It may start before earlier
/// loads end, and may return data of a recent read of the same line (within two or three calls,
/// about a microsecond), because x86-64 streaming loads may hit in their buffers. To read data
/// after a flag, use [`from_device_ordered`](Self::from_device_ordered), which costs about 0.6 µs
/// more. An aligned read of 1, 2, 4 or 8 bytes is one plain load that reaches the device each time,
/// so it can poll.
#[derive(Clone, Copy, Debug)]
// What a small copy needs comes first, so that it touches one cache line of its owner: after a pause, each line costs as much as the
// copy.
#[repr(C)]
pub struct Copier {
    caching: Caching,
    write: Way,
    read: Way,
    write_name: &'static str,
    read_name: &'static str,
    budget: Budget,
    place: &'static CpuPool,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    kernel: Move,
    /// Minimum size in bytes to use several threads.
    shared_from: usize,
}

/// Bytes of a word.
const WORD: usize = 8;

impl Copier {
    /// Copier for a caching type: the kernel named in `GDR_COPY_KERNEL`, else the
    /// [`tune`](super::tune) result for this machine, else the best known for this CPU.
    /// `GDR_COPY_THREADS` limits threads per copy (1 to 16; by default `OMP_NUM_THREADS` and
    /// `OMP_THREAD_LIMIT` do), `GDR_COPY_SPIN_US` is how long helpers may poll for the next copy in
    /// microseconds. These variables apply to write-combined mappings only, but invalid values
    /// always fail.
    ///
    /// # Errors
    /// A variable has an invalid value, or names a kernel that this CPU does not support.
    pub fn for_caching(caching: Caching) -> Result<Copier, Error> {
        let (Choice { write, read }, budget) = choice::from_environment()?;
        Ok(match caching {
            Caching::WriteCombining => Self::of(write, read).within(budget),
            Caching::Uncached => {
                let Kernel { name, write, read, .. } = *choice::plainest();
                Self::alone(caching, name, write, read)
            }
            Caching::Cached => Self::alone(caching, "memcpy", memory::copy, memory::copy),
        })
    }

    /// Copier with these kernels and the rules of write-combined memory, which are correct on any
    /// mapping except Arm Device memory.
    ///
    /// # Errors
    /// This CPU does not support one of them.
    pub fn with_kernels(write: &'static Kernel, read: &'static Kernel) -> Result<Copier, Error> {
        match [write, read].into_iter().find(|kernel| !kernel.supported()) {
            Some(kernel) => Err(Error::KernelUnsupported { name: kernel.name() }),
            None => Ok(Self::of(write, read)),
        }
    }

    /// Places helper threads near these CPUs, those of the GPU's NUMA node (its PCI device's
    /// `local_cpulist`), within the process's affinity.
    #[must_use]
    pub fn near(self, cpus: &Cpus) -> Copier {
        Copier { place: CpuPool::near(cpus), ..self }
    }

    /// Limits threads per copy, the caller included. 1 uses the caller only.
    #[must_use]
    pub fn with_threads(self, most: usize) -> Copier {
        self.within(Budget { threads: most.clamp(1, MAX_THREADS), ..self.budget })
    }

    fn within(self, budget: Budget) -> Copier {
        let way = |way: Way, direction| Way {
            shared_from: match self.caching {
                Caching::WriteCombining => budget.shares_from(direction),
                Caching::Cached | Caching::Uncached => usize::MAX,
            },
            ..way
        };
        Copier {
            write: way(self.write, Direction::Write),
            read: way(self.read, Direction::Read),
            budget,
            ..self
        }
    }

    /// Caching type.
    pub fn caching(&self) -> Caching {
        self.caching
    }

    /// Name of the write kernel, or `memcpy`.
    pub fn write_kernel(&self) -> &'static str {
        self.write_name
    }

    /// Name of the read kernel, or `memcpy`.
    pub fn read_kernel(&self) -> &'static str {
        self.read_name
    }

    /// Copies to device memory; [`Copier`] documents the ordering. Neither side needs alignment.
    ///
    /// # Safety
    /// `host` is readable and `device` writable for `len` bytes until this returns, and they do not
    /// overlap; the mapping has this copier's caching; no other thread writes the host bytes
    /// meanwhile. Concurrent device accesses may tear, but are not undefined behaviour.
    #[inline]
    pub unsafe fn to_device(&self, device: *mut u8, host: *const u8, len: usize) {
        if len >= self.write.shared_from {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.copy_large(Direction::Write, device, host, len) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.to_device_part(device, host, len) }
        if self.caching != Caching::Cached {
            fence::writes();
        }
    }

    /// Copies from device memory, unordered with other reads; see [`Copier`].
    ///
    /// # Safety
    /// As [`to_device`](Self::to_device) with directions swapped; no other thread accesses the host
    /// bytes.
    #[inline]
    pub unsafe fn from_device(&self, host: *mut u8, device: *const u8, len: usize) {
        if len >= self.read.shared_from {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.copy_large(Direction::Read, host, device, len) };
        }
        // SAFETY: guaranteed by the caller; a Copier only exists if the kernel is supported.
        unsafe { (self.read.kernel)(host, device, len) }
        if self.caching == Caching::WriteCombining {
            fence::drop_streamed_lines();
        }
    }

    /// Copies current device memory: at least as new as any flag read before this call and this
    /// thread's own writes. This thread's later accesses come after it.
    ///
    /// # Safety
    /// As [`from_device`](Self::from_device).
    pub unsafe fn from_device_ordered(&self, host: *mut u8, device: *const u8, len: usize) {
        fence::before_reads();
        if len >= self.read.shared_from {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.copy_large(Direction::OrderedRead, host, device, len) };
        }
        // SAFETY: guaranteed by the caller; a Copier only exists if the kernel is supported.
        unsafe { (self.read.kernel)(host, device, len) }
        fence::after_reads();
    }

    /// Runs the write kernel for one thread's part, for callers with their own threads. Each thread
    /// calls [`fence::writes`] after its last part, before it reports completion. [`split`] divides
    /// a copy into parts.
    ///
    /// # Safety
    /// As [`to_device`](Self::to_device).
    #[inline]
    pub unsafe fn to_device_part(&self, device: *mut u8, host: *const u8, len: usize) {
        if len == WORD && device.addr().is_multiple_of(WORD) {
            // One plain store with every kernel and caching type. After a pause, calling the kernel costs more than the store.
            // SAFETY: guaranteed by the caller.
            return unsafe { arch::store_word(device, host) };
        }
        // SAFETY: guaranteed by the caller; a Copier only exists if the kernel is supported.
        unsafe { (self.write.kernel)(device, host, len) }
    }

    /// Runs the read kernel for one thread's part. For ordered reads, each thread calls
    /// [`fence::before_reads`] before its first part and [`fence::after_reads`] after its last.
    ///
    /// # Safety
    /// As [`from_device`](Self::from_device).
    #[inline]
    pub unsafe fn from_device_part(&self, host: *mut u8, device: *const u8, len: usize) {
        // SAFETY: guaranteed by the caller; a Copier only exists if the kernel is supported.
        unsafe { (self.read.kernel)(host, device, len) }
    }

    fn of(write: &'static Kernel, read: &'static Kernel) -> Copier {
        let way = |kernel| Way { kernel, shared_from: usize::MAX };
        let copier = Copier {
            caching: Caching::WriteCombining,
            write: way(write.write),
            read: way(read.read),
            write_name: write.name,
            read_name: read.name,
            budget: Budget::saving(1),
            place: &ANYWHERE,
        };
        copier.within(Budget::saving(MAX_THREADS))
    }

    /// Without helper threads.
    fn alone(caching: Caching, name: &'static str, write: Move, read: Move) -> Copier {
        let way = |kernel| Way { kernel, shared_from: usize::MAX };
        Copier {
            caching,
            write: way(write),
            read: way(read),
            write_name: name,
            read_name: name,
            budget: Budget::saving(1),
            place: &ANYWHERE,
        }
    }

    /// # Safety
    /// As the whole copy.
    #[cold]
    #[inline(never)]
    unsafe fn copy_large(
        &self,
        direction: Direction,
        destination: *mut u8,
        source: *const u8,
        len: usize,
    ) {
        let way = match direction {
            Direction::Write => &self.write,
            Direction::Read | Direction::OrderedRead => &self.read,
        };
        let job = Job { kernel: way.kernel, destination, source, len, direction };
        // SAFETY: guaranteed by the caller; a Copier only exists if the kernel is supported.
        unsafe { self.place.copy(&job, self.budget) }
    }
}

/// Splits a copy at device address `address` into at most `parts` non-empty ranges of similar size,
/// at device cache-line boundaries: no two threads store to the same line.
///
/// ```
/// use gdrcopy::copy::split;
/// assert_eq!(split(0x1010, 200, 2).collect::<Vec<_>>(), [0..112, 112..200]);
/// ```
pub fn split(address: usize, len: usize, parts: usize) -> impl Iterator<Item = Range<usize>> {
    let skew = address % LINE;
    let size = (skew + len).div_ceil(parts.max(1)).next_multiple_of(LINE).max(LINE);
    let count = if len == 0 { 0 } else { (skew + len).div_ceil(size) };
    (0..count).map(move |part| {
        let start = (part * size).saturating_sub(skew);
        start..((part + 1) * size - skew).min(len)
    })
}
