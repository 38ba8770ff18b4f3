//! Words as the CPU reaches them, by their addresses.

use engine::cpu::Reach;
use engine::descriptor::Further;
use gdrcopy::copy::fence;
use gpu::bytes;

/// A word that the CPU reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where, for the CPU.
    pub(crate) address: usize,
    /// Whether it is a device's, over the bus.
    pub(crate) is_peer: bool,
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

fn pointer(place: Place) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(place.address)
}

/// A load over the bus may be passed by later ones.
fn seen(place: Place) {
    if place.is_peer {
        fence::all();
    }
}

impl Reach<Place> for Words {
    type Error = NotReached;

    fn load32(&self, at: Place) -> Result<u32, NotReached> {
        // SAFETY: a word that can be read (`new`).
        let value = unsafe { bytes::load32(pointer(at)) };
        seen(at);
        Ok(value)
    }

    fn load64(&self, at: Place) -> Result<u64, NotReached> {
        // SAFETY: as above.
        let value = unsafe { bytes::load64(pointer(at)) };
        seen(at);
        Ok(value)
    }

    fn store32(&self, at: Place, value: u32) -> Result<(), NotReached> {
        // A write-combined store before it may otherwise come after it.
        fence::writes();
        // SAFETY: a word that can be written (`new`).
        unsafe { bytes::store32(pointer(at), value) };
        Ok(())
    }

    fn store64(&self, at: Place, value: u64) -> Result<(), NotReached> {
        fence::writes();
        // SAFETY: as above.
        unsafe { bytes::store64(pointer(at), value) };
        Ok(())
    }

    fn barrier(&self) {
        fence::all();
    }
}
