//! Borrowed part of a mapping, with its access methods.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::Error;
use crate::copy::{Copier, fence as order};

/// Exclusively borrowed part of a [`Mapping`](crate::Mapping).
#[derive(Debug)]
pub struct Window<'a> {
    start: NonNull<u8>,
    length: usize,
    copier: Copier,
    mapping: PhantomData<&'a mut [u8]>,
}

// SAFETY: a window is exclusive access to device memory mapped for `'a`; it does not depend on a
// thread.
unsafe impl Send for Window<'_> {}
// SAFETY: a shared window only reads, and races cannot produce invalid Rust values.
unsafe impl Sync for Window<'_> {}

/// Word for single loads and stores: `u8`, `u16`, `u32`, `u64`.
pub trait Unit: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

impl Unit for u8 {}
impl Unit for u16 {}
impl Unit for u32 {}
impl Unit for u64 {}
impl sealed::Sealed for u8 {}
impl sealed::Sealed for u16 {}
impl sealed::Sealed for u32 {}
impl sealed::Sealed for u64 {}

impl<'a> Window<'a> {
    /// # Safety
    /// `length` bytes at `start` are mapped device memory for `'a`; a window used for writes is the
    /// only one for these bytes.
    pub(crate) unsafe fn new(start: NonNull<u8>, length: usize, copier: Copier) -> Self {
        Self { start, length, copier, mapping: PhantomData }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// CPU address of the first byte.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// As [`Mapping::write`](crate::Mapping::write).
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let device = self.place(offset, bytes.len())?;
        // SAFETY: `place` checked the range; `bytes` is a live slice, which cannot overlap device
        // memory.
        unsafe { self.copier.to_device(device, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// As [`Mapping::read`](crate::Mapping::read).
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let device = self.place(offset, bytes.len())?;
        // SAFETY: as in `write`, with directions swapped.
        unsafe { self.copier.from_device(bytes.as_mut_ptr(), device, bytes.len()) };
        Ok(())
    }

    /// As [`Mapping::load`](crate::Mapping::load).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn load<T: Unit>(&self, offset: usize) -> Result<T, Error> {
        let place = self.word::<T>(offset)?;
        // SAFETY: `word` checked range and alignment; every bit pattern is a valid `Unit`.
        Ok(unsafe { place.read_volatile() })
    }

    /// As [`Mapping::store`](crate::Mapping::store).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn store<T: Unit>(&mut self, offset: usize, value: T) -> Result<(), Error> {
        let place = self.word::<T>(offset)?;
        // SAFETY: `word` checked range and alignment; this window has exclusive access.
        unsafe { place.write_volatile(value) };
        Ok(())
    }

    /// As [`Mapping::read_after`](crate::Mapping::read_after).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn read_after<T: Unit>(
        &self,
        flag: usize,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<T, Error> {
        let value = self.load(flag)?;
        let device = self.place(offset, bytes.len())?;
        // SAFETY: as in `read`.
        unsafe { self.copier.from_device_ordered(bytes.as_mut_ptr(), device, bytes.len()) };
        Ok(value)
    }

    /// Narrows the window.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn narrow(self, offset: usize, length: usize) -> Result<Self, Error> {
        let start = self.place(offset, length)?;
        // SAFETY: a part of this window, which is consumed here.
        Ok(unsafe { Self::new(NonNull::new_unchecked(start), length, self.copier) })
    }

    /// Splits into two parts that two threads may use at once.
    ///
    /// # Errors
    /// [`Error::Range`] for a point beyond the end.
    pub fn split_at(self, middle: usize) -> Result<(Self, Self), Error> {
        let second = self.place(middle, 0)?;
        let rest = self.length - middle;
        // SAFETY: two disjoint parts of this window, which is consumed here.
        Ok(unsafe {
            (
                Self::new(self.start, middle, self.copier),
                Self::new(NonNull::new_unchecked(second), rest, self.copier),
            )
        })
    }

    fn place(&self, offset: usize, length: usize) -> Result<*mut u8, Error> {
        match offset.checked_add(length) {
            // SAFETY: within the window.
            Some(end) if end <= self.length => Ok(unsafe { self.start.as_ptr().add(offset) }),
            _ => Err(Error::Range { offset, length, available: self.length }),
        }
    }

    fn word<T: Unit>(&self, offset: usize) -> Result<*mut T, Error> {
        let place: *mut T = self.place(offset, size_of::<T>())?.cast();
        if place.addr().is_multiple_of(size_of::<T>()) {
            return Ok(place);
        }
        Err(Error::Alignment { address: place.addr(), size: size_of::<T>() })
    }
}

/// Orders all earlier stores of this CPU before later ones.
pub(crate) fn fence() {
    order::writes();
}
