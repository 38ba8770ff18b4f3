//! Memory that somebody else owns, for the CPU and for GPUs: what a NIC's driver laid its queues and registers in.
//!
//! CUDA registers whole pages, and several parts of memory share one (the doorbell records of queue pairs do): a page is registered once in
//! the process, counted by who holds it, and its registration ends with the last of them.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdr_sys::cuda::CuResult;
use process::PerProcess;

use crate::pages::{PageRanges, page_size, pages};
use crate::{DevicePtr, Error, Gpu, HostMemory, Registration};

/// Externally owned memory, or another device's registers, and what keeps it. Clones are the same.
#[derive(Clone)]
pub struct BorrowedMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// Held, and nothing else.
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a number and what may be sent; the memory is reached through `bytes` alone (`BorrowedMemory::new`).
unsafe impl Send for BorrowedMemory {}
// SAFETY: as above.
unsafe impl Sync for BorrowedMemory {}

impl BorrowedMemory {
    /// `bytes` bytes from `start` on, which are there for as long as `keep` is.
    ///
    /// # Safety
    ///
    /// They are valid for reads and writes until the last clone of `keep` is dropped; until then nobody holds a reference into
    /// them, or accesses them but as [`mod@crate::bytes`] does (registers: by single loads and stores).
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
        // A simulated GPU finds memory by its number.
        let _ = start.as_ptr().expose_provenance();
        Self {
            start,
            bytes,
            _keep: keep,
        }
    }

    /// Where the CPU finds it.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// For the CPU alone.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`].
    pub fn for_cpu(&self, gpu: &Gpu) -> Result<HostMemory, Error> {
        let share = Share {
            registered: None,
            registers: false,
            _memory: self.clone(),
        };
        self.memory(gpu, DevicePtr::new(0), share)
    }

    /// For the GPU too: its pages are registered as `how` with all contexts of the process. Where somebody else has registered one
    /// already, that registration is used, for as long as it lasts. Registers that CUDA refuses as such (`CUDA_ERROR_INVALID_VALUE`: those
    /// of a device in software are memory) are registered as memory. CUDA copies no range that is of several registrations; words are
    /// reached in all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Register`]; [`Error::Scattered`]; [`Error::Empty`].
    pub fn for_gpu(&self, gpu: &Gpu, how: Registration) -> Result<HostMemory, Error> {
        if self.bytes == 0 {
            return Err(Error::Empty);
        }
        // SAFETY: the memory is valid while what keeps it is, which the result holds, and drops after the registration.
        let (registered, device) = unsafe { Registered::new(gpu, self.start, self.bytes, how) }?;
        let share = Share {
            registered: Some(registered),
            registers: how == Registration::Registers,
            _memory: self.clone(),
        };
        self.memory(gpu, device, share)
    }

    fn memory(&self, gpu: &Gpu, device: DevicePtr, share: Share) -> Result<HostMemory, Error> {
        if self.bytes == 0 {
            return Err(Error::Empty);
        }
        Ok(HostMemory::borrowed(
            gpu.clone(),
            self.start,
            self.bytes,
            device,
            share,
        ))
    }
}

impl fmt::Debug for BorrowedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} borrowed bytes at {:#x}", self.bytes, self.address())
    }
}

/// What [`HostMemory`] holds of borrowed memory; dropped in this order.
#[derive(Debug)]
pub(crate) struct Share {
    registered: Option<Registered>,
    /// Another device's, on which a store is to arrive at once.
    pub registers: bool,
    _memory: BorrowedMemory,
}

impl Share {
    /// Whether a GPU reaches it.
    pub(crate) fn is_registered(&self) -> bool {
        self.registered.is_some()
    }
}

/// A hold of registered pages.
#[derive(Debug)]
struct Registered {
    gpu: Gpu,
    start: NonNull<u8>,
    pages: Range<usize>,
}

// SAFETY: the pointer is a number here.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

/// Pages that were registered in one call.
struct Holders {
    count: usize,
    /// Whether the registration is ours to end.
    ours: bool,
}

/// Of this process: a forked child has none. Held while CUDA is asked: who finds a page unregistered registers it before another may
/// end a registration.
static REGISTERED: PerProcess<Mutex<PageRanges<Holders>>> = PerProcess::new(Mutex::default);

