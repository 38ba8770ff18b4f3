//! Memory words accessed by the CPU by address, each with a single load or store instruction.

use engine::cpu::{CpuWord, Stopped};
use engine::lower::Offset;
use gdrcopy::copy::fence;
use gpu::bytes;

/// A word that the CPU can access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    address: usize,
    is_peer: bool,
}

impl Word {
    /// The word at an address, or the first of several. `is_peer` marks device memory on the bus.
    ///
    /// # Safety
    ///
    /// All accessed words are aligned to their size, and readable and writable until the last access.
    pub(crate) unsafe fn new(address: usize, is_peer: bool) -> Self {
        Self { address, is_peer }
    }

    /// A word of a queue. `gds_create_qp` only creates queues in host memory.
    ///
    /// # Safety
    ///
    /// The place outlives the word.
    pub(crate) unsafe fn of_queue(place: &engine::MappedMemory) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::new(place.address() as usize, false) }
    }

    fn pointer(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// Orders a load from the bus before later loads.
    fn fence_load(self) {
        if self.is_peer {
            fence::all();
        }
    }
}

impl Offset for Word {
    fn offset(&self, bytes: usize) -> Self {
        Self { address: self.address.wrapping_add(bytes), ..*self }
    }
}

impl CpuWord for Word {
    type Error = Stopped;

    fn load32(&self) -> Result<u32, Stopped> {
        // SAFETY: `new` requires a readable word.
        let value = unsafe { bytes::load32(self.pointer()) };
        self.fence_load();
        Ok(value)
    }

    fn load64(&self) -> Result<u64, Stopped> {
        // SAFETY: as above.
        let value = unsafe { bytes::load64(self.pointer()) };
        self.fence_load();
        Ok(value)
    }

    fn store32(&self, value: u32) -> Result<(), Stopped> {
        // Orders it after earlier write-combined stores.
        fence::writes();
        // SAFETY: `new` requires a writable word.
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
