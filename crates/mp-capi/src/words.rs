//! The program's words in host memory that streams and kernels access: their pages are registered with CUDA until mp_finalize.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use gdsync::MappedMemory;
use gpu::pages::page_size;
use gpu::{BorrowedMemory, Gpu, HostMemory, Registration, foreign};

use crate::call_error::CallError;
use crate::handles::check;

/// Registered pages by address.
#[derive(Debug, Default)]
pub(crate) struct Words(Mutex<HashMap<usize, HostMemory>>);

impl Words {
    /// The place of a word.
    ///
    /// # Safety
    ///
    /// `word` is NULL, misaligned, or mapped host memory that stays mapped while a stream or kernel uses it.
    pub unsafe fn place(&self, gpu: &Gpu, word: *mut u32) -> Result<MappedMemory, CallError> {
        check("ptr", word)?;
        let page = page_size();
        let start = word.addr() & !(page - 1);
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // CUDA drops registrations with their context, and the program may have ended one that was its own.
        let is_registered = |memory: &&HostMemory| {
            let found = foreign::device_address(start);
            found.is_ok_and(|found| found == memory.device_address())
        };
        let memory = match pages.get(&start).filter(is_registered) {
            Some(memory) => memory.clone(),
            None => {
                let at = NonNull::new(word.with_addr(start).cast::<u8>());
                let at = at.ok_or(CallError::Null { what: "ptr" })?;
                // SAFETY: the page of mapped memory, which only streams, kernels and atomic loads of this library access through it.
                let borrowed = unsafe { BorrowedMemory::new(at, page, Arc::new(())) };
                let memory = borrowed.for_gpu(gpu, Registration::Memory);
                let memory = memory.map_err(CallError::cuda("register the page of a word"))?;
                pages.insert(start, memory.clone());
                memory
            }
        };
        let part = MappedMemory::host(memory).part(word.addr() - start, 4);
        Ok(part.map_err(engine::Error::from)?)
    }
}
