//! The pages under what is allocated. A GPU's are a file in memory, so that a simulated card can map the same ones; its name
//! tells whose memory it is in `/proc/self/maps`.

use std::ffi::c_void;
use std::fs::File;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// What they begin at a multiple of, and are a multiple of: more than any real allocation promises.
const ALIGNMENT: usize = 2 << 20;

/// Pages of our own, zeroed, and taken from the machine as they are written; unmapped when the last who uses them lets go.
pub struct Pages {
    start: *mut c_void,
    bytes: usize,
    /// What was mapped for them: more, to find a start in.
    mapped: (*mut c_void, usize),
    file: Option<File>,
}

// SAFETY: the pages belong to no thread; what is in them is accessed as the programs that share them see to.
unsafe impl Send for Pages {}
// SAFETY: as above; the fields do not change.
unsafe impl Sync for Pages {}

impl Pages {
    pub fn of_host(bytes: usize) -> Option<Self> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let room = bytes.checked_add(ALIGNMENT)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, wherever the kernel likes, disturbs none that is there.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                room,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        };
        let mapped = mapped.ok()?;
        let lead = mapped.addr().next_multiple_of(ALIGNMENT) - mapped.addr();
        Some(Self {
            start: mapped.wrapping_byte_add(lead),
            bytes,
            mapped: (mapped, room),
            file: None,
        })
    }

    pub fn of_gpu(gpu: usize, bytes: usize) -> Option<Self> {
        let mut pages = Self::of_host(bytes)?;
        let file = memfd_create(format!("fake-cuda-gpu{gpu}"), MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&file, pages.bytes as u64).ok()?;
        let (rights, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED,
        );
        // SAFETY: it takes the place of pages that were just mapped for it and that nobody knows.
        unsafe { mmap(pages.start, pages.bytes, rights, flags, &file, 0) }.ok()?;
        pages.file = Some(file.into());
        Some(pages)
    }

    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// The file that they are, and its bytes.
    #[cfg(not(feature = "old"))]
    pub fn file(&self) -> Option<(&File, u64)> {
        self.file.as_ref().map(|file| (file, self.bytes as u64))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (start, bytes) = self.mapped;
        // SAFETY: mapped by `of_host`, and nobody has them any more. A failure leaves them there.
        let _ = unsafe { munmap(start, bytes) };
    }
}
