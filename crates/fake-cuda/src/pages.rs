//! Pages of allocations. A GPU's are a memfd, so that a simulated NIC can map them; its name
//! identifies the memory in `/proc/self/maps`.

use std::ffi::c_void;
use std::fs::File;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

/// Alignment and granularity of pages: more than any real allocation guarantees.
const ALIGNMENT: usize = 2 << 20;

/// Zeroed pages, allocated as they are written; unmapped with the last user.
pub struct Pages {
    start: *mut c_void,
    bytes: usize,
    /// Whole mapping, which is larger to align the start.
    mapped: (*mut c_void, usize),
    file: Option<File>,
    /// Where the CPU accesses pages whose own addresses it cannot.
    alias: Option<*mut c_void>,
}

// SAFETY: the pages have no thread affinity; programs synchronise their accesses.
unsafe impl Send for Pages {}
// SAFETY: as above; the fields do not change.
unsafe impl Sync for Pages {}

impl Pages {
    pub fn of_host(bytes: usize) -> Option<Self> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let room = bytes.checked_add(ALIGNMENT)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let mapped = mapped.ok()?;
        let lead = mapped.addr().next_multiple_of(ALIGNMENT) - mapped.addr();
        Some(Self {
            start: mapped.wrapping_byte_add(lead),
            bytes,
            mapped: (mapped, room),
            file: None,
            alias: None,
        })
    }

    pub fn of_gpu(gpu: usize, bytes: usize) -> Option<Self> {
        let mut pages = Self::of_host(bytes)?;
        let file = memfd_create(format!("fake-cuda-gpu{gpu}"), MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&file, pages.bytes as u64).ok()?;
        let (rights, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: replaces unused pages that were mapped above.
        unsafe { mmap(pages.start, pages.bytes, rights, flags, &file, 0) }.ok()?;
        pages.file = Some(file.into());
        Some(pages)
    }

    /// A GPU's pages, whose addresses fault in the CPU, as those of a real GPU.
    pub fn of_gpu_alone(gpu: usize, bytes: usize) -> Option<Self> {
        let mut pages = Self::of_gpu(gpu, bytes)?;
        let file = pages.file.as_ref()?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let alias =
            unsafe { mmap(std::ptr::null_mut(), pages.bytes, rights, MapFlags::SHARED, file, 0) };
        pages.alias = Some(alias.ok()?);
        // SAFETY: our own pages, which nothing has accessed yet.
        unsafe { mprotect(pages.start, pages.bytes, MprotectFlags::empty()) }.ok()?;
        Some(pages)
    }

    /// Where the CPU accesses the byte at an address of these pages.
    pub fn pointer<T>(&self, address: u64) -> *mut T {
        let start = self.alias.unwrap_or(self.start);
        let offset = address - self.address();
        start.wrapping_byte_add(offset as usize).cast()
    }

    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// The pages' file and its size in bytes.
    pub fn file(&self) -> Option<(&File, u64)> {
        self.file.as_ref().map(|file| (file, self.bytes as u64))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(alias) = self.alias {
            // SAFETY: mapped by `of_gpu_alone` and no longer used. Errors are ignored.
            let _ = unsafe { munmap(alias, self.bytes) };
        }
        let (start, bytes) = self.mapped;
        // SAFETY: mapped by `of_host` and no longer used. Errors are ignored.
        let _ = unsafe { munmap(start, bytes) };
    }
}
