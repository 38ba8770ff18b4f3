//! One copy shared among threads: distribution of parts and completion. Starts no threads.
//!
//! A job is announced in one word, the ticket: number of parts, number of helpers, next part. One
//! `fetch_add` takes a part of the announced job, whose fields do not change until that part is
//! reported done. So a late helper takes nothing, and nothing waits for it.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::cut::Cut;
use crate::copy::fence;
use crate::copy::kernel::Move;
use crate::copy::plan::LINE;

/// Direction, which determines the side aligned to lines and the fences of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the device; each thread drains its write-combining buffers.
    Write,
    /// From the device.
    Read,
    /// From the device, after everything the GPU has written; each thread fences its loads.
    OrderedRead,
}

/// Copy to share: `kernel` moves `len` bytes from `source` to `destination`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) kernel: Move,
    pub(crate) destination: *mut u8,
    pub(crate) source: *const u8,
    pub(crate) len: usize,
    pub(crate) direction: Direction,
}

/// Shared form of a job.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Shared {
    ticket: Line<AtomicU64>,
    done: Line<AtomicU32>,
    kernel: AtomicPtr<()>,
    destination: AtomicPtr<u8>,
    source: AtomicPtr<u8>,
    len: AtomicUsize,
    least: AtomicUsize,
    threads: AtomicUsize,
    direction: AtomicUsize,
}

/// Value on its own cache line, against false sharing.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T);

impl Shared {
    /// Announces a job to the caller and `helpers` helpers, in parts of at least `least` bytes (a
    /// multiple of a line). Returns the number of parts. The caller holds the pool, and its
    /// previous job is done.
    pub(super) fn announce(&self, job: &Job, least: usize, helpers: usize) -> u32 {
        self.kernel.store(job.kernel as *mut (), Ordering::Relaxed);
        self.destination.store(job.destination, Ordering::Relaxed);
        self.source.store(job.source.cast_mut(), Ordering::Relaxed);
        self.len.store(job.len, Ordering::Relaxed);
        self.least.store(least, Ordering::Relaxed);
        self.threads.store(helpers + 1, Ordering::Relaxed);
        self.direction.store(job.direction as usize, Ordering::Relaxed);
        self.done.0.store(0, Ordering::Relaxed);
        let parts = job.cut(least, helpers + 1).parts() as u32;
        // SeqCst pairs with a helper that goes to sleep: it announces this before its last look at
        // the ticket, and we look for sleepers after the store.
        self.ticket
            .0
            .store(Ticket { parts, helpers: helpers as u32, next: 0 }.pack(), Ordering::SeqCst);
        parts
    }

    /// True if the helper with this number may join.
    #[inline]
    pub(super) fn wants(&self, helper: usize) -> bool {
        let ticket = Ticket::unpack(self.ticket.0.load(Ordering::SeqCst));
        ticket.next < ticket.parts && helper < ticket.helpers as usize
    }

    /// Number of helpers that the announced job can use.
    pub(super) fn helpers(&self) -> usize {
        Ticket::unpack(self.ticket.0.load(Ordering::Relaxed)).helpers as usize
    }

    /// Copies parts until none is left, then reports them. Returns their bytes.
    ///
    /// # Safety
    /// The memory of an announced job stays valid until [`is_done`](Self::is_done).
    pub(super) unsafe fn take_part(&self) -> usize {
        let (mut taken, mut bytes) = (0, 0);
        let mut direction = Direction::Read;
        while let Some(index) = self.next() {
            let job = self.job();
            direction = job.direction;
            if taken == 0 && direction == Direction::OrderedRead {
                fence::before_reads();
            }
            let (least, threads) =
                (self.least.load(Ordering::Relaxed), self.threads.load(Ordering::Relaxed));
            let (offset, len) = job.part(index, least, threads);
            // SAFETY: a part lies within the job, whose memory its owner keeps valid until all
            // parts are done.
            unsafe { (job.kernel)(job.destination.add(offset), job.source.add(offset), len) }
            taken += 1;
            bytes += len;
        }
        if taken != 0 {
            match direction {
                // A thread's stores must leave its buffers before the part is reported.
                Direction::Write => fence::writes(),
                Direction::OrderedRead => fence::after_reads(),
                Direction::Read => {}
            }
            self.done.0.fetch_add(taken, Ordering::Release);
        }
        bytes
    }

    /// True if all `parts` of the announced job are copied.
    #[inline]
    pub(super) fn is_done(&self, parts: u32) -> bool {
        self.done.0.load(Ordering::Acquire) == parts
    }

    fn next(&self) -> Option<usize> {
        // No unconditional fetch_add: `next` must not overflow while helpers poll.
        let seen = Ticket::unpack(self.ticket.0.load(Ordering::Relaxed));
        if seen.next >= seen.parts {
            return None;
        }
        let ticket = Ticket::unpack(self.ticket.0.fetch_add(1, Ordering::AcqRel));
        (ticket.next < ticket.parts).then_some(ticket.next as usize)
    }

