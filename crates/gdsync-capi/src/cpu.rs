//! Words as the CPU reaches them, by their addresses.

use std::sync::atomic::{Ordering, fence as cpu_fence};

use engine::cpu::Reach;
use engine::descriptor::Further;
use gdrcopy::copy::fence;

/// A word that the CPU reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where, for the CPU.
    pub(crate) address: usize,
    /// Whether it is a device's, over the bus.
    pub(crate) is_far: bool,
}

impl Further for Place {
    fn further(self, bytes: usize) -> Self {
        Self {
            address: self.address.wrapping_add(bytes),
            ..self
        }
    }
}

/// Nothing: an address that is not to be reached was refused before.
#[derive(Debug)]
pub(crate) enum NotReached {}

/// The words of a list whose makers promised that they are there. Each is read or written once, by one instruction.
pub(crate) struct Words(());

impl Words {
    /// # Safety
    ///
    /// Every place that it is used with is a word, at a multiple of its size, that can be read and written while it is used.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }

    /// After a list: what was stored has left the CPU's buffers.
    pub(crate) fn settle(&self) {
        fence::writes();
    }
}

fn pointer<T>(place: Place) -> *mut T {
    std::ptr::with_exposed_provenance_mut(place.address)
}

fn seen(place: Place) {
    match place.is_far {
        true => fence::all(),
        false => cpu_fence(Ordering::Acquire),
    }
}

impl Reach<Place> for Words {
    type Error = NotReached;

    fn load32(&self, at: Place) -> Result<u32, NotReached> {
        // SAFETY: a word that can be read (`new`).
        let value = unsafe { pointer::<u32>(at).read_volatile() };
        seen(at);
        Ok(value)
    }

    fn load64(&self, at: Place) -> Result<u64, NotReached> {
        // SAFETY: as above.
        let value = unsafe { pointer::<u64>(at).read_volatile() };
        seen(at);
        Ok(value)
    }

    fn store32(&self, at: Place, value: u32) -> Result<(), NotReached> {
        // A write-combined store before it may otherwise come after it.
        fence::writes();
        // SAFETY: a word that can be written (`new`).
        unsafe { pointer::<u32>(at).write_volatile(value) };
        Ok(())
    }

    fn store64(&self, at: Place, value: u64) -> Result<(), NotReached> {
        fence::writes();
        // SAFETY: as above.
        unsafe { pointer::<u64>(at).write_volatile(value) };
        Ok(())
    }

    fn barrier(&self) {
        fence::all();
    }
}
