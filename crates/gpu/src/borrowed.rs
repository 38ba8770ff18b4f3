//! Externally owned memory, such as a NIC driver's queues and registers, for CPU and GPU access.
//!
//! CUDA registers whole pages, and several objects may share a page (such as queue pair doorbell
//! records). Each page is registered once per process and reference-counted.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdr_sys::cuda::CuResult;
use gdr_sys::process::PerProcess;

use crate::pages::{PageRanges, page_size, pages};
use crate::{DevicePtr, Error, Gpu, HostMemory, Registration};

/// Externally owned memory or device registers, with the owner that keeps it alive. Clones share
/// it.
#[derive(Clone)]
pub struct BorrowedMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// Keeps the memory alive.
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: an address and a `Send` owner; the memory is accessed only through `bytes`
// (`BorrowedMemory::new`).
unsafe impl Send for BorrowedMemory {}
// SAFETY: as above.
unsafe impl Sync for BorrowedMemory {}

impl BorrowedMemory {
    /// Wraps `bytes` bytes from `start`, which stay valid while `keep` lives.
    ///
    /// # Safety
    ///
    /// The range is valid for reads and writes until the last clone of `keep` is dropped. Until
    /// then no references into it exist, and all accesses are like those of [`mod@crate::bytes`]
    /// (registers: single loads and stores).
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
        // A simulated GPU accesses the memory by its exposed address.
        let _ = start.as_ptr().expose_provenance();
        Self { start, bytes, _keep: keep }
    }

    /// Host address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes it accessible to the CPU only.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`].
    pub fn for_cpu(&self, gpu: &Gpu) -> Result<HostMemory, Error> {
        let share = Share { registered: None, registers: false, _memory: self.clone() };
        self.memory(gpu, DevicePtr::new(0), share)
    }

    /// Makes it accessible to the GPU too, by registering its pages with all contexts of the
    /// process. Existing external registrations are used while they last. Registers that CUDA
    /// rejects (`CUDA_ERROR_INVALID_VALUE`; a software device's registers are memory) are
    /// registered as memory. CUDA cannot copy a range that spans several registrations; words work
    /// in all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Register`]; [`Error::Scattered`]; [`Error::Empty`].
    pub fn for_gpu(&self, gpu: &Gpu, how: Registration) -> Result<HostMemory, Error> {
        if self.bytes == 0 {
            return Err(Error::Empty);
        }
        // SAFETY: the memory is valid while its owner lives; the result holds the owner and drops
        // it after the registration.
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
        Ok(HostMemory::borrowed(gpu.clone(), self.start, self.bytes, device, share))
    }
}

impl fmt::Debug for BorrowedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} borrowed bytes at {:#x}", self.bytes, self.address())
    }
}

/// Borrowed memory in [`HostMemory`]; field order is drop order.
#[derive(Debug)]
pub(crate) struct Share {
    registered: Option<Registered>,
    /// True for device registers, where stores must be flushed at once.
    pub registers: bool,
    _memory: BorrowedMemory,
}

impl Share {
    /// True if a GPU can access it.
    pub(crate) fn is_registered(&self) -> bool {
        self.registered.is_some()
    }
}

/// Reference to registered pages.
#[derive(Debug)]
struct Registered {
    gpu: Gpu,
    start: NonNull<u8>,
    pages: Range<usize>,
}

// SAFETY: the pointer is used only as an address here.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

/// Pages registered by one call.
struct Holders {
    count: usize,
    /// True if we must unregister it.
    ours: bool,
}

/// Per process: a forked child has no registrations. Held during CUDA calls, so that registering a
/// page cannot race with unregistering it.
static REGISTERED: PerProcess<Mutex<PageRanges<Holders>>> = PerProcess::new(Mutex::default);

/// Each update is atomic, so a poisoned lock still holds valid data.
fn registered() -> MutexGuard<'static, PageRanges<Holders>> {
    REGISTERED.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registered {
    /// References the pages of the range and returns the device address of its first byte.
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
        let hold = Self { gpu: gpu.clone(), start, pages };
        let mut all = registered();
        // SAFETY: the caller guarantees validity; a page that holds some valid bytes is mapped
        // memory.
        let made = unsafe { hold.fill_gaps(&mut all, how) };
        let starts = all.overlapping(&hold.pages);
        // Counted before anything can fail: drop releases the reference.
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

    /// Registers the pages that are not registered yet.
    ///
    /// # Safety
    ///
    /// The pages stay mapped until their registration ends.
    unsafe fn fill_gaps(
        &self,
        all: &mut PageRanges<Holders>,
        how: Registration,
    ) -> Result<(), Error> {
        let page = page_size();
        for gap in all.gaps(&self.pages) {
            // SAFETY: guaranteed by the caller.
            if unsafe { self.register(&gap, how) }? {
                all.insert(gap, Holders { count: 0, ours: true });
                continue;
            }
            // Some pages are already registered elsewhere: register the others one by one.
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

    /// Registers pages; false if they are already registered elsewhere.
    ///
    /// # Safety
    ///
    /// As [`Self::fill_gaps`].
    unsafe fn register(&self, pages: &Range<usize>, how: Registration) -> Result<bool, Error> {
        // SAFETY: guaranteed by the caller.
        let register =
            |how| unsafe { self.gpu.backend().register(self.at(pages.start), pages.len(), how) };
        let made = match register(how) {
            Err(error)
                if how == Registration::Registers
                    && returned(&error, &[CuResult::INVALID_VALUE]) =>
            {
                // If both fail, report the first error, unless the second is "already registered",
                // which counts as success.
                register(Registration::Memory)
                    .map_err(|second| if is_registered_already(&second) { second } else { error })
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

    /// Address in these pages, which the driver looks up without dereferencing.
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

/// True if the pages were already registered.
pub(crate) fn is_registered_already(error: &Error) -> bool {
    let results = [CuResult::HOST_MEMORY_ALREADY_REGISTERED, CuResult::ALREADY_MAPPED];
    returned(error, &results)
}

/// True if registration failed with one of these results.
fn returned(error: &Error, results: &[CuResult]) -> bool {
    let result = match error {
        Error::Register { source, .. } => source.result(),
        _ => None,
    };
    result.is_some_and(|result| results.contains(&result))
}

#[cfg(test)]
mod tests;
