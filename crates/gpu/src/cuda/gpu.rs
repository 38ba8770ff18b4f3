//! A GPU through its primary context, which is current only during calls.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gdr_sys::cuda as sys;
use gdr_sys::process::Process;

use super::context::{Entered, Relaxed};
use super::driver::{Answer, Driver, call, ready};
use super::kernels::Kernels;
use crate::backend::{
    Backend, Block, Context, Destroyed, EventHandle, HostBlock, Peer, Registration, StreamHandle,
    Work,
};
use crate::{Allocation, Device, DevicePtr, Error, Schedule};

/// Timeout for a dropped stream's work.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A GPU and its retained primary context.
pub(crate) struct CudaGpu {
    pub(super) driver: Driver,
    pub(super) raw: sys::Device,
    device: Device,
    context: sys::Context,
    /// The program's own context, neither retained nor released.
    is_borrowed: bool,
    /// CUDA does not survive a fork: in a child all handles are invalid and must not be released.
    process: Process,
    pub(super) lazy: Mutex<Lazy>,
}

/// Created at first use and released with the context.
#[derive(Default)]
pub(super) struct Lazy {
    pub kernels: Option<Kernels>,
    /// For pool allocations, which are stream-ordered.
    pub stream: Option<sys::Stream>,
    pub exportable_pool: Option<sys::MemoryPool>,
}

/// The GPU's context, current on this thread.
pub(super) struct Current {
    _entered: Entered,
    _relaxed: Relaxed,
}

impl CudaGpu {
    pub(crate) fn open(ordinal: u32, schedule: Schedule) -> Result<Self, Error> {
        let driver = Driver::open()?;
        let device = Device::read(driver, ordinal)?;
        let failed = |source| Error::Context { ordinal, source };
        let raw = driver.device(ordinal).map_err(failed)?;
        let _relaxed = Relaxed::enter(driver);
        let flags = match schedule {
            Schedule::Auto => None,
            Schedule::Spin => Some(sys::CTX_SCHED_SPIN),
            Schedule::Yield => Some(sys::CTX_SCHED_YIELD),
            Schedule::Blocking => Some(sys::CTX_SCHED_BLOCKING_SYNC),
        };
        if let Some(flags) = flags {
            let set = driver.set_primary_flags(raw, flags);
            set.map_err(|source| Error::Schedule { ordinal, source })?;
        }
        let context = driver.retain_primary(raw).map_err(failed)?;
        Ok(Self {
            driver,
            raw,
            device,
            context,
            is_borrowed: false,
            process: Process::current(),
            lazy: Mutex::default(),
        })
    }

    /// The calling thread's current context. The program owns it and may destroy it; then calls
    /// here fail.
    pub(crate) fn current() -> Result<Self, Error> {
        let driver = Driver::open()?;
        let raw = driver.current_device().map_err(Error::NoCurrentContext)?;
        let context = driver.current().map_err(Error::NoCurrentContext)?;
        // A device's handle is its number.
        let device = Device::read(driver, u32::try_from(raw.0).unwrap_or(u32::MAX))?;
        Ok(Self {
            driver,
            raw,
            device,
            context,
            is_borrowed: true,
            process: Process::current(),
            lazy: Mutex::default(),
        })
    }

    /// Makes the context current until the result is dropped.
    pub(super) fn enter(&self) -> Result<Current, Error> {
        let relaxed = Relaxed::enter(self.driver);
        let entered = Entered::push(self.driver, self.context)
            .map_err(|source| Error::Context { ordinal: self.device.ordinal, source })?;
        Ok(Current { _entered: entered, _relaxed: relaxed })
    }

    /// Poisoning is ignored: the state is always consistent.
    pub(super) fn lazy(&self) -> MutexGuard<'_, Lazy> {
        self.lazy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if this process created the handles of this GPU.
    pub(super) fn is_ours(&self) -> bool {
        self.process == Process::current()
    }

    fn context_failed(&self) -> impl Fn(crate::Failure) -> Error {
        let ordinal = self.device.ordinal;
        move |source| Error::Context { ordinal, source }
    }
}

