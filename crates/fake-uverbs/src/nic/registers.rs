//! The doorbell registers of one open device, as the NIC sees them: the pages that the provider maps, mapped once more.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::node;

/// The NIC's own page of registers, `MLX5_ADAPTER_PAGE_SIZE`: 4 KiB whatever the machine's page is.
const UAR: usize = 4096;

/// Where in it the first register lies (`MLX5_BF_OFFSET`), and how far its buffers are apart: two to each of two registers.
const FIRST: usize = 0x800;
const BUFFER: usize = 0x100;
const BUFFERS: usize = 4;

/// A doorbell register: the NIC's page by its place in the node's file, and which of the page's two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register {
    pub page: usize,
    pub which: usize,
}

impl Register {
    /// By libmlx5's index of the registers that every device has: four to a page, of which the first two are used.
    pub fn of_device(index: u32) -> Self {
        let index = index as usize;
        Self {
            page: index / 4 * UAR,
            which: index % 4,
        }
    }

    /// The first of a page that was made by itself, by which commands name it.
    pub fn of_page(number: u32) -> Self {
        Self {
            page: number as usize * UAR,
            which: 0,
        }
    }

    /// By the index of a thread domain's register: two to a page.
    pub fn of_thread_domain(index: u32) -> Self {
        let index = index as usize;
        Self {
            page: node::STATIC_PAGES * node::page_bytes() + index / 2 * UAR,
            which: index % 2,
        }
    }
}

/// A doorbell: the register it was written to, and the queue pair that it names.
#[derive(Debug, Clone, Copy)]
pub struct Doorbell {
    pub register: Register,
    pub number: u32,
}

/// All pages of one open device.
pub struct Registers {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory of the whole process, which is reached by atomic operations alone.
unsafe impl Send for Registers {}

impl Registers {
    /// Maps the node's file.
    pub fn map(fd: c_int, length: usize) -> Result<Self, c_int> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file of this length. Not `mmap`, which is this library's own.
        let start = unsafe {
            libc::syscall(
                libc::SYS_mmap,
                null_mut::<u8>(),
                length,
                protection,
                libc::MAP_SHARED,
                fd,
                0_i64,
            )
        };
        let start = usize::try_from(start).ok().filter(|start| *start != 0);
        let start = start
            .and_then(|start| NonNull::new(start as *mut u8))
            .ok_or(libc::ENOMEM)?;
        Ok(Self { start, length })
    }

    /// Takes the last doorbell of a completion queue, which is the queue's number in the second word (`MLX5_CQ_DOORBELL`). The
    /// provider rings for all queues on the first page.
    pub fn take_completion_queue(&self) -> Option<u32> {
        const PLACE: usize = 0x20;
        // SAFETY: within the mapping's first page; as in `take`.
        let word = unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(PLACE).cast()) };
        if word.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some((u64::from_be(word.swap(0, Ordering::AcqRel)) & 0xffff_ffff) as u32)
    }

    /// Takes what has been written to a NIC's page since the last time.
    ///
    /// A doorbell is eight bytes, big-endian: what a request begins with, so that the second word has the queue pair's number
    /// above its low byte. A request that is copied as a whole (BlueFlame) begins with the same bytes.
    pub fn take(&self, page: usize, mut heard: impl FnMut(Doorbell)) {
        for buffer in 0..BUFFERS {
            let offset = page + FIRST + buffer * BUFFER;
            if offset + 8 > self.length {
                return;
            }
            // SAFETY: within the mapping, as just checked, which lives as long as this value; aligned to eight bytes, because the
            // mapping is to a page; reached by atomic operations and by the stores of the provider, which are of eight bytes.
            let word = unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) };
            // A look first: a swap would take the cache line from the processor that is about to ring.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let rung = u64::from_be(word.swap(0, Ordering::AcqRel));
            let register = Register {
                page,
                which: buffer / 2,
            };
            let number = (rung & 0xffff_ffff) as u32 >> 8;
            heard(Doorbell { register, number });
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nobody has a reference into.
        unsafe { libc::syscall(libc::SYS_munmap, self.start.as_ptr(), self.length) };
    }
}
