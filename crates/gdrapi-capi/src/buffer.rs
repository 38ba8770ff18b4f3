//! A pinned buffer and its optional mapping, behind a lock: of two threads that map one handle, one
//! gets `EAGAIN`.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdrcopy::{Gdr, Info, MapRequest, Mapping, Pin, PinFlags};
use gpu::DevicePtr;

use crate::call_error::CallError;
use crate::copies;
use crate::slots;

/// Page size of device memory in bytes (`GPU_PAGE_SIZE`). Only page boundaries can be mapped:
/// programs written for gdrdrv, such as its tests, expect an error elsewhere.
const GPU_PAGE: u64 = 1 << 16;

pub(crate) struct Buffer {
    handle: u64,
    address: u64,
    flags: PinFlags,
    state: Mutex<State>,
}

struct State {
    /// Before the pin, so that it is dropped first.
    mapping: Option<Mapping>,
    /// `None` once unpinned; another thread may still hold the buffer.
    pin: Option<Pin>,
    /// Pinned length in bytes.
    bytes: usize,
}

impl Buffer {
    pub(crate) fn new(handle: u64, address: u64, bytes: usize, flags: PinFlags, pin: Pin) -> Self {
        let state = State { mapping: None, pin: Some(pin), bytes };
        Self { handle, address, flags, state: Mutex::new(state) }
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Maps at least the first `bytes` bytes.
    pub(crate) fn map(
        &self,
        gdr: &Gdr,
        bytes: usize,
        request: MapRequest,
    ) -> Result<NonNull<u8>, CallError> {
        let handle = self.handle;
        let mut state = self.state();
        if state.mapping.is_some() {
            return Err(CallError::AlreadyMapped { handle });
        }
        if !self.address.is_multiple_of(GPU_PAGE) {
            return Err(CallError::Unaligned { address: self.address });
        }
        self.reach(gdr, &mut state, bytes)?;
        let pin = state.pin.as_ref().ok_or(CallError::NoHandle { handle })?;
        let mapping = pin.map(request).map_err(|source| CallError::Map { handle, source })?;
        let start = mapping.as_ptr();
        // gdrdrv maps whole pages without checking bounds, so programs copy beyond the requested
        // size: gdrcopy_pplat maps 4 bytes and writes 8.
        let bytes = mapping.reach();
        // SAFETY: this buffer had no mapping, so the handle had no window; copies through an
        // earlier one have ended, as the caller of unmap guarantees.
        unsafe { slots::open(handle, start.addr().get(), bytes, mapping.copier())? };
        copies::add(mapping.mapping_type());
        state.mapping = Some(mapping);
        Ok(start)
    }

    /// Removes the mapping that begins at `address` and holds at least `bytes` bytes.
    pub(crate) fn unmap(&self, address: usize, bytes: usize) -> Result<(), CallError> {
        let handle = self.handle;
        let mut state = self.state();
        let mapping = state.mapping.as_ref().ok_or(CallError::NotMapped { handle })?;
        let start = mapping.as_ptr().addr().get();
        if start != address {
            return Err(CallError::OtherMapping { handle, start, address });
        }
        if bytes == 0 || bytes as u64 > whole_pages(state.bytes) {
            return Err(CallError::Size { requested: bytes, pinned: state.bytes });
        }
        self.end_mapping(&mut state);
        Ok(())
    }

    pub(crate) fn info(&self) -> Result<Info, CallError> {
        let handle = self.handle;
        let state = self.state();
        let pin = state.pin.as_ref().ok_or(CallError::NoHandle { handle })?;
        pin.info().map_err(|source| CallError::State { handle, source })
    }

    pub(crate) fn revoked(&self) -> Result<bool, CallError> {
        let handle = self.handle;
        let state = self.state();
        let pin = state.pin.as_ref().ok_or(CallError::NoHandle { handle })?;
        pin.revoked().map_err(|source| CallError::State { handle, source })
    }

    /// Unmaps and unpins the rest.
    pub(crate) fn release(&self) -> Result<(), CallError> {
        let mut state = self.state();
        self.end_mapping(&mut state);
        state.pin.take();
        Ok(())
    }

    /// Pins at least `bytes` bytes. gdrdrv pins and maps whole pages, so programs may map up to the
    /// end of the last page; backends pin only the requested bytes.
    fn reach(&self, gdr: &Gdr, state: &mut State, bytes: usize) -> Result<(), CallError> {
        if (1..=state.bytes).contains(&bytes) {
            return Ok(());
        }
        let call_error = CallError::Size { requested: bytes, pinned: state.bytes };
        if bytes == 0 || bytes as u64 > whole_pages(state.bytes) || state.pin.is_none() {
            return Err(call_error);
        }
        // SAFETY: as for the pin that this one replaces.
        let longer = unsafe { gdr.pin_raw(DevicePtr::new(self.address), bytes, self.flags) };
        state.pin = Some(longer.map_err(|source| CallError::Pin {
            address: self.address,
            bytes,
            source,
        })?);
        state.bytes = bytes;
        Ok(())
    }

    fn end_mapping(&self, state: &mut State) {
        if let Some(mapping) = state.mapping.take() {
            slots::shut(self.handle);
            copies::remove(mapping.mapping_type());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounds `bytes` up to pages, from the start of a page.
fn whole_pages(bytes: usize) -> u64 {
    (bytes as u64).checked_next_multiple_of(GPU_PAGE).unwrap_or(u64::MAX)
}