// SAFETY: the driver accesses only the given memory, in stream order; `synchronize`, and a
// `destroy_stream` that found the stream idle, return after that. A failed `synchronize` means a
// lost context, whose work has ended.
unsafe impl Backend for CudaGpu {
    fn device(&self) -> &Device {
        &self.device
    }

    fn context(&self) -> Context {
        Context(self.context.0.addr() as u64)
    }

    fn make_current(&self) -> Result<Box<dyn Any>, Error> {
        Ok(Box::new(self.enter()?))
    }

    fn driver_version(&self) -> Result<i32, Error> {
        self.driver.version().map_err(Error::Initialise)
    }

    fn load_kernels(&self) -> Result<(), Error> {
        let _current = self.enter()?;
        self.kernels("ping_pong").map(|_| ())
    }

    fn memory_info(&self) -> Result<(u64, u64), Error> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        call!(self.driver, cuMemGetInfo(&mut free, &mut total)).map_err(self.context_failed())?;
        Ok((free as u64, total as u64))
    }

    fn flush_remote_writes(&self, to_all_devices: bool) -> Result<(), Error> {
        let _current = self.enter()?;
        let scope = if to_all_devices {
            sys::FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES
        } else {
            sys::FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER
        };
        let target = sys::FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        call!(self.driver, cuFlushGPUDirectRDMAWrites(target, scope)).map_err(Error::Synchronize)
    }

    fn can_access(&self, other: Peer) -> Result<bool, Error> {
        self.reaches(other)
    }

    fn enable_access(&self, other: Peer) -> Result<bool, Error> {
        let _current = self.enter()?;
        self.reach(other)
    }

    fn disable_access(&self, other: Peer) {
        if self.is_ours()
            && let Ok(_current) = self.enter()
        {
            // As `free_host`: freed with a lost context.
            let _ = call!(self.driver, cuCtxDisablePeerAccess(raw_context(other.context)));
        }
    }

    fn allocate(&self, kind: Allocation, bytes: usize) -> Result<Block, Error> {
        let _current = self.enter()?;
        self.take(kind, bytes).map_err(|source| Error::Allocate { kind, bytes, source })
    }

    fn free(&self, block: Block) -> Result<(), Error> {
        if !self.is_ours() {
            return Ok(());
        }
        let _current = self.enter()?;
        self.give_back(block).map_err(|source| Error::Free { address: block.address, source })
    }

    fn allocate_host(&self, bytes: usize, write_combined: bool) -> Result<HostBlock, Error> {
        let _current = self.enter()?;
        self.take_host(bytes, write_combined).map_err(|source| Error::Pin { bytes, source })
    }

    fn free_host(&self, block: HostBlock) {
        if self.is_ours()
            && let Ok(_current) = self.enter()
        {
            // Freed with a lost context.
            let _ = call!(self.driver, cuMemFreeHost(block.start.as_ptr().cast()));
        }
    }

    unsafe fn register(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        how: Registration,
    ) -> Result<DevicePtr, Error> {
        let _current = self.enter()?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.register_host(start, bytes, how) }.map_err(|source| Error::Register {
            address: start.as_ptr().addr(),
            bytes,
            source,
        })
    }

    fn unregister(&self, start: NonNull<u8>) {
        if self.is_ours()
            && let Ok(_current) = self.enter()
        {
            // As `free_host`.
            let _ = call!(self.driver, cuMemHostUnregister(start.as_ptr().cast()));
        }
    }

    fn host_address(&self, start: NonNull<u8>) -> Result<DevicePtr, Error> {
        let _current = self.enter()?;
        self.device_address(start)
            .map_err(|source| Error::HostAddress { address: start.as_ptr().addr(), source })
    }

    fn create_stream(&self) -> Result<StreamHandle, Error> {
        let _current = self.enter()?;
        let stream = self.driver.create_stream().map_err(Error::Stream)?;
        Ok(StreamHandle(stream.0.addr() as u64))
    }

    fn destroy_stream(&self, stream: StreamHandle) -> Destroyed {
        if !self.is_ours() {
            return Destroyed::Finished;
        }
        let start = Instant::now();
        let unfinished = loop {
            match self.is_idle(stream) {
                // A failure means that the context and its work are lost.
                Ok(true) | Err(_) => break None,
                Ok(false) if start.elapsed() >= TIMEOUT => {
                    break Some(Error::Timeout {
                        waited: start.elapsed(),
                        state: self.state(stream),
                    });
                }
                Ok(false) => std::thread::sleep(Duration::from_micros(100)),
            }
        };
        if let Ok(_current) = self.enter() {
            // The driver finishes the remaining work.
            let _ = self.driver.destroy_stream(raw_stream(stream));
        }
        match unfinished {
            None => Destroyed::Finished,
            Some(error) => Destroyed::StillRunning(error),
        }
    }

    fn is_idle(&self, stream: StreamHandle) -> Result<bool, Error> {
        let _current = self.enter()?;
        self.driver.query_stream(raw_stream(stream)).map_err(Error::Synchronize)
    }

    fn state(&self, _stream: StreamHandle) -> String {
        "CUDA does not report what it waits for".to_owned()
    }

    fn synchronize(&self, stream: StreamHandle) -> Result<(), Error> {
        let _current = self.enter()?;
        self.driver.synchronize_stream(raw_stream(stream)).map_err(Error::Synchronize)
    }

    unsafe fn enqueue(&self, stream: StreamHandle, work: Work<'_>) -> Result<(), Error> {
        let _current = self.enter()?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.put(raw_stream(stream), work) }
    }

    fn create_event(&self) -> Result<EventHandle, Error> {
        let _current = self.enter()?;
        let mut out = sys::Event::NULL;
        call!(self.driver, cuEventCreate(&mut out, 0)).map_err(Error::Event)?;
        Ok(EventHandle(out.0.addr() as u64))
    }

    fn destroy_event(&self, event: EventHandle) {
        if self.is_ours()
            && let Ok(_current) = self.enter()
        {
            // As `free_host`; the driver keeps the event until waiting work is done.
            let _ = call!(self.driver, cuEventDestroy(raw_event(event)));
        }
    }

    fn event_is_done(&self, event: EventHandle) -> Result<bool, Error> {
        let _current = self.enter()?;
        ready(call!(self.driver, cuEventQuery(raw_event(event)))).map_err(Error::Event)
    }

    fn synchronize_event(&self, event: EventHandle) -> Result<(), Error> {
        let _current = self.enter()?;
        call!(self.driver, cuEventSynchronize(raw_event(event))).map_err(Error::Event)
    }

    fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Duration, Error> {
        let _current = self.enter()?;
        let mut milliseconds = 0.0;
        let answer: Answer<()> = call!(
            self.driver,
            cuEventElapsedTime(&mut milliseconds, raw_event(from), raw_event(to))
        );
        answer.map_err(Error::Event)?;
        // Negative if the events happened in reverse order.
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for CudaGpu {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        if let Ok(_current) = self.enter() {
            let lazy = std::mem::take(&mut *self.lazy());
            // Errors are ignored: the context is already broken.
            if let Some(pool) = lazy.exportable_pool {
                let _ = call!(self.driver, cuMemPoolDestroy(pool));
            }
            if let Some(stream) = lazy.stream {
                let _ = self.driver.destroy_stream(stream);
            }
            if let Some(kernels) = lazy.kernels {
                let _ = call!(self.driver, cuModuleUnload(kernels.module));
            }
        }
        if !self.is_borrowed {
            let _ = self.driver.release_primary(self.raw);
        }
    }
}

impl fmt::Debug for CudaGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaGpu").field("device", &self.device).finish_non_exhaustive()
    }
}

fn raw_stream(stream: StreamHandle) -> sys::Stream {
    sys::Stream(std::ptr::without_provenance_mut(stream.0 as usize))
}

pub(super) fn raw_context(context: Context) -> sys::Context {
    sys::Context(std::ptr::without_provenance_mut(context.0 as usize))
}

pub(super) fn raw_event(event: EventHandle) -> sys::Event {
    sys::Event(std::ptr::without_provenance_mut(event.0 as usize))
}
