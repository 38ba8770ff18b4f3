//! Host memory: pinned, registered, pageable or borrowed.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::backend::{HostBlock, Registration};
use crate::borrowed::{Share, is_registered_already};
use crate::memory::{aligned, check_range};
use crate::pages::{map, register_new, unmap};
use crate::{DevicePtr, Error, Gpu, bytes};

/// Host memory. Clones share it.
///
/// A GPU may write it at any time, so access methods touch each word once; [`Self::as_mut_slice`]
/// requires the only holder.
#[derive(Debug, Clone)]
pub struct HostMemory(Arc<Owned>);

/// Options for pinned host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinnedOptions {
    /// Write-combined: GPU reads are faster on some machines, CPU reads very slow.
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
    /// Allocated by the driver.
    Pinned,
    /// Mapped here and registered with the GPU.
    Registered,
    /// Mapped here, not registered.
    Pageable,
    /// Externally owned; the share keeps it alive.
    Borrowed(Share),
}

// SAFETY: the block is process memory, accessed only through `bytes` or an exclusive reference of
// its only holder, so the accessing thread does not matter.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl HostMemory {
    pub(crate) fn pinned(gpu: Gpu, bytes: usize, options: PinnedOptions) -> Result<Self, Error> {
        let block = gpu.backend().allocate_host(bytes, options.write_combined)?;
        Ok(Self::new(gpu, block, Origin::Pinned))
    }

    pub(crate) fn pageable(gpu: Gpu, bytes: usize) -> Result<Self, Error> {
        let start = map(bytes).map_err(pages_failed(bytes))?;
        let device = DevicePtr::new(0);
        let block = HostBlock { start, device, bytes };
        Ok(Self::new(gpu, block, Origin::Pageable))
    }

    pub(crate) fn registered(gpu: Gpu, bytes: usize) -> Result<Self, Error> {
        let mut stale = None;
        let register = |start| {
            // SAFETY: we own the mapping; only drop unmaps it, after unregistering it.
            match unsafe { gpu.backend().register(start, bytes, Registration::Memory) } {
                Err(error) if is_registered_already(&error) => {
                    stale = Some(error);
                    Ok(None)
                }
                registered => registered.map(Some),
            }
        };
        let mapped = register_new(bytes, pages_failed(bytes), register)?;
        let Some((start, device)) = mapped else {
            return Err(stale.unwrap_or(Error::Empty));
        };
        let block = HostBlock { start, device, bytes };
        Ok(Self::new(gpu, block, Origin::Registered))
    }

    /// Wraps memory that `share` keeps alive, at device address `device` if registered.
    pub(crate) fn borrowed(
        gpu: Gpu,
        start: NonNull<u8>,
        bytes: usize,
        device: DevicePtr,
        share: Share,
    ) -> Self {
        let block = HostBlock { start, device, bytes };
        Self::new(gpu, block, Origin::Borrowed(share))
    }

    fn new(gpu: Gpu, block: HostBlock, origin: Origin) -> Self {
        Self(Arc::new(Owned { gpu, block, origin }))
    }

    /// True if clones or unsynchronised streams also hold it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Device address; 0 for pageable memory.
    #[must_use]
    pub fn device_address(&self) -> DevicePtr {
        self.0.block.device
    }

    /// True if pageable, so without a device address.
    #[must_use]
    pub fn is_pageable(&self) -> bool {
        match &self.0.origin {
            Origin::Pageable => true,
            Origin::Borrowed(share) => !share.is_registered(),
            Origin::Pinned | Origin::Registered => false,
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.block.bytes
    }

    /// Always false: empty allocations are rejected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// GPU it was allocated for or registered with.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.0.gpu
    }

    /// Host address. Other devices or threads may write the memory at any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.0.block.start
    }

    /// The whole memory as a slice, for its only holder.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while clones or unsynchronised streams hold the memory, and always for
    /// externally owned memory.
    pub fn as_mut_slice(&mut self) -> Result<&mut [u8], Error> {
        let owned = Arc::get_mut(&mut self.0).ok_or(Error::InUse)?;
        if matches!(owned.origin, Origin::Borrowed(_)) {
            return Err(Error::InUse);
        }
        // SAFETY: the block is initialised (mmap and the driver return zeroed memory) and has this
        // size; the caller is the only holder, because streams that use it hold a clone until they
        // are done.
        Ok(unsafe { std::slice::from_raw_parts_mut(owned.block.start.as_ptr(), owned.block.bytes) })
    }

    /// Copies from this memory.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let from = self.at(offset, to.len())?;
        // SAFETY: `at` checked the range; `to` is exclusively borrowed, so it cannot overlap this
        // memory.
        unsafe { bytes::copy(to.as_mut_ptr(), from, to.len()) };
        Ok(())
    }

    /// Copies into this memory.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let to = self.at(offset, from.len())?;
        // SAFETY: `at` checked the range; `from` is a shared borrow, and no slice of this memory is
        // borrowed.
        unsafe { bytes::copy(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Reads a 32-bit word with acquire ordering.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn load_u32(&self, offset: usize) -> Result<u32, Error> {
        let word = self.word(offset, 4)?;
        // SAFETY: in range, aligned, and valid while `self` is.
        Ok(unsafe { bytes::load32(word) })
    }

    /// Writes a 32-bit word with release ordering.
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

    /// Reads a 64-bit word with acquire ordering.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`].
    pub fn load_u64(&self, offset: usize) -> Result<u64, Error> {
        let word = self.word(offset, 8)?;
        // SAFETY: in range, aligned, and valid while `self` is.
        Ok(unsafe { bytes::load64(word) })
    }

    /// Writes a 64-bit word with release ordering.
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

    /// Flushes write-combined stores to device registers.
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

    /// Address of a word of `width` bytes.
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
                // SAFETY: our own mapping, with no holders left.
                unsafe { unmap(self.block.start, self.block.bytes) };
            }
            // SAFETY: as above.
            Origin::Pageable => unsafe { unmap(self.block.start, self.block.bytes) },
            // Its share drops it.
            Origin::Borrowed(_) => {}
        }
    }
}

/// Makes the error of pages that cannot be mapped.
pub(crate) fn pages_failed(bytes: usize) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Pages { bytes, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies use words only if both sides have the same offset within a word.
    #[repr(align(8))]
    struct Aligned([u8; 16]);

    /// Miri reports overlapping atomics of different sizes as undefined behaviour.
    #[test]
    fn words_are_atomic_at_any_size() {
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
                assert!(is_word((first >> 32) as u32) && first as u32 == 0, "{first:#x}");
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
