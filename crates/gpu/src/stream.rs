//! Streams: work for a GPU, done in order. The kernels they launch are in `launch`.

mod launch;

pub use launch::Check;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{Destroyed, StreamHandle, Work};
use crate::memory::{Held, Memory, aligned};
use crate::operation::Step;
use crate::{DeviceMemory, Error, Event, Gpu, HostMemory, MemoryOperation, PeerAccess};

/// A queue of work for one GPU. What is put in by several threads at once is done in some order.
///
/// It keeps alive the memory that its work names until it is synchronised or dropped. Dropped with unfinished work, the rest is
/// still done, if it can be: on a real GPU the drop waits up to two seconds and then leaves memory and GPU open rather than
/// free what may still be written; a simulated stream that waits for a word nobody writes gives up after a tenth of a second.
/// [`Self::close`] is the drop that says how it went.
#[derive(Debug)]
pub struct Stream {
    gpu: Gpu,
    handle: StreamHandle,
    held: Mutex<Holding>,
    closed: bool,
}

/// What is held, by [`Held::key`].
type Holding = HashMap<(u64, u64), Held>;

impl Stream {
    pub(crate) fn new(gpu: Gpu) -> Result<Self, Error> {
        let handle = gpu.backend().create_stream()?;
        Ok(Self {
            gpu,
            handle,
            held: Mutex::new(HashMap::new()),
            closed: false,
        })
    }

