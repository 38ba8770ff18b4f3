//! Reserved address range that holds device mappings and is unmapped as a whole.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use gdr_sys::process::Process;

/// Reserved addresses. Not inherited by a forked child, which would otherwise keep access to GPU
/// memory after its release.
#[derive(Debug)]
pub(crate) struct Vma {
    base: NonNull<u8>,
    length: usize,
    owner: Process,
    /// End of the mapped part, which is unmapped first at its own boundaries so that the kernel
    /// need not allocate memory.
    placed: usize,
    /// Addresses that another mapping took after a failed mmap: not ours to unmap.
    lost: Option<(usize, usize)>,
}

// SAFETY: an address range belongs to the process and has no thread affinity.
unsafe impl Send for Vma {}
// SAFETY: shared use of a `Vma` only reads its position; its owner is responsible for accesses to
// the mapped memory.
unsafe impl Sync for Vma {}

/// Lowest mapping address; smaller values are error numbers returned by a driver.
const LOWEST: usize = 4096;

impl Vma {
    /// Reserves `length` inaccessible bytes.
    pub(crate) fn reserve(length: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: without a requested address, mmap replaces no mapping of this process.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
        Ok(Self { base, length, owner: Process::current(), placed: 0, lost: None })
    }

    /// A second mapping of `length` bytes of shared memory at a page's address.
    pub(crate) fn duplicate(address: usize, length: usize) -> io::Result<Self> {
        let from = ptr::with_exposed_provenance_mut(address);
        // SAFETY: with an old length of 0 the kernel leaves the mapping there as it is, or fails if there is none, and maps the same memory
        // at addresses that it chooses.
        let base = unsafe { libc::mremap(from, 0, length, libc::MREMAP_MAYMOVE) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
        Ok(Self { base, length, owner: Process::current(), placed: length, lost: None })
    }

    /// Maps `length` bytes of `file` from `file_offset`, `at` bytes into the range. `None` if the
    /// driver returned a small number as address, as drivers before 595 do when the GPU is lost.
    pub(crate) fn place(
        &mut self,
        at: usize,
        length: usize,
        file: BorrowedFd<'_>,
        file_offset: u64,
    ) -> io::Result<Option<()>> {
        let end = at.checked_add(length);
        if end.is_none_or(|end| end > self.length) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let address = self.base.as_ptr().wrapping_add(at);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let file_offset = file_offset as libc::off_t;
        // SAFETY: the replaced addresses lie within this `Vma`'s reservation and are not handed
        // out.
        let got = unsafe {
            libc::mmap(address.cast(), length, protection, flags, file.as_raw_fd(), file_offset)
        };
        if got == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            self.close_gap(at, length);
            return Err(error);
        }
        if got.addr() < LOWEST || got.addr() != address.addr() {
            self.close_gap(at, length);
            return Ok(None);
        }
        self.placed = self.placed.max(at + length);
        // At once: another thread may fork meanwhile. Exactly this mapping, because a driver's
        // mapping must not be split.
        // SAFETY: the range was mapped just now and is ours; the advice changes nothing in this
        // process.
        if unsafe { libc::madvise(got, length, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(()))
    }

    /// The kernel unmaps the old range before it calls the driver: after an error another thread
    /// may get the addresses.
    fn close_gap(&mut self, at: usize, length: usize) {
        let address = self.base.as_ptr().wrapping_add(at);
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing: if the range is taken, the kernel rejects it or, before Linux
        // 4.17, maps elsewhere.
        let got = unsafe { libc::mmap(address.cast(), length, libc::PROT_NONE, flags, -1, 0) };
        if got.addr() == address.addr() {
            return;
        }
        if got != libc::MAP_FAILED {
            // SAFETY: a new mapping with no users.
            unsafe { libc::munmap(got, length) };
        }
        self.lost = Some((at, length));
    }

    fn give_back(&self, from: usize, to: usize) {
        if from < to {
            // SAFETY: this part of the range is ours, and its only owner ends here.
            unsafe { libc::munmap(self.base.as_ptr().wrapping_add(from).cast(), to - from) };
        }
    }

    /// Excludes the whole range from forked children, including unmapped parts. In one call,
    /// because a driver's mapping must not be split.
    pub(crate) fn exclude_from_children(&self) -> io::Result<()> {
        // SAFETY: the range is ours and stays mapped; the advice changes nothing in this process.
        let answer =
            unsafe { libc::madvise(self.base.as_ptr().cast(), self.length, libc::MADV_DONTFORK) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Vma {
    fn drop(&mut self) {
        // A child has no such mapping; its addresses may hold other memory.
        if self.owner != Process::current() {
            return;
        }
        self.give_back(0, self.placed);
        match self.lost {
            None => self.give_back(self.placed, self.length),
            Some((at, length)) => {
                self.give_back(self.placed, at);
                self.give_back((at + length).max(self.placed), self.length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn file(bytes: &[u8]) -> std::fs::File {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn maps_several_files_side_by_side() {
        let (first, second) = (file(&[1; 8192]), file(&[2; 4096]));
        let mut vma = Vma::reserve(8192).unwrap();
        vma.place(0, 4096, first.as_fd(), 4096).unwrap().unwrap();
        vma.place(4096, 4096, second.as_fd(), 0).unwrap().unwrap();
        // SAFETY: both offsets are within the two pages placed above.
        let seen =
            unsafe { (vma.base().add(4095).read_volatile(), vma.base().add(4096).read_volatile()) };
        assert_eq!(seen, (1, 2));
    }

    #[test]
    fn rejects_mapping_outside_range() {
        let file = file(&[0; 8192]);
        let mut vma = Vma::reserve(4096).unwrap();
        assert_eq!(
            vma.place(4096, 4096, file.as_fd(), 0).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            vma.place(usize::MAX, 4096, file.as_fd(), 0).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    /// Simulates a driver failure: the kernel has already unmapped the addresses.
    fn refused_at(vma: &Vma, at: usize, length: usize) -> *mut libc::c_void {
        let address = vma.base().as_ptr().wrapping_add(at).cast();
        // SAFETY: a part of the range this test reserved.
        assert_eq!(unsafe { libc::munmap(address, length) }, 0);
        address
    }

    fn is_free(address: *mut libc::c_void, length: usize) -> bool {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let got = unsafe { libc::mmap(address, length, libc::PROT_NONE, flags, -1, 0) };
        if got != libc::MAP_FAILED {
            // SAFETY: made just now.
            unsafe { libc::munmap(got, length) };
        }
        got == address
    }

    #[test]
    fn closes_gap_after_failed_mmap() {
        let mut vma = Vma::reserve(3 * 4096).unwrap();
        let base = vma.base().as_ptr().cast();
        let gap = refused_at(&vma, 4096, 4096);
        vma.close_gap(4096, 4096);
        assert!(!is_free(gap, 4096) && vma.lost.is_none());
        drop(vma);
        assert!(is_free(base, 3 * 4096));
    }

    #[test]
    fn keeps_foreign_mapping_in_gap() {
        let shown = file(&[7; 4096]);
        let mut vma = Vma::reserve(3 * 4096).unwrap();
        let base: *mut u8 = vma.base().as_ptr();
        vma.place(0, 4096, shown.as_fd(), 0).unwrap().unwrap();
        let gap = refused_at(&vma, 4096, 4096);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: the gap is free; this is the other thread's allocation.
        let foreign =
            unsafe { libc::mmap(gap, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_eq!(foreign, gap);
        // SAFETY: a mapped page of the other thread.
        unsafe { foreign.cast::<u8>().write_volatile(9) };
        vma.close_gap(4096, 4096);
        assert_eq!(vma.lost, Some((4096, 4096)));
        drop(vma);
        // SAFETY: asserted to be still mapped.
        assert_eq!(unsafe { foreign.cast::<u8>().read_volatile() }, 9);
        assert!(is_free(base.cast(), 4096) && is_free(base.wrapping_add(8192).cast(), 4096));
        // SAFETY: the other thread's page, no longer used.
        unsafe { libc::munmap(foreign, 4096) };
    }
}
