//! Memory that somebody else keeps, for the CPU and for GPUs: what a card's driver laid its queues and registers in.
//!
//! Registrations are of whole pages, and several pieces share one (the doorbell records of queue pairs do): a page is registered
//! once in the process, and that ends with the last piece of it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdr_sys::cuda::CuResult;

use crate::{DevicePtr, Error, Gpu, HostMemory, Registration};

/// A stretch of somebody else's memory, or of another device's registers, and what keeps it. Clones are the same.
#[derive(Clone)]
pub struct Lent {
    start: NonNull<u8>,
    bytes: usize,
    /// Held, and nothing else.
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a number and what may be sent; the memory is reached through atomic accesses alone (`Lent::new`).
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    /// `bytes` bytes from `start` on, which are there for as long as `keep` is.
    ///
    /// # Safety
    ///
    /// They are valid for reads and writes until the last clone of `keep` is dropped; until then nobody holds a reference into
    /// them, or accesses them but atomically (registers: by single loads and stores).
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
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
        let memory = Borrowed {
            _page: None,
            registers: false,
            _lent: self.clone(),
        };
        self.memory(gpu, DevicePtr::new(0), memory)
    }

    /// For the GPU too: registered as `how` with all contexts of the process. Where somebody else has registered it already, that
    /// is used, for as long as it lasts. What begins and ends within pages is to be lent by whole pages. Registers that CUDA takes for
    /// none (`CUDA_ERROR_INVALID_VALUE`: those of a device in software are memory) are registered as memory.
    ///
    /// # Errors
    ///
    /// [`Error::Register`]; [`Error::Empty`].
    pub fn for_gpu(&self, gpu: &Gpu, how: Registration) -> Result<HostMemory, Error> {
        if self.bytes == 0 {
            return Err(Error::Empty);
        }
        // SAFETY: the memory is valid while what keeps it is, which the result holds, and drops after the registration.
        let (page, device) = unsafe { Page::registered(gpu, self.start, self.bytes, how) }?;
        let memory = Borrowed {
            _page: Some(page),
            registers: how == Registration::Registers,
            _lent: self.clone(),
        };
        self.memory(gpu, device, memory)
    }

    fn memory(&self, gpu: &Gpu, device: DevicePtr, borrowed: Borrowed) -> Result<HostMemory, Error> {
        if self.bytes == 0 {
            return Err(Error::Empty);
        }
        Ok(HostMemory::lent(gpu.clone(), self.start, self.bytes, device, borrowed))
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes lent at {:#x}", self.bytes, self.address())
    }
}

/// What a piece of lent memory holds; dropped in this order.
#[derive(Debug)]
pub(crate) struct Borrowed {
    _page: Option<Page>,
    /// Another device's, on which a store is to arrive at once.
    pub registers: bool,
    _lent: Lent,
}

impl Borrowed {
    /// Whether a GPU reaches it.
    pub(crate) fn is_registered(&self) -> bool {
        self._page.is_some()
    }
}

/// A share in a registration.
#[derive(Debug)]
struct Page {
    gpu: Gpu,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pointer is a number here.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

struct Registered {
    shares: usize,
    ours: bool,
}

/// By where they start, and their bytes: a longer one at the same place is another, of which CUDA says whether it takes it. Held while
/// CUDA is asked: who finds none registers before another may end one.
static REGISTERED: Mutex<Registrations> = Mutex::new(Registrations::new());

type Registrations = BTreeMap<(usize, usize), Registered>;

/// Its data is whole at every moment.
fn registrations() -> MutexGuard<'static, Registrations> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Page {
    /// # Safety
    ///
    /// `start` is valid for `bytes` bytes until the result is dropped.
    unsafe fn registered(
        gpu: &Gpu,
        start: NonNull<u8>,
        bytes: usize,
        how: Registration,
    ) -> Result<(Self, DevicePtr), Error> {
        let mut all = registrations();
        let at = (start.as_ptr().addr(), bytes);
        let device = match all.get_mut(&at) {
            Some(known) => {
                let device = gpu.backend().host_address(start)?;
                known.shares += 1;
                device
            }
            None => {
                // SAFETY: this function's condition.
                let (device, ours) = unsafe { register(gpu, start, bytes, how) }?;
                all.insert(at, Registered { shares: 1, ours });
                device
            }
        };
        // Not before: dropped, it takes the lock.
        let gpu = gpu.clone();
        Ok((Self { gpu, start, bytes }, device))
    }
}

/// Has memory registered, and says whether that is ours to end.
///
/// # Safety
///
/// As [`Page::registered`].
unsafe fn register(gpu: &Gpu, start: NonNull<u8>, bytes: usize, how: Registration) -> Result<(DevicePtr, bool), Error> {
    // SAFETY: this function's condition.
    let ask = |how| unsafe { gpu.backend().register(start, bytes, how) };
    let made = match ask(how) {
        Err(error) if how == Registration::Registers && returned(&error, &[CuResult::INVALID_VALUE]) => {
            // Of two refusals the first is the one to report, unless the second is none.
            ask(Registration::Memory).map_err(|second| match is_registered_already(&second) {
                true => second,
                false => error,
            })
        }
        made => made,
    };
    match made {
        Ok(device) => Ok((device, true)),
        Err(error) if is_registered_already(&error) => Ok((gpu.backend().host_address(start)?, false)),
        Err(error) => Err(error),
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let mut all = registrations();
        let at = (self.start.as_ptr().addr(), self.bytes);
        let Some(known) = all.get_mut(&at) else { return };
        known.shares -= 1;
        if known.shares == 0 {
            if known.ours {
                self.gpu.backend().unregister(self.start);
            }
            all.remove(&at);
        }
    }
}

