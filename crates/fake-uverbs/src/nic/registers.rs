//! The doorbell registers of a context: the NIC's own mapping of the pages that the provider maps.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::node;

/// The NIC's register page, `MLX5_ADAPTER_PAGE_SIZE`: 4 KiB regardless of the machine's page size.
const UAR: usize = 4096;

/// Offset of the first register in a page (`MLX5_BF_OFFSET`), and the distance of its buffers: two for each of two registers.
const FIRST: usize = 0x800;
const BUFFER: usize = 0x100;
const BUFFERS: usize = 4;

/// A doorbell register: index of its 4 KiB page in the node's file, and which of the page's two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register {
    pub page: usize,
    pub which: usize,
}

impl Register {
    /// From libmlx5's index of static registers: four per page, of which the first two are used.
    pub fn of_device(index: u32) -> Self {
        let index = index as usize;
        Self { page: index / 4 * UAR, which: index % 4 }
    }

    /// The first register of a dynamically allocated page, by its number in commands.
    pub fn of_page(number: u32) -> Self {
        Self { page: number as usize * UAR, which: 0 }
    }

    /// From the index of a thread domain's register: two per page.
    pub fn of_thread_domain(index: u32) -> Self {
        let index = index as usize;
        Self { page: node::STATIC_PAGES * node::page_bytes() + index / 2 * UAR, which: index % 2 }
    }
}

/// The register of queue pairs without a send doorbell record (`DB_BF_DBR_LESS_BUF_OFFSET` of rdma-core's tests, v64.0).
const RECORDLESS: usize = 0x600;

/// A doorbell: its register, and the queue pair number written to it.
#[derive(Debug, Clone, Copy)]
pub struct Doorbell {
    pub register: Register,
    pub number: u32,
    /// From the register of queue pairs without a record: the end of the WQEBBs that are posted.
    pub end: Option<u16>,
}

/// All register pages of a context.
pub struct Registers {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory of the process, accessed only with atomic operations.
unsafe impl Send for Registers {}

impl Registers {
    /// Maps the node's file.
    pub fn map(fd: c_int, length: usize) -> Result<Self, c_int> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file of this length. Not `mmap`, which this library overrides.
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
        let start = start.and_then(|start| NonNull::new(start as *mut u8)).ok_or(libc::ENOMEM)?;
        Ok(Self { start, length })
    }

    /// Takes the last completion queue doorbell: the queue number in the second word (`MLX5_CQ_DOORBELL`). The provider uses the first
    /// page for all queues.
    pub fn take_completion_queue(&self) -> Option<u32> {
        const PLACE: usize = 0x20;
        // SAFETY: within the mapping's first page; as in `take`.
        let word = unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(PLACE).cast()) };
        if word.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some((u64::from_be(word.swap(0, Ordering::AcqRel)) & 0xffff_ffff) as u32)
    }

    /// Takes the doorbells written to a page since the last call.
    ///
    /// A doorbell is 8 bytes, big-endian, the start of a WQE: the second word has the queue pair number above its low byte. A WQE
    /// copied by BlueFlame starts with the same bytes.
    pub fn take(&self, page: usize, mut handle: impl FnMut(Doorbell)) {
        for buffer in 0..BUFFERS {
            let Some(doorbell) = self.take_word(page + FIRST + buffer * BUFFER) else {
                continue;
            };
            let register = Register { page, which: buffer / 2 };
            handle(Doorbell { register, number: number_in(doorbell), end: None });
        }
        if let Some(doorbell) = self.take_word(page + RECORDLESS) {
            // The WQE's index, and its length in units of 16 bytes.
            let index = (doorbell >> 40) as u16;
            let blocks = (doorbell as u16 & 0x3f).div_ceil(4);
            handle(Doorbell {
                register: Register { page, which: 0 },
                number: number_in(doorbell),
                end: Some(index.wrapping_add(blocks)),
            });
        }
    }

    fn take_word(&self, offset: usize) -> Option<u64> {
        if offset + 8 > self.length {
            return None;
        }
        // SAFETY: within the mapping, as just checked, which lives as long as this value; 8-byte aligned, because mappings start at a
        // page; accessed with atomic operations and with the provider's 8-byte stores.
        let word = unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) };
        // Load first: a swap would take the cache line from the CPU that is about to write.
        if word.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(u64::from_be(word.swap(0, Ordering::AcqRel)))
    }
}

fn number_in(doorbell: u64) -> u32 {
    (doorbell & 0xffff_ffff) as u32 >> 8
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`; no reference into it exists.
        unsafe { libc::syscall(libc::SYS_munmap, self.start.as_ptr(), self.length) };
    }
}