/// Its data is whole at every moment.
fn registered() -> MutexGuard<'static, PageRanges<Holders>> {
    REGISTERED
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Registered {
    /// Takes a hold of the pages of `bytes` bytes, and says where the GPU sees the first byte.
    ///
    /// # Safety
    ///
    /// `start` is valid for `bytes` bytes until the result is dropped.
    unsafe fn new(
        gpu: &Gpu,
        start: NonNull<u8>,
        bytes: usize,
        how: Registration,
    ) -> Result<(Self, DevicePtr), Error> {
        let address = start.as_ptr().addr();
        let pages = pages(address, bytes).ok_or(Error::Empty)?;
        let hold = Self {
            gpu: gpu.clone(),
            start,
            pages,
        };
        let mut all = registered();
        // SAFETY: the caller's promise; a page of which some bytes are memory is memory.
        let made = unsafe { hold.fill_gaps(&mut all, how) };
        let starts = all.overlapping(&hold.pages);
        // Before anything can fail: dropped, the hold is taken back.
        for start in &starts {
            if let Some(holders) = all.get_mut(*start) {
                holders.count += 1;
            }
        }
        drop(all);
        made?;
        let device = hold.device_address(address)?;
        for page in starts.into_iter().filter(|page| *page > address) {
            if hold.device_address(page)? != device.offset((page - address) as u64) {
                return Err(Error::Scattered { address, bytes });
            }
        }
        Ok((hold, device))
    }

    /// Has the pages registered that are not.
    ///
    /// # Safety
    ///
    /// They are memory until their registration ends.
    unsafe fn fill_gaps(
        &self,
        all: &mut PageRanges<Holders>,
        how: Registration,
    ) -> Result<(), Error> {
        let page = page_size();
        for gap in all.gaps(&self.pages) {
            // SAFETY: the caller's promise.
            if unsafe { self.register(&gap, how) }? {
                all.insert(
                    gap,
                    Holders {
                        count: 0,
                        ours: true,
                    },
                );
                continue;
            }
            // Some of its pages are registered by somebody else: the others one by one.
            let only = gap.len() == page;
            for start in gap.step_by(page) {
                let range = start..start + page;
                // SAFETY: as above.
                let ours = !only && unsafe { self.register(&range, how) }?;
                all.insert(range, Holders { count: 0, ours });
            }
        }
        Ok(())
    }

    /// Has pages registered; false where somebody else has done so.
    ///
    /// # Safety
    ///
    /// As [`Self::fill_gaps`].
    unsafe fn register(&self, pages: &Range<usize>, how: Registration) -> Result<bool, Error> {
        // SAFETY: the caller's promise.
        let ask = |how| unsafe {
            self.gpu
                .backend()
                .register(self.at(pages.start), pages.len(), how)
        };
        let made = match ask(how) {
            Err(error)
                if how == Registration::Registers
                    && returned(&error, &[CuResult::INVALID_VALUE]) =>
            {
                // If both fail, the first error is reported, except that "registered already" is no error to the caller.
                ask(Registration::Memory).map_err(|second| match is_registered_already(&second) {
                    true => second,
                    false => error,
                })
            }
            made => made,
        };
        match made {
            Ok(_) => Ok(true),
            Err(error) if is_registered_already(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn device_address(&self, address: usize) -> Result<DevicePtr, Error> {
        self.gpu.backend().host_address(self.at(address))
    }

    /// An address of these pages. The driver looks it up, and does not follow it.
    fn at(&self, address: usize) -> NonNull<u8> {
        let distance = address.wrapping_sub(self.start.as_ptr().addr());
        NonNull::new(self.start.as_ptr().wrapping_add(distance)).unwrap_or(self.start)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = registered();
        for start in all.overlapping(&self.pages) {
            let Some(holders) = all.get_mut(start) else {
                continue;
            };
            holders.count = holders.count.saturating_sub(1);
            if holders.count > 0 {
                continue;
            }
            if holders.ours {
                self.gpu.backend().unregister(self.at(start));
            }
            all.remove(start);
        }
    }
}

fn is_registered_already(error: &Error) -> bool {
    let results = [
        CuResult::HOST_MEMORY_ALREADY_REGISTERED,
        CuResult::ALREADY_MAPPED,
    ];
    returned(error, &results)
}

/// Whether a registration was refused with one of these results.
fn returned(error: &Error, results: &[CuResult]) -> bool {
    let refused = match error {
        Error::Register { source, .. } => source.result(),
        _ => None,
    };
    refused.is_some_and(|refused| results.contains(&refused))
}

#[cfg(test)]
mod tests;
