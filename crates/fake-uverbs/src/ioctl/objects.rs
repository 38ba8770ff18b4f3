//! All DEVX objects of this process, under one lock.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ioctl::firmware::FirmwareError;
use crate::ioctl::memory::{Memory, Page};
use crate::ioctl::nic;
use crate::ioctl::pair::QueuePair;
use crate::ioctl::queue::Queue;

/// Objects by handle. Handles are never reused.
pub struct Objects {
    pub memories: BTreeMap<u32, Memory>,
    pub pages: BTreeMap<u32, Page>,
    pub queues: BTreeMap<u32, Queue>,
    pub pairs: BTreeMap<u32, QueuePair>,
    last: u32,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects {
    memories: BTreeMap::new(),
    pages: BTreeMap::new(),
    queues: BTreeMap::new(),
    pairs: BTreeMap::new(),
    last: 0,
});

pub fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// The next handle or number.
    pub fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// Address of `bytes` bytes at an offset in a UMEM.
    pub fn place(
        &self,
        context: c_int,
        (number, offset): (u32, u64),
        bytes: usize,
        alignment: u64,
    ) -> Result<usize, FirmwareError> {
        let memory = self.memories.get(&number);
        let memory = memory.filter(|memory| memory.context == context && memory.is_writable);
        let memory = memory.ok_or(FirmwareError::resource(0xd0_0001))?;
        if !offset.is_multiple_of(alignment) || !(memory.address as u64).is_multiple_of(alignment) {
            return Err(FirmwareError::parameter(0xd0_0002));
        }
        memory.at(offset, bytes).ok_or(FirmwareError::parameter(0xd0_0003))
    }

    /// Checks that a register page belongs to this context.
    pub fn check_page(&self, context: c_int, number: u32) -> Result<(), FirmwareError> {
        let known =
            self.pages.values().any(|page| (page.context, page.number) == (context, number));
        known.then_some(()).ok_or(FirmwareError::resource(0xd0_0004))
    }

    pub fn close(&mut self, context: c_int) {
        for pair in self.pairs.values().filter(|pair| pair.context == context) {
            nic::pair_destroyed(pair);
        }
        for queue in self.queues.values().filter(|queue| queue.context == context) {
            nic::queue_destroyed(queue);
        }
        self.pairs.retain(|_, pair| pair.context != context);
        self.queues.retain(|_, queue| queue.context != context);
        self.memories.retain(|_, memory| memory.context != context);
        self.pages.retain(|_, page| page.context != context);
    }
}
