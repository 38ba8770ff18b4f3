//! Streams: ordered work queues of a GPU. `launch` has their kernel launches.

mod launch;
mod post;

pub use launch::{Check, Operations, Shape, WRONG_DATA, data_word};
pub use post::{
    Batches, DevicePayload, DeviceQueue, DeviceRange, DeviceRequest, PostEnd, Posted, Posting,
    message_word,
};

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{Destroyed, StreamHandle, Work};
use crate::memory::{Held, Memory, aligned};
use crate::{DeviceMemory, Error, Event, Gpu, HostMemory, MemOp, PeerAccess};

/// Work queue of one GPU. Work enqueued by several threads runs in an unspecified order.
///
/// The stream holds the memory its work uses until it is synchronised or dropped. Drop lets queued
/// work finish: on a real GPU it waits up to two seconds, then leaks the memory and GPU, because
/// the work may still write to them. A simulated stream abandons an unsatisfied wait after 100 ms.
/// [`Self::close`] also reports the result.
#[derive(Debug)]
pub struct Stream {
    gpu: Gpu,
    handle: StreamHandle,
    held: Mutex<Holding>,
    closed: bool,
}

/// Held memory by [`Held::key`].
type Holding = BTreeMap<(u64, u64), Held>;

impl Stream {
    pub(crate) fn new(gpu: Gpu) -> Result<Self, Error> {
        let handle = gpu.backend().create_stream()?;
        Ok(Self { gpu, handle, held: Mutex::new(BTreeMap::new()), closed: false })
    }

