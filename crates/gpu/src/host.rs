//! Host memory: what a GPU reaches too, and ordinary pages that it does not.

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

use crate::backend::{HostBlock, Registration};
use crate::borrowed::Share;
use crate::memory::{aligned, check_range};
use crate::{DevicePtr, Error, Gpu, bytes};

/// Pinned, registered or pageable host memory. Clones are the same memory.
///
/// A GPU may write it at any time, so it is read and written by methods that touch each word once; a slice of it is given only
/// to the only holder, [`Self::as_mut_slice`].
#[derive(Debug, Clone)]
pub struct HostMemory(Arc<Owned>);

/// How pinned host memory is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinnedOptions {
    /// Write-combined: faster for the GPU to read on some machines, very slow for the CPU to read.
    pub write_combined: bool,
}

#[derive(Debug)]
struct Owned {
    gpu: Gpu,
    block: HostBlock,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    /// The driver allocated it.
    Pinned,
    /// We mapped it and had it registered.
    Registered,
    /// We mapped it, and that was all.
    Pageable,
    /// Somebody else's, who keeps it while we hold it.
    Borrowed(Share),
}

// SAFETY: the block is memory of the process, reached through `bytes` only (or through an exclusive reference of its only holder);
// which thread does it makes no difference.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl HostMemory {
    pub(crate) fn pinned(gpu: Gpu, bytes: usize, options: PinnedOptions) -> Result<Self, Error> {
        let block = gpu.backend().allocate_host(bytes, options.write_combined)?;
        Ok(Self::new(gpu, block, Origin::Pinned))
    }

    pub(crate) fn pageable(gpu: Gpu, bytes: usize) -> Result<Self, Error> {
        let start = map(bytes)?;
        let device = DevicePtr::new(0);
        let block = HostBlock {
            start,
            device,
            bytes,
        };
        Ok(Self::new(gpu, block, Origin::Pageable))
    }

    pub(crate) fn registered(gpu: Gpu, bytes: usize) -> Result<Self, Error> {
        let start = map(bytes)?;
        // SAFETY: the mapping is ours, and is unmapped by our drop alone, after it was unregistered.
        match unsafe { gpu.backend().register(start, bytes, Registration::Memory) } {
            Ok(device) => {
                let block = HostBlock {
                    start,
                    device,
                    bytes,
                };
                Ok(Self::new(gpu, block, Origin::Registered))
            }
            Err(error) => {
                unmap(start, bytes);
                Err(error)
            }
        }
    }

    /// Memory that `share` keeps, and that the GPU sees at `device` if it is registered.
    pub(crate) fn borrowed(
        gpu: Gpu,
        start: NonNull<u8>,
        bytes: usize,
        device: DevicePtr,
        share: Share,
    ) -> Self {
        let block = HostBlock {
            start,
            device,
            bytes,
        };
        Self::new(gpu, block, Origin::Borrowed(share))
    }

    fn new(gpu: Gpu, block: HostBlock, origin: Origin) -> Self {
        Self(Arc::new(Owned { gpu, block, origin }))
    }

    /// Whether others hold it besides this value: clones, and streams that have not been synchronised since they used it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Where the GPU finds it; 0 of pageable memory, which no GPU finds.
    #[must_use]
    pub fn device_address(&self) -> DevicePtr {
        self.0.block.device
    }

    /// Whether it is ordinary memory without a device address.
    #[must_use]
    pub fn is_pageable(&self) -> bool {
        match &self.0.origin {
            Origin::Pageable => true,
            Origin::Borrowed(share) => !share.is_registered(),
            Origin::Pinned | Origin::Registered => false,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.block.bytes
    }

    /// Never: nothing cannot be allocated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The GPU it was pinned for or registered with, or that gave it.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.0.gpu
    }

    /// Where the CPU finds it. Others may write it at any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.0.block.start
    }

    /// All of it, for its only holder.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while there are clones, or a stream has not been synchronised since it used it; always of somebody
    /// else's memory.
    pub fn as_mut_slice(&mut self) -> Result<&mut [u8], Error> {
        let owned = Arc::get_mut(&mut self.0).ok_or(Error::InUse)?;
        if matches!(owned.origin, Origin::Borrowed(_)) {
            return Err(Error::InUse);
        }
        // SAFETY: the block is initialised memory (the kernel zeroes what drivers and mmap give) of this many bytes; nobody
        // else can name it: there is no clone, and streams that used it hold one until they are done.
        Ok(
            unsafe {
                std::slice::from_raw_parts_mut(owned.block.start.as_ptr(), owned.block.bytes)
            },
        )
    }

    /// Copies out of it.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let from = self.at(offset, to.len())?;
        // SAFETY: `at` checked the range; `to` is exclusively ours, so it is no part of this memory.
        unsafe { bytes::copy(to.as_mut_ptr(), from, to.len()) };
        Ok(())
    }

    /// Copies into it.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let to = self.at(offset, from.len())?;
        // SAFETY: `at` checked the range; `from` is borrowed shared, and this memory is lent to nobody as a slice.
        unsafe { bytes::copy(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Reads a 32-bit word (acquire: what the writer wrote before it is seen after it).
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn load_u32(&self, offset: usize) -> Result<u32, Error> {
        let word = self.word(offset, 4)?;
        // SAFETY: in range, aligned, and valid for as long as `self` is.
        Ok(unsafe { bytes::load32(word) })
    }

    /// Writes a 32-bit word (release: what was written before it is seen by who sees it).
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<(), Error> {
        let word = self.word(offset, 4)?;
        // SAFETY: as `load_u32`.
        unsafe { bytes::store32(word, value) };
        self.settle();
        Ok(())
    }

    /// Reads a 64-bit word (acquire).
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn load_u64(&self, offset: usize) -> Result<u64, Error> {
        let word = self.word(offset, 8)?;
        // SAFETY: in range, aligned, and valid for as long as `self` is.
        Ok(unsafe { bytes::load64(word) })
    }

    /// Writes a 64-bit word (release).
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), Error> {
        let word = self.word(offset, 8)?;
        // SAFETY: as `load_u64`.
        unsafe { bytes::store64(word, value) };
        self.settle();
        Ok(())
    }

    /// A device's registers are mapped write-combined: what was stored leaves the CPU now.
    fn settle(&self) {
        if matches!(&self.0.origin, Origin::Borrowed(share) if share.registers) {
            bytes::drain();
        }
    }

    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    pub(crate) fn at(&self, offset: usize, bytes: usize) -> Result<*mut u8, Error> {
        check_range(offset, bytes, self.len())?;
        // SAFETY: the offset is inside the block.
        Ok(unsafe { self.0.block.start.as_ptr().add(offset) })
    }

    /// Where a word of `width` bytes is.
    fn word(&self, offset: usize, width: usize) -> Result<*mut u8, Error> {
        let word = self.at(offset, width)?;
        aligned(word.addr() as u64, width)?;
        Ok(word)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        match self.origin {
            Origin::Pinned => self.gpu.backend().free_host(self.block),
            Origin::Registered => {
                self.gpu.backend().unregister(self.block.start);
                unmap(self.block.start, self.block.bytes);
            }
            Origin::Pageable => unmap(self.block.start, self.block.bytes),
            // What it holds ends it.
            Origin::Borrowed(_) => {}
        }
    }
}