    /// The announced job; stable for a thread that has taken a part and not yet reported it.
    fn job(&self) -> Job {
        let kernel = self.kernel.load(Ordering::Relaxed);
        Job {
            // SAFETY: created from a `Move` in `announce`, which happened before the ticket was
            // taken.
            kernel: unsafe { std::mem::transmute::<*mut (), Move>(kernel) },
            destination: self.destination.load(Ordering::Relaxed),
            source: self.source.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            direction: match self.direction.load(Ordering::Relaxed) {
                0 => Direction::Write,
                1 => Direction::Read,
                _ => Direction::OrderedRead,
            },
        }
    }
}

impl Job {
    /// Copies in the calling thread, with the fences that end a copy in this direction.
    ///
    /// # Safety
    /// The job's memory is valid for its kernel, which this CPU supports.
    pub(super) unsafe fn copy_alone(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.kernel)(self.destination, self.source, self.len) };
        match self.direction {
            Direction::Write => fence::writes(),
            Direction::Read => fence::drop_streamed_lines(),
            Direction::OrderedRead => fence::after_reads(),
        }
    }

    /// (offset, length) of a part; all parts but the first begin at a device line.
    fn part(&self, index: usize, least: usize, threads: usize) -> (usize, usize) {
        let (first, count) = self.cut(least, threads).part(index);
        let start = (first * least).saturating_sub(self.skew());
        let end = ((first + count) * least - self.skew()).min(self.len);
        (start, end - start)
    }

    fn cut(&self, least: usize, threads: usize) -> Cut {
        Cut { units: (self.skew() + self.len).div_ceil(least), threads }
    }

    /// Bytes from the start of the first device line to the device address.
    fn skew(&self) -> usize {
        let device = match self.direction {
            Direction::Write => self.destination.addr(),
            Direction::Read | Direction::OrderedRead => self.source.addr(),
        };
        device % LINE
    }
}

/// Announcement: next part in bits 0 to 31, parts in 32 to 55, helpers in 56 to 63.
#[derive(Clone, Copy)]
struct Ticket {
    parts: u32,
    helpers: u32,
    next: u32,
}

impl Ticket {
    fn pack(self) -> u64 {
        u64::from(self.next) | u64::from(self.parts) << 32 | u64::from(self.helpers) << 56
    }

    fn unpack(word: u64) -> Ticket {
        Ticket {
            parts: (word >> 32) as u32 & 0x00ff_ffff,
            helpers: (word >> 56) as u32,
            next: word as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(device: usize, len: usize) -> Job {
        unsafe fn nothing(_: *mut u8, _: *const u8, _: usize) {}
        let device = std::ptr::without_provenance_mut(device);
        Job {
            kernel: nothing,
            destination: device,
            source: std::ptr::null(),
            len,
            direction: Direction::Write,
        }
    }

    #[test]
    fn parts_are_line_aligned_and_complete() {
        for (device, len, least) in [
            (0x1000, 65536, 4096),
            (0x1001, 65536, 4096),
            (0x103f, 8193, 4096),
            (0x1020, 96, 64),
            (0x1030, 5 << 20, 4096),
        ] {
            for threads in [2, 3, 16] {
                let job = job(device, len);
                let mut next = 0;
                for index in 0..job.cut(least, threads).parts() {
                    let (offset, len) = job.part(index, least, threads);
                    assert_eq!(offset, next);
                    assert!(index == 0 || (device + offset) % 64 == 0);
                    assert!(len > 0);
                    next += len;
                }
                assert_eq!(next, len);
            }
        }
    }

    /// One thread announces jobs as a pool holder does, and three take parts, sometimes late.
    #[test]
    fn concurrent_jobs_are_complete() {
        unsafe fn copied(destination: *mut u8, source: *const u8, len: usize) {
            // SAFETY: a part of the job below, with two buffers.
            unsafe { std::ptr::copy_nonoverlapping(source, destination, len) };
        }
        let (jobs, len) = if cfg!(miri) { (4, 700) } else { (2000, 70_000) };
        let shared = Shared::default();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for helper in 0..3 {
                let (shared, is_over) = (&shared, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        if shared.wants(helper) {
                            // SAFETY: the announcing thread keeps the buffers until the job is
                            // done.
                            unsafe { shared.take_part() };
                        }
                        std::thread::yield_now();
                    }
                });
            }
            for number in 0..jobs {
                let source = vec![number as u8; len];
                let mut destination = vec![!(number as u8); len];
                let job = Job {
                    kernel: copied,
                    destination: destination.as_mut_ptr(),
                    source: source.as_ptr(),
                    len,
                    direction: if number % 2 == 0 {
                        Direction::Write
                    } else {
                        Direction::OrderedRead
                    },
                };
                let parts = shared.announce(&job, LINE, 3);
                // SAFETY: both buffers live until all parts are done.
                unsafe { shared.take_part() };
                while !shared.is_done(parts) {
                    std::thread::yield_now();
                }
                assert_eq!(source, destination, "{number}");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn ticket_round_trip() {
        let ticket =
            Ticket::unpack(Ticket { parts: 0x00ff_fff0, helpers: 63, next: 0xffff_fffe }.pack());
        assert_eq!((ticket.parts, ticket.helpers, ticket.next), (0x00ff_fff0, 63, 0xffff_fffe));
    }
}
