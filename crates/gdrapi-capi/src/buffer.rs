//! One pinned buffer and the one mapping it may have, behind a lock: two threads that map one handle get one mapping and
//! one `EAGAIN`.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdrcopy::{Info, MapRequest, Mapping, Pin};

use crate::copies;
use crate::refusal::Refusal;
use crate::slots;

/// Device memory is pinned in pages of this many bytes (`GPU_PAGE_SIZE`), and mapped from their boundaries only: programs
/// written for gdrdrv, its own tests among them, count on a refusal elsewhere.
const GPU_PAGE: u64 = 1 << 16;

pub(crate) struct Buffer {
    handle: u64,
    address: u64,
    bytes: usize,
    state: Mutex<State>,
}

struct State {
    /// Before the pin, so that it falls first.
    mapping: Option<Mapping>,
    /// `None` once it is unpinned, which another thread may see that still holds the buffer.
    pin: Option<Pin>,
}

impl Buffer {
    pub(crate) fn new(handle: u64, address: u64, bytes: usize, pin: Pin) -> Self {
        let state = State {
            mapping: None,
            pin: Some(pin),
        };
        Self {
            handle,
            address,
            bytes,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Maps the first `bytes` bytes.
    pub(crate) fn map(&self, bytes: usize, request: MapRequest) -> Result<NonNull<u8>, Refusal> {
        let handle = self.handle;
        let mut state = self.state();
        if state.mapping.is_some() {
            return Err(Refusal::AlreadyMapped { handle });
        }
        let pin = state.pin.as_ref().ok_or(Refusal::NoHandle { handle })?;
        if !self.address.is_multiple_of(GPU_PAGE) {
            return Err(Refusal::Unaligned { address: self.address });
        }
        if bytes == 0 || bytes > self.bytes {
            return Err(Refusal::Size {
                asked: bytes,
                pinned: self.bytes,
            });
        }
        let mapping = pin.map(request).map_err(|source| Refusal::Map { handle, source })?;
        let start = mapping.as_ptr();
        // SAFETY: this buffer had no mapping, so the handle had no window; copies that found an earlier one are over, as
        // whoever unmapped it promised.
        unsafe { slots::open(handle, start.addr().get(), mapping.len(), mapping.copier())? };
        copies::began(mapping.mapping_type());
        state.mapping = Some(mapping);
        Ok(start)
    }

    /// Takes away the mapping that begins at `address` and holds at least `bytes` bytes.
    pub(crate) fn unmap(&self, address: usize, bytes: usize) -> Result<(), Refusal> {
        let handle = self.handle;
        let mut state = self.state();
        let mapping = state.mapping.as_ref().ok_or(Refusal::NotMapped { handle })?;
        let start = mapping.as_ptr().addr().get();
        if start != address {
            return Err(Refusal::OtherMapping { handle, start, address });
        }
        if bytes == 0 || bytes > self.bytes {
            return Err(Refusal::Size {
                asked: bytes,
                pinned: self.bytes,
            });
        }
        self.end_mapping(&mut state);
        Ok(())
    }

    pub(crate) fn info(&self) -> Result<Info, Refusal> {
        let handle = self.handle;
        let state = self.state();
        let pin = state.pin.as_ref().ok_or(Refusal::NoHandle { handle })?;
        pin.info().map_err(|source| Refusal::Ask { handle, source })
    }

    pub(crate) fn revoked(&self) -> Result<bool, Refusal> {
        let handle = self.handle;
        let state = self.state();
        let pin = state.pin.as_ref().ok_or(Refusal::NoHandle { handle })?;
        pin.revoked().map_err(|source| Refusal::Ask { handle, source })
    }

    /// Unmaps and unpins what is left.
    pub(crate) fn release(&self) -> Result<(), Refusal> {
        let mut state = self.state();
        self.end_mapping(&mut state);
        state.pin.take();
        Ok(())
    }

    fn end_mapping(&self, state: &mut State) {
        if let Some(mapping) = state.mapping.take() {
            slots::shut(self.handle);
            copies::ended(mapping.mapping_type());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
