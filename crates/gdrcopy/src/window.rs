//! A borrowed part of a mapping: where the accesses are made.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::Error;
use crate::copy::{Copier, fence as order};

/// A part of a [`Mapping`](crate::Mapping), borrowed exclusively.
#[derive(Debug)]
pub struct Window<'a> {
    start: NonNull<u8>,
    length: usize,
    copier: Copier,
    of: PhantomData<&'a mut [u8]>,
}

// SAFETY: a window is the exclusive right to a part of device memory that is mapped while `'a` lasts; threads play no part.
unsafe impl Send for Window<'_> {}
// SAFETY: shared, a window only reads, and what it reads is no Rust value that a race could break.
unsafe impl Sync for Window<'_> {}

/// A word that the CPU loads and stores as one: `u8`, `u16`, `u32`, `u64`.
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
    /// `length` bytes at `start` are mapped device memory for `'a`; whoever writes through the window has the only window there.
    pub(crate) unsafe fn new(start: NonNull<u8>, length: usize, copier: Copier) -> Self {
        Self {
            start,
            length,
            copier,
            of: PhantomData,
        }
    }

    /// Bytes of this part.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether this part holds nothing.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// CPU address of its first byte.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// As [`Mapping::write`](crate::Mapping::write).
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let device = self.place(offset, bytes.len())?;
        // SAFETY: `place` holds the whole range inside the window; `bytes` is a live slice, which cannot overlap device memory.
        unsafe { self.copier.to_device(device, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// As [`Mapping::read`](crate::Mapping::read).
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let device = self.place(offset, bytes.len())?;
        // SAFETY: as in `write`, with the directions exchanged.
        unsafe {
            self.copier
                .from_device(bytes.as_mut_ptr(), device, bytes.len())
        };
        Ok(())
    }

    /// As [`Mapping::load`](crate::Mapping::load).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn load<T: Unit>(&self, offset: usize) -> Result<T, Error> {
        let place = self.word::<T>(offset)?;
        // SAFETY: `word` holds it inside the window and aligned; every bit pattern is a `Unit`.
        Ok(unsafe { place.read_volatile() })
    }

    /// As [`Mapping::store`](crate::Mapping::store).
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn store<T: Unit>(&mut self, offset: usize, value: T) -> Result<(), Error> {
        let place = self.word::<T>(offset)?;
        // SAFETY: `word` holds it inside the window and aligned; the window is ours alone.
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
        unsafe {
            self.copier
                .from_device_ordered(bytes.as_mut_ptr(), device, bytes.len())
        };
        Ok(value)
    }

    /// A part of this part.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn narrow(self, offset: usize, length: usize) -> Result<Self, Error> {
        let start = self.place(offset, length)?;
        // SAFETY: a part of what this window had the right to, which it gives up here.
        Ok(unsafe { Self::new(NonNull::new_unchecked(start), length, self.copier) })
    }

    /// Two parts that two threads may use at once.
    ///
    /// # Errors
    /// [`Error::Range`] for a point beyond the end.
    pub fn split_at(self, middle: usize) -> Result<(Self, Self), Error> {
        let second = self.place(middle, 0)?;
        let rest = self.length - middle;
        // SAFETY: two parts of what this window had the right to, which do not overlap; it gives its own up here.
        Ok(unsafe {
            (
                Self::new(self.start, middle, self.copier),
                Self::new(NonNull::new_unchecked(second), rest, self.copier),
            )
        })
    }

    fn place(&self, offset: usize, length: usize) -> Result<*mut u8, Error> {
        match offset.checked_add(length) {
            // SAFETY: not beyond the end of the window.
            Some(end) if end <= self.length => Ok(unsafe { self.start.as_ptr().add(offset) }),
            _ => Err(Error::Range {
                offset,
                length,
                available: self.length,
            }),
        }
    }

    fn word<T: Unit>(&self, offset: usize) -> Result<*mut T, Error> {
        let place: *mut T = self.place(offset, size_of::<T>())?.cast();
        if place.addr().is_multiple_of(size_of::<T>()) {
            return Ok(place);
        }
        Err(Error::Alignment {
            address: place.addr(),
            size: size_of::<T>(),
        })
    }
}

/// All stores before it leave this CPU before any store after it.
pub(crate) fn fence() {
    order::writes();
}
