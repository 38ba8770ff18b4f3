//! The comm library's descriptors for kernels.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use gdr_sys::exports;

use crate::abi::{DescList, DevDescs, Handle, MpiHandle};
use crate::call_error::CallError;
use crate::comm_calls::{Comm, SLOTS, message};
use crate::library::{Library, OpenRequest, library};
use crate::message_calls::Message;
use crate::{buffer, device_calls, guard, handles};

impl<T> DescList<T> {
    /// Adds what `make` returns, which is called only if there is space.
    fn push(&mut self, make: impl FnOnce() -> Result<T, CallError>) -> Result<(), CallError> {
        let at = usize::try_from(self.count).unwrap_or(usize::MAX);
        *self.list.get_mut(at).ok_or(CallError::DescsFull)? = make()?;
        self.count += 1;
        Ok(())
    }
}

exports!(
    use guard::call;

    /// Collects a wait for a rank's next receive.
    pub fn comm_prepare_wait_ready(rank: c_int) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        let rank = buffer::rank(rank)?;
        comm.descriptors().collected.ready.push(|| {
            let (word, condition) = comm.credits.take_by_kernel(rank)?;
            Ok(device_calls::word_of(&word, condition.value))
        })
    }
);

exports!(
    use guard::call;

    /// Prepares a send of `size` elements, and collects it.
    ///
    /// # Safety
    ///
    /// As `comm_isend_on_stream`, without a stream.
    pub unsafe fn comm_prepare_isend(
        buf: *mut c_void,
        size: usize,
        kind: MpiHandle,
        reg: *mut Handle,
        rank: c_int,
        req: *mut Handle,
    ) -> c_int {
        let prepare = |comm: &Comm, message: &Message| {
            let library: &Arc<Library> = &message.library;
            let mut prepared = None;
            comm.descriptors().collected.tx.push(|| {
                let open = prepared.insert(OpenRequest {
                    request: library.ranks.prepare(&message.send())?,
                    has_completion: true,
                });
                device_calls::send(library, open)
            })?;
            prepared.ok_or(CallError::DescsFull)
        };
        // SAFETY: the caller's promise.
        unsafe { message(buf, size, kind, reg, rank, req, prepare) }
    }

    /// Collects waits for requests. They stay as they are: `comm_flush` frees them.
    ///
    /// # Safety
    ///
    /// `reqs` is NULL, misaligned, or has `count` handles.
    pub unsafe fn comm_prepare_wait_all(count: c_int, reqs: *mut Handle) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        // SAFETY: the caller's promise.
        let handles = unsafe { handles::all("reqs", reqs, buffer::size(count)?) }?;
        let mut descriptors = comm.descriptors();
        let waits = &mut descriptors.collected.wait;
        let requests = crate::stream_calls::requests(&library, &handles)?;
        if waits.count as usize + requests.len() > waits.list.len() {
            return Err(CallError::DescsFull);
        }
        for open in &requests {
            waits.push(|| device_calls::wait(&library, open))?;
        }
        Ok(())
    }
);

/// The collected descriptors, in memory that kernels read; valid for 127 more calls. NULL without `comm_init`.
#[unsafe(no_mangle)]
pub extern "C" fn comm_prepared_requests() -> *mut DevDescs {
    let mut found = std::ptr::null_mut();
    guard::call("comm_prepared_requests", || {
        let library = library()?;
        let comm = library.comm()?;
        let mut descriptors = comm.descriptors();
        let collected = std::mem::take(&mut descriptors.collected);
        let bytes = size_of::<DevDescs>();
        let at = descriptors.slot * bytes;
        descriptors.slot = (descriptors.slot + 1) % SLOTS;
        let start: *const u8 = std::ptr::from_ref(&*collected).cast();
        // SAFETY: a whole structure without hidden padding, so every byte is initialized.
        let copied = unsafe { std::slice::from_raw_parts(start, bytes) };
        let slot = descriptors.ring.part(at, bytes).map_err(engine::Error::from)?;
        slot.write(0, copied).map_err(engine::Error::from)?;
        found = std::ptr::with_exposed_provenance_mut(slot.address() as usize);
        Ok(())
    });
    found
}