    /// Whose stream.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The driver's `CUstream` of it; of a simulated stream, just a number.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.handle.0
    }

    /// Copies `from` into device memory; done when it returns, after the work before it.
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
        // SAFETY: `from` is borrowed until this returns, which is after the stream is done with it or has given up on it.
        unsafe { self.enqueue_now(&held, work) }
    }

    /// Copies device memory into `to`; done when it returns, after the work before it.
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
        // SAFETY: `to` is exclusively borrowed until this returns, which is after the stream is done with it or gave up.
        unsafe { self.enqueue_now(&[from.held()], work) }
    }

    /// Starts a copy of `bytes` bytes from host memory to device memory. Of pageable memory it may have happened when this
    /// returns: CUDA carries it over itself.
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

    /// Starts a copy of `bytes` bytes from device memory to host memory; of pageable memory as [`Self::upload`].
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

    /// Starts a copy of `bytes` bytes from device memory to device memory. Between two GPUs it goes directly where one has
    /// [access](Gpu::access) to the other, and else through host memory, by the driver.
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
            Work::DeviceToDevice {
                to: to_address,
                from: from_address,
                bytes,
                keeper: &keeper,
            }
        } else {
            // What it may go through is not to be turned off under it.
            let ways = [
                PeerAccess::held(to.gpu(), from.gpu()),
                PeerAccess::held(from.gpu(), to.gpu()),
            ];
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

    /// Starts to set `bytes` bytes to `value`.
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

    /// Starts to set `words` 32-bit words to `value`.
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

    /// Puts a batch of memory operations in, which are done in order. More than 255 go to the driver in several calls: what
    /// other threads put into the stream meanwhile comes before or after the batch, never in between.
    ///
    /// A wait lasts as long as it takes: use [`Self::synchronize_within`]. On a real GPU it may also hold up others. Streams
    /// share hardware queues, of which there are `CUDA_DEVICE_MAX_CONNECTIONS` (8 unless set): with 1, a wait is never ended by
    /// another stream's write (seen on an H200), so have an end at hand that the CPU can write into [`HostMemory`]. And what synchronises implicitly,
    /// such as freeing memory and loading code ([`Gpu::load_kernels`] does that ahead), waits with it.
    ///
    /// ```
    /// use gpu::{Allocation, Compare, Gpu, MemoryOperation};
    ///
    /// let gpu = Gpu::sim();
    /// let (waiter, writer) = (gpu.stream()?, gpu.stream()?);
    /// let word = gpu.allocate(Allocation::Malloc, 8)?;
    /// waiter.fill(&word, 0, 8, 0)?;
    /// // Nothing orders the two streams but this.
    /// waiter.synchronize()?;
    /// waiter.batch(&[
    ///     MemoryOperation::wait32(&word, 0, 7, Compare::Geq)?,
    ///     MemoryOperation::write32(&word, 4, 1)?,
    /// ])?;
    /// assert!(!waiter.is_idle()?);
    /// writer.batch(&[MemoryOperation::write32(&word, 0, 8)?])?;
    /// waiter.synchronize()?;
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::MemoryOperations`], [`Error::Foreign`], [`Error::Abandoned`].
    pub fn batch(&self, operations: &[MemoryOperation]) -> Result<(), Error> {
        if operations.is_empty() {
            return Ok(());
        }
        let held: Vec<Held> = operations
            .iter()
            .filter_map(|operation| operation.held.clone())
            .collect();
        let steps: Vec<Step> = operations.iter().map(|operation| operation.step).collect();
        self.enqueue(&held, Work::Operations(&steps))
    }

    /// Marks the work put in so far by an event.
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

    /// Makes what is put in from now on wait for an event's latest record; an event never recorded is done.
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

    /// Whether all work put in is done.
    ///
    /// # Errors
    ///
    /// [`Error::Synchronize`], [`Error::Abandoned`].
    pub fn is_idle(&self) -> Result<bool, Error> {
        self.gpu.backend().is_idle(self.handle)
    }

    /// Waits until the work put in so far is done, however long it takes.
    ///
    /// # Errors
    ///
    /// [`Error::Synchronize`] if some of it failed (on a real GPU the context is then lost), [`Error::Abandoned`].
    pub fn synchronize(&self) -> Result<(), Error> {
        let held = std::mem::take(&mut *self.lock());
        let outcome = self.gpu.backend().synchronize(self.handle);
        if outcome.is_err() {
            self.lock().extend(held);
        }
        outcome
    }

    /// [`Self::synchronize`] with an end. The stream is looked at again and again, first without a pause.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`], with what is known of what the stream waits for; as [`Self::synchronize`].
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

    /// Drops the stream, and says whether all its work was done.
    ///
    /// # Errors
    ///
    /// [`Error::Abandoned`] with what a simulated stream waited for; [`Error::Timeout`] of a real one that still runs: then the
    /// memory it uses stays allocated for good.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn enqueue(&self, held: &[Held], work: Work<'_>) -> Result<(), Error> {
        self.check_world(held)?;
        // Locked until the work is in: a synchronisation that takes what is held must come after the work that needs it.
        let mut holding = self.lock();
        for held in held {
            holding.entry(held.key()).or_insert_with(|| held.clone());
        }
        // SAFETY: what the work names is kept by `holding` until a synchronisation after it, or the stream's end.
        unsafe { self.gpu.backend().enqueue(self.handle, work) }
    }

    /// What is simulated and what is real do not mix.
    fn check_world(&self, held: &[Held]) -> Result<(), Error> {
        if held
            .iter()
            .any(|held| held.gpu().is_sim() != self.gpu.is_sim())
        {
            return Err(Error::Foreign("memory"));
        }
        Ok(())
    }

    /// Puts work in and waits for it.
    ///
    /// # Safety
    ///
    /// What the work names besides `held` is valid until this returns.
    unsafe fn enqueue_now(&self, held: &[Held], work: Work<'_>) -> Result<(), Error> {
        let entered = self.enqueue(held, work);
        // Also after a refusal: a part of it may have begun.
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
                // A leak is harmless; memory freed under a running copy is not.
                std::mem::forget((held, self.gpu.clone()));
                Err(error)
            }
        }
    }

    /// The map is whole at every moment, so a panic elsewhere leaves nothing half-done in it.
    fn lock(&self) -> MutexGuard<'_, Holding> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.end();
    }
}