fn is_registered_already(error: &Error) -> bool {
    let results = [CuResult::HOST_MEMORY_ALREADY_REGISTERED, CuResult::ALREADY_MAPPED];
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
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{Compare, MemoryOperation};

    /// Memory that tells when it goes.
    struct Keeper {
        bytes: Box<[u64; 512]>,
        gone: Arc<AtomicBool>,
    }

    impl Drop for Keeper {
        fn drop(&mut self) {
            self.gone.store(true, Ordering::SeqCst);
        }
    }

    fn keeper() -> (Lent, Arc<AtomicBool>) {
        let gone = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper {
            bytes: Box::new([0; 512]),
            gone: Arc::clone(&gone),
        };
        let start = NonNull::from(&mut *keeper.bytes).cast();
        // SAFETY: the box stays where it is until the keeper is dropped, and nobody else looks into it.
        (unsafe { Lent::new(start, 4096, Arc::new(keeper)) }, gone)
    }

    #[test]
    fn a_stream_reaches_it_and_it_is_kept_until_nobody_does() {
        let (lent, gone) = keeper();
        let gpu = Gpu::sim();
        let memory = lent.for_gpu(&gpu, Registration::Registers).expect("registered");
        let stream = gpu.stream().expect("a stream");
        let write = MemoryOperation::write64(&memory, 8, 0x0102).expect("reached");
        drop(lent);
        stream.batch(&[write]).expect("put in");
        stream.synchronize().expect("done");
        assert_eq!(memory.load_u64(8).expect("in range"), 0x0102);
        assert!(!gone.load(Ordering::SeqCst));
        drop((memory, stream));
        assert!(gone.load(Ordering::SeqCst));
    }

    #[test]
    fn a_page_is_registered_until_its_last_piece_goes() {
        let (lent, _gone) = keeper();
        let gpu = Gpu::sim();
        let first = lent.for_gpu(&gpu, Registration::Memory).expect("registered");
        let second = lent.for_gpu(&gpu, Registration::Memory).expect("shared");
        let at = (lent.address(), lent.len());
        assert_eq!(registrations().get(&at).map(|known| known.shares), Some(2));
        drop(first);
        let stream = gpu.stream().expect("a stream");
        let wait = MemoryOperation::wait32(&second, 0, 0, Compare::Geq).expect("reached");
        stream.batch(&[wait]).expect("put in");
        stream.synchronize().expect("it is registered still");
        drop((second, stream));
        assert!(registrations().get(&at).is_none());
    }

    #[test]
    fn a_longer_piece_at_the_same_place_is_a_registration_of_its_own() {
        let (whole, _gone) = keeper();
        let start = NonNull::new(whole.address() as *mut u8).expect("an address");
        // SAFETY: the beginning of the whole, which the last argument keeps.
        let half = unsafe { Lent::new(start, 2048, Arc::new(whole.clone())) };
        let gpu = Gpu::sim();
        let short = half.for_gpu(&gpu, Registration::Memory).expect("registered");
        let long = whole.for_gpu(&gpu, Registration::Memory).expect("registered already");
        drop((long, short));
        // Both have ended, whose ever they were.
        let at = |bytes| registrations().get(&(whole.address(), bytes)).is_some();
        assert!(!at(2048) && !at(4096));
        let again = whole.for_gpu(&gpu, Registration::Memory).expect("free");
        let stream = gpu.stream().expect("a stream");
        let write = MemoryOperation::write32(&again, 4092, 5).expect("reached");
        stream.batch(&[write]).expect("put in");
        stream.synchronize().expect("all of it is registered");
        assert_eq!(again.load_u32(4092).expect("in range"), 5);
    }

    #[test]
    fn what_somebody_registered_stays_registered() {
        let gpu = Gpu::sim();
        let theirs = gpu.registered(4096).expect("memory");
        // SAFETY: the memory is kept by the last argument.
        let lent = unsafe { Lent::new(theirs.as_ptr(), 4096, Arc::new(theirs.clone())) };
        let memory = lent.for_gpu(&gpu, Registration::Memory).expect("registered already");
        assert_eq!(memory.device_address(), theirs.device_address());
        drop((lent, memory));
        let stream = gpu.stream().expect("a stream");
        let write = MemoryOperation::write32(&theirs, 4, 9).expect("reached");
        stream.batch(&[write]).expect("put in");
        stream.synchronize().expect("it is registered still");
        assert_eq!(theirs.load_u32(4).expect("in range"), 9);
    }

    #[test]
    fn for_the_cpu_alone_no_gpu_has_an_address() {
        let (lent, _gone) = keeper();
        let memory = lent.for_cpu(&Gpu::sim()).expect("some bytes");
        memory.store_u32(4, 7).expect("in range");
        assert_eq!(memory.load_u32(4).expect("in range"), 7);
        assert!(memory.is_pageable());
        assert!(matches!(MemoryOperation::write32(&memory, 0, 1), Err(Error::Pageable)));
        assert!(registrations().get(&(lent.address(), lent.len())).is_none());
    }
}
