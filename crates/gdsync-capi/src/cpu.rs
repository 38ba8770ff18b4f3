//! Words as the CPU reaches them, by their addresses. Each is read or written once, by one instruction.

use engine::cpu::{CpuWord, Stopped};
use engine::lower::Offset;
use gdrcopy::copy::fence;
use gpu::bytes;

/// A word that the CPU reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    address: usize,
    is_peer: bool,
}

impl Word {
    /// The word at an address, or the first of several. `is_peer`: it is a device's, over the bus.
    ///
    /// # Safety
    ///
    /// Those that are used are at multiples of their size, and can be read and written until the last use.
    pub(crate) unsafe fn new(address: usize, is_peer: bool) -> Self {
        Self { address, is_peer }
    }

    /// A word of a queue. Queues are in host memory (`gds_create_qp`), where an address is the CPU's.
    ///
    /// # Safety
    ///
    /// The place outlives the word.
    pub(crate) unsafe fn of_queue(place: &engine::Place) -> Self {
        // SAFETY: this function's own condition.
        unsafe { Self::new(place.address() as usize, false) }
    }

    fn pointer(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// A later load may pass a load over the bus.
    fn loaded(self) {
        if self.is_peer {
            fence::all();
        }
    }
}

impl Offset for Word {
    fn offset(&self, bytes: usize) -> Self {
        Self {
            address: self.address.wrapping_add(bytes),
            ..*self
        }
    }
}

impl CpuWord for Word {
    type Error = Stopped;

    fn load32(&self) -> Result<u32, Stopped> {
        // SAFETY: a word that can be read (`new`).
        let value = unsafe { bytes::load32(self.pointer()) };
        self.loaded();
        Ok(value)
    }

    fn load64(&self) -> Result<u64, Stopped> {
        // SAFETY: as above.
        let value = unsafe { bytes::load64(self.pointer()) };
        self.loaded();
        Ok(value)
    }

    fn store32(&self, value: u32) -> Result<(), Stopped> {
        // This store may pass a write-combined one before it.
        fence::writes();
        // SAFETY: a word that can be written (`new`).
        unsafe { bytes::store32(self.pointer(), value) };
        Ok(())
    }

    fn store64(&self, value: u64) -> Result<(), Stopped> {
        fence::writes();
        // SAFETY: as above.
        unsafe { bytes::store64(self.pointer(), value) };
        Ok(())
    }

    fn barrier() {
        fence::all();
    }
}