/// Zeroed pages of our own.
fn map(bytes: usize) -> Result<NonNull<u8>, Error> {
    let failed = |source: rustix::io::Errno| Error::Pages {
        bytes,
        source: source.into(),
    };
    let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping where the kernel likes replaces nothing.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, read_write, private) };
    NonNull::new(start.map_err(failed)?.cast::<u8>())
        .ok_or_else(|| failed(rustix::io::Errno::NOMEM))
}

fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: our own mapping, which nobody holds any more. It can only fail for arguments that mmap did not give.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies are made of words only where both sides begin at the same place in a word.
    #[repr(align(8))]
    struct Aligned([u8; 16]);

    /// Rust's atomics may not be used so: Miri says that it is undefined behaviour.
    #[test]
    fn words_are_whole_in_whatever_size_they_are_read_and_written() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let memory = Gpu::sim().pageable(64).expect("memory");
        let is_word = |word: u32| word >> 16 == word & 0xffff;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    memory.store_u32(4, round << 16 | round).expect("in range");
                }
            });
            scope.spawn(|| {
                for round in 1..=rounds {
                    let word = u64::from(round << 16 | round);
                    memory.store_u64(8, word << 32 | word).expect("in range");
                }
            });
            for _ in 0..rounds {
                let first = memory.load_u64(0).expect("in range");
                assert!(
                    is_word((first >> 32) as u32) && first as u32 == 0,
                    "{first:#x}"
                );
                assert!(is_word(memory.load_u32(12).expect("in range")));
                let mut aligned = Aligned([0; 16]);
                let bytes = &mut aligned.0;
                memory.read(0, bytes).expect("in range");
                for word in bytes.as_chunks::<4>().0 {
                    assert!(is_word(u32::from_ne_bytes(*word)), "{bytes:x?}");
                }
                memory.write(32, bytes).expect("in range");
            }
        });
    }
}
