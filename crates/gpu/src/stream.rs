//! Streams: work for a GPU, done in order.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{Destroyed, Kernel, StreamHandle, Work};
use crate::memory::{Held, Memory, aligned};
use crate::operation::Step;
use crate::pattern::Mismatches;
use crate::{Allocation, DeviceMemory, Error, Event, Gpu, HostMemory, MemoryOperation, Pattern};

/// How long the ping-pong kernel waits for one flag before it gives up: the GPU is not to be hung by a partner who died.
const PING_PONG_PATIENCE: Duration = Duration::from_secs(10);

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
    held: Mutex<HashMap<usize, Held>>,
    closed: bool,
}

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
        let address = to.range(offset, from.len())?;
        let work = Work::HostToDevice {
            to: address,
            from: from.as_ptr(),
            bytes: from.len(),
        };
        // SAFETY: `from` is borrowed until this returns, which is after the stream is done with it or has given up on it.
        unsafe { self.enqueue_now(&[to.held()], work) }
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
        };
        // SAFETY: `to` is exclusively borrowed until this returns, which is after the stream is done with it or gave up.
        unsafe { self.enqueue_now(&[from.held()], work) }
    }

    /// Starts a copy of `bytes` bytes from host memory to device memory.
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
        let work = Work::HostToDevice {
            to: to.range(to_offset, bytes)?,
            from: from.at(from_offset, bytes)?,
            bytes,
        };
        self.enqueue(&[to.held(), from.held()], work)
    }

    /// Starts a copy of `bytes` bytes from device memory to host memory.
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
        let work = Work::DeviceToHost {
            to: to.at(to_offset, bytes)?,
            from: from.range(from_offset, bytes)?,
            bytes,
        };
        self.enqueue(&[to.held(), from.held()], work)
    }

    /// Starts a copy of `bytes` bytes from device memory to device memory; also of two GPUs, where CUDA finds a way.
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
        let work = Work::DeviceToDevice {
            to: to.range(to_offset, bytes)?,
            from: from.range(from_offset, bytes)?,
            bytes,
        };
        self.enqueue(&[to.held(), from.held()], work)
    }

    /// Starts to set `bytes` bytes to `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Fill`], [`Error::Abandoned`].
    pub fn fill(&self, memory: &DeviceMemory, offset: usize, bytes: usize, value: u8) -> Result<(), Error> {
        let to = memory.range(offset, bytes)?;
        self.enqueue(&[memory.held()], Work::FillBytes { to, value, bytes })
    }

    /// Starts to set `words` 32-bit words to `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Fill`], [`Error::Abandoned`].
    pub fn fill_words(&self, memory: &DeviceMemory, offset: usize, words: usize, value: u32) -> Result<(), Error> {
        let to = memory.range(offset, words.saturating_mul(4))?;
        aligned(to.get(), 4)?;
        self.enqueue(&[memory.held()], Work::FillWords { to, value, words })
    }

    /// Starts a kernel that writes the pattern from its word `first` on to `bytes` bytes. Offset and length are multiples of 4.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Misaligned`], [`Error::Kernel`], [`Error::Abandoned`].
    pub fn fill_pattern(
        &self,
        memory: &DeviceMemory,
        offset: usize,
        bytes: usize,
        pattern: Pattern,
        first: u64,
    ) -> Result<(), Error> {
        let to = memory.range(offset, bytes)?;
        aligned(to.get(), 4)?;
        aligned(bytes as u64, 4)?;
        let kernel = Kernel::FillPattern {
            to,
            words: bytes as u64 / 4,
            pattern,
            first,
        };
        self.enqueue(&[memory.held()], Work::Launch(kernel))
    }

    /// Compares `bytes` bytes with the pattern from its word `first` on, by the GPU's own eyes; done when it returns.
    ///
    /// # Errors
    ///
    /// As [`Self::fill_pattern`], and [`Error::Allocate`] for the 16 bytes of the result.
    pub fn check_pattern(
        &self,
        memory: &DeviceMemory,
        offset: usize,
        bytes: usize,
        pattern: Pattern,
        first: u64,
    ) -> Result<Mismatches, Error> {
        let from = memory.range(offset, bytes)?;
        aligned(from.get(), 4)?;
        aligned(bytes as u64, 4)?;
        let result = self.gpu.allocate(Allocation::Malloc, 16)?;
        let mut found = [0; 16];
        found[8..].copy_from_slice(&u64::MAX.to_le_bytes());
        self.write(&result, 0, &found)?;
        let kernel = Kernel::CheckPattern {
            from,
            words: bytes as u64 / 4,
            pattern,
            first,
            result: result.address(),
        };
        self.enqueue(&[memory.held(), result.held()], Work::Launch(kernel))?;
        self.read(&result, 0, &mut found)?;
        let [words, position] = [&found[..8], &found[8..]].map(|half| {
            let mut word = [0; 8];
            word.copy_from_slice(half);
            u64::from_le_bytes(word)
        });
        Ok(Mismatches {
            words,
            first: (words != 0).then_some(position),
        })
    }

    /// Starts the ping-pong kernel: for i = 1 to `rounds` it waits until the first 32-bit word of `flag` is i and then writes i
    /// to the first word of `reply`. A flag of `u32::MAX`, or ten seconds without the one awaited, ends it early; the reply is
    /// `u32::MAX` then.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Kernel`], [`Error::Abandoned`].
    pub fn ping_pong(&self, flag: &DeviceMemory, reply: &HostMemory, rounds: u32) -> Result<(), Error> {
        let kernel = Kernel::PingPong {
            flag: flag.word(0, 4)?,
            reply: reply.word(0, 4)?,
            rounds,
            limit: PING_PONG_PATIENCE,
        };
        self.enqueue(&[flag.held(), reply.held()], Work::Launch(kernel))
    }

    /// Puts a batch of memory operations in, which are done in order. More than 255 go to the driver in several calls: what
    /// other threads put into the stream meanwhile comes before or after the batch, never in between.
    ///
    /// A wait blocks this stream alone, but for as long as it takes: use [`Self::synchronize_within`], and mind that device
    /// work of the same process which synchronises implicitly (freeing memory, loading code) waits with it.
    ///
    /// ```
    /// use gpu::{Allocation, Compare, Gpu, MemoryOperation};
    ///
    /// let gpu = Gpu::sim();
    /// let (waiter, writer) = (gpu.stream()?, gpu.stream()?);
    /// let word = gpu.allocate(Allocation::Malloc, 8)?;
    /// waiter.fill(&word, 0, 8, 0)?;
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
    pub fn synchronize_within(&self, patience: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            if self.is_idle()? {
                return self.synchronize();
            }
            let waited = start.elapsed();
            if waited >= patience {
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
        if held.iter().any(|held| held.gpu().is_sim() != self.gpu.is_sim()) {
            return Err(Error::Foreign("memory"));
        }
        // Locked until the work is in: a synchronisation that takes what is held must come after the work that needs it.
        let mut holding = self.lock();
        for held in held {
            holding.entry(held.key()).or_insert_with(|| held.clone());
        }
        // SAFETY: what the work names is kept by `holding` until a synchronisation after it, or the stream's end.
        unsafe { self.gpu.backend().enqueue(self.handle, work) }
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
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.end();
    }
}