    /// GPU of this stream.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Driver's `CUstream` handle; an arbitrary number for a simulated stream.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.handle.0
    }

    /// Copies `from` into device memory after earlier work, and waits for completion.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Copy`], [`Error::Synchronize`], [`Error::Abandoned`].
    pub fn write(&self, to: &DeviceMemory, offset: usize, from: &[u8]) -> Result<(), Error> {
        let (address, held) = (to.range(offset, from.len())?, [to.held()]);
        let work = Work::HostToDevice {
            to: address,
            from: from.as_ptr(),
            bytes: from.len(),
            keeper: &held[0],
        };
        // SAFETY: `from` stays borrowed until this returns, after the stream finished with it or
        // failed.
        unsafe { self.enqueue_now(&held, work) }
    }

    /// Copies device memory into `to` after earlier work, and waits for completion.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Copy`], [`Error::Synchronize`], [`Error::Abandoned`].
    pub fn read(&self, from: &DeviceMemory, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let address = from.range(offset, to.len())?;
        let work = Work::DeviceToHost {
            to: to.as_mut_ptr(),
            from: address,
            bytes: to.len(),
            keeper: None,
        };
        // SAFETY: `to` stays exclusively borrowed until this returns, after the stream finished
        // with it or failed.
        unsafe { self.enqueue_now(&[from.held()], work) }
    }

    /// Enqueues a copy from host to device memory. CUDA stages pageable memory, so that copy may be
    /// complete on return.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Copy`], [`Error::Abandoned`].
    pub fn upload(
        &self,
        to: &DeviceMemory,
        to_offset: usize,
        from: &HostMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let held = [to.held(), from.held()];
        let work = Work::HostToDevice {
            to: to.range(to_offset, bytes)?,
            from: from.at(from_offset, bytes)?,
            bytes,
            keeper: &held[0],
        };
        self.enqueue(&held, work)
    }

    /// Enqueues a copy from device to host memory. Pageable memory behaves as in [`Self::upload`].
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Copy`], [`Error::Abandoned`].
    pub fn download(
        &self,
        to: &HostMemory,
        to_offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let held = [to.held(), from.held()];
        let work = Work::DeviceToHost {
            to: to.at(to_offset, bytes)?,
            from: from.range(from_offset, bytes)?,
            bytes,
            keeper: Some(&held[0]),
        };
        self.enqueue(&held, work)
    }

    /// Enqueues a device-to-device copy. Copies between GPUs are direct with peer
    /// [access](Gpu::access); otherwise the driver stages them through host memory.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Copy`], [`Error::Abandoned`].
    pub fn copy(
        &self,
        to: &DeviceMemory,
        to_offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let (to_address, from_address) =
            (to.range(to_offset, bytes)?, from.range(from_offset, bytes)?);
        let (to_context, from_context) = (to.gpu().context(), from.gpu().context());
        let mut held = vec![to.held(), from.held()];
        let keeper = to.held();
        let work = if to_context == from_context {
            Work::DeviceToDevice { to: to_address, from: from_address, bytes, keeper: &keeper }
        } else {
            // Keeps peer access enabled until the copy is done.
            let ways =
                [PeerAccess::held(to.gpu(), from.gpu()), PeerAccess::held(from.gpu(), to.gpu())];
            held.extend(ways.into_iter().flatten().map(Held::Peer));
            Work::PeerToPeer {
                to: to_address,
                to_context,
                from: from_address,
                from_context,
                bytes,
                keeper: &keeper,
            }
        };
        self.enqueue(&held, work)
    }

    /// Enqueues a fill of `bytes` bytes with `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Fill`], [`Error::Abandoned`].
    pub fn fill(
        &self,
        memory: &DeviceMemory,
        offset: usize,
        bytes: usize,
        value: u8,
    ) -> Result<(), Error> {
        let to = memory.range(offset, bytes)?;
        self.enqueue(&[memory.held()], Work::FillBytes { to, value, bytes })
    }

    /// Enqueues a fill of `words` 32-bit words with `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Fill`], [`Error::Abandoned`].
    pub fn fill_words(
        &self,
        memory: &DeviceMemory,
        offset: usize,
        words: usize,
        value: u32,
    ) -> Result<(), Error> {
        let to = memory.range(offset, words.saturating_mul(4))?;
        aligned(to.get(), 4)?;
        self.enqueue(&[memory.held()], Work::FillWords { to, value, words })
    }

    /// Enqueues a batch of memory operations, in order. Batches over 255 operations take several
    /// driver calls, but work from other threads never interleaves with them.
    ///
    /// Waits have no timeout; use [`Self::synchronize_within`]. On a real GPU a wait may block
    /// other streams that share its hardware queue. With `CUDA_DEVICE_MAX_CONNECTIONS` 1 (default
    /// 8), another stream's write cannot end a wait (measured on H200), so keep a way to end it by
    /// a CPU write to [`HostMemory`]. Implicit synchronisation, such as freeing memory or loading
    /// code, blocks too ([`Gpu::load_kernels`] loads code ahead).
    ///
    /// ```
    /// use gpu::{Allocation, Compare, Gpu, MemOp};
    ///
    /// let gpu = Gpu::sim();
    /// let (waiter, writer) = (gpu.stream()?, gpu.stream()?);
    /// let word = gpu.allocate(Allocation::Malloc, 8)?;
    /// waiter.fill(&word, 0, 8, 0)?;
    /// // Nothing orders the two streams but this.
    /// waiter.synchronize()?;
    /// waiter.batch(&[
    ///     MemOp::wait32(&word, 0, 7, Compare::Geq)?,
    ///     MemOp::write32(&word, 4, 1)?,
    /// ])?;
    /// assert!(!waiter.is_idle()?);
    /// writer.batch(&[MemOp::write32(&word, 0, 8)?])?;
    /// waiter.synchronize()?;
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::MemoryOperations`], [`Error::Foreign`], [`Error::Abandoned`].
    pub fn batch(&self, operations: &[MemOp]) -> Result<(), Error> {
        if operations.is_empty() {
            return Ok(());
        }
        let mut held = Vec::new();
        let ops = operations.iter().map(|op| op.address(&mut held));
        let ops = ops.collect::<Result<Vec<_>, _>>()?;
        self.enqueue(&held, Work::Operations(&ops))
    }

    /// Records an event after the work enqueued so far.
    ///
    /// # Errors
    ///
    /// [`Error::Event`], [`Error::Foreign`].
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        if !self.gpu.is_same(event.gpu()) {
            return Err(Error::Foreign("event"));
        }
        self.enqueue(&[], Work::Record(event.handle()))
    }

    /// Makes later work wait for the latest record of `event`; an unrecorded event is complete.
    ///
    /// # Errors
    ///
    /// [`Error::Event`], [`Error::Foreign`] between a simulated GPU and a real one.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        if self.gpu.is_sim() != event.gpu().is_sim() {
            return Err(Error::Foreign("event"));
        }
        self.enqueue(&[], Work::Wait(event.handle()))
    }

    /// True if all enqueued work is done.
    ///
    /// # Errors
    ///
    /// [`Error::Synchronize`], [`Error::Abandoned`].
    pub fn is_idle(&self) -> Result<bool, Error> {
        self.gpu.backend().is_idle(self.handle)
    }

    /// Waits without a timeout until the work enqueued so far is done.
    ///
    /// # Errors
    ///
    /// [`Error::Synchronize`] if some of it failed (on a real GPU the context is then lost),
    /// [`Error::Abandoned`].
    pub fn synchronize(&self) -> Result<(), Error> {
        let held = std::mem::take(&mut *self.lock());
        let outcome = self.gpu.backend().synchronize(self.handle);
        if outcome.is_err() {
            self.lock().extend(held);
        }
        outcome
    }

    /// [`Self::synchronize`] with a timeout. Polls the stream, at first without pauses.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`], with what is known of what the stream waits for; as
    /// [`Self::synchronize`].
    pub fn synchronize_within(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            if self.is_idle()? {
                return self.synchronize();
            }
            let waited = start.elapsed();
            if waited >= timeout {
                let state = self.gpu.backend().state(self.handle);
                return Err(Error::Timeout { waited, state });
            }
            if waited > Duration::from_millis(1) {
                std::thread::sleep(Duration::from_micros(50));
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Closes the stream and reports whether all its work completed.
    ///
    /// # Errors
    ///
    /// [`Error::Abandoned`] with what a simulated stream waited for; [`Error::Timeout`] of a real
    /// one that still runs: then the memory it uses stays allocated for good.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn enqueue(&self, held: &[Held], work: Work<'_>) -> Result<(), Error> {
        self.check_world(held)?;
        // Stays locked until the work is enqueued: a synchronisation must not release what later
        // work needs.
        let mut holding = self.lock();
        for held in held {
            holding.entry(held.key()).or_insert_with(|| held.clone());
        }
        // SAFETY: `holding` keeps the memory until a synchronisation after this work, or the end of
        // the stream.
        unsafe { self.gpu.backend().enqueue(self.handle, work) }
    }

    /// Rejects mixing simulated and real objects.
    fn check_world(&self, held: &[Held]) -> Result<(), Error> {
        if held.iter().any(|held| held.gpu().is_sim() != self.gpu.is_sim()) {
            return Err(Error::Foreign("memory"));
        }
        Ok(())
    }

    /// Enqueues work and waits for it.
    ///
    /// # Safety
    ///
    /// Memory the work names, other than `held`, stays valid until this returns.
    unsafe fn enqueue_now(&self, held: &[Held], work: Work<'_>) -> Result<(), Error> {
        let entered = self.enqueue(held, work);
        // Synchronises even after an error: part of the work may have started.
        let done = self.synchronize();
        entered.and(done)
    }

    fn end(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let held = std::mem::take(&mut *self.lock());
        match self.gpu.backend().destroy_stream(self.handle) {
            Destroyed::Finished => Ok(()),
            Destroyed::Abandoned(error) => Err(error),
            Destroyed::StillRunning(error) => {
                // A leak is safe; freeing memory under a running copy is not.
                std::mem::forget((held, self.gpu.clone()));
                Err(error)
            }
        }
    }

    /// Each map update is atomic, so a poisoned lock still holds valid data.
    fn lock(&self) -> MutexGuard<'_, Holding> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Ignored: `close` reports errors.
        let _ = self.end();
    }
}
