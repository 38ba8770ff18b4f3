//! The simulated GPU: memory, and streams and events by number.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gdr_sys::cuda::CuResult;

use super::execution::{FaultInjector, Faults, Item, Queue, Record, RecordState};
use super::found::item;
use super::space;
use crate::backend::{
    Backend, Block, Context, Destroyed, EventHandle, HostBlock, Peer, Registration, StreamHandle,
    Work,
};
use crate::host::pages_failed;
use crate::pages::{map, unmap};
use crate::{Allocation, Device, DevicePtr, Error, Failure};

/// Memory size of a simulated GPU. Host memory is used only once touched.
const MEMORY: u64 = 64 << 30;

/// Timeout of a wait in a dropped stream: another stream may end it.
const GRACE: Duration = Duration::from_millis(100);

pub(crate) struct SimGpu {
    device: Device,
    injector: Option<FaultInjector>,
    streams: Mutex<HashMap<u64, SimStream>>,
}

struct SimStream {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// Latest record of every event of the process, because streams of other GPUs may wait for it.
static EVENTS: Mutex<Option<HashMap<u64, Option<Arc<Record>>>>> = Mutex::new(None);

impl SimGpu {
    pub(crate) fn new(faults: Option<Faults>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let ordinal = COUNT.fetch_add(1, Ordering::Relaxed);
        let device = Device {
            ordinal,
            name: match faults {
                None => "simulated GPU".to_owned(),
                Some(_) => "simulated GPU, faulty".to_owned(),
            },
            uuid: format!("SIM-{ordinal:08x}"),
            pci: None,
            memory: MEMORY,
            simulated: true,
        };
        Self { device, injector: faults.map(FaultInjector::new), streams: Mutex::default() }
    }

    fn queue(&self, stream: StreamHandle) -> Result<Arc<Queue>, Error> {
        let streams = self.streams();
        let stream = streams
            .get(&stream.0)
            .ok_or_else(|| Error::Stream(driver_error("stream", CuResult::INVALID_HANDLE)))?;
        Ok(Arc::clone(&stream.queue))
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u64, SimStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: a stream's thread accesses memory only for its items. `synchronize` returns after they
// are done or abandoned, and `destroy_stream` joins the thread. A late faulty write holds its
// destination.
unsafe impl Backend for SimGpu {
    fn device(&self) -> &Device {
        &self.device
    }

    fn context(&self) -> Context {
        Context(std::ptr::from_ref(self).addr() as u64)
    }

    /// Simulated GPUs have no current context.
    fn make_current(&self) -> Result<Box<dyn Any>, Error> {
        Ok(Box::new(()))
    }

    fn driver_version(&self) -> Result<i32, Error> {
        Ok(0)
    }

    fn load_kernels(&self) -> Result<(), Error> {
        Ok(())
    }

    fn memory_info(&self) -> Result<(u64, u64), Error> {
        Ok((MEMORY.saturating_sub(space::used(self.device.ordinal)), MEMORY))
    }

    fn flush_remote_writes(&self, _to_all_devices: bool) -> Result<(), Error> {
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(())
    }

    fn can_access(&self, other: Peer) -> Result<bool, Error> {
        Ok(other.simulated && other.context != self.context())
    }

    fn enable_access(&self, other: Peer) -> Result<bool, Error> {
        let result = match (other.simulated, other.context == self.context()) {
            (true, false) => return Ok(true),
            (true, true) => CuResult::INVALID_DEVICE,
            (false, _) => CuResult::PEER_ACCESS_UNSUPPORTED,
        };
        Err(Error::Peer {
            from: self.device.ordinal,
            to: other.ordinal,
            source: driver_error("cuCtxEnablePeerAccess", result),
        })
    }

    fn disable_access(&self, _other: Peer) {}

    fn allocate(&self, kind: Allocation, bytes: usize) -> Result<Block, Error> {
        if bytes as u64 > MEMORY - space::used(self.device.ordinal).min(MEMORY) {
            let source = driver_error("allocate", CuResult::OUT_OF_MEMORY);
            return Err(Error::Allocate { kind, bytes, source });
        }
        let address = space::allocate(kind, bytes, self.device.ordinal)?;
        Ok(Block { address, bytes, reserved: bytes, kind })
    }

    fn free(&self, block: Block) -> Result<(), Error> {
        if space::free(block.address) {
            return Ok(());
        }
        Err(Error::Free {
            address: block.address,
            source: driver_error("free", CuResult::INVALID_VALUE),
        })
    }

    fn allocate_host(&self, bytes: usize, _write_combined: bool) -> Result<HostBlock, Error> {
        let start = map(bytes).map_err(pages_failed(bytes))?;
        let device = expose(start, bytes);
        Ok(HostBlock { start, device, bytes })
    }

    fn free_host(&self, block: HostBlock) {
        space::remove_host(block.start);
        // SAFETY: the mapping of `allocate_host`, with no holders left.
        unsafe { unmap(block.start, block.bytes) };
    }

    unsafe fn register(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        _how: Registration,
    ) -> Result<DevicePtr, Error> {
        if space::has_host(start, bytes) {
            return Err(Error::Register {
                address: start.as_ptr().addr(),
                bytes,
                source: driver_error("register", CuResult::HOST_MEMORY_ALREADY_REGISTERED),
            });
        }
        Ok(expose(start, bytes))
    }

    fn unregister(&self, start: NonNull<u8>) {
        space::remove_host(start);
    }

    fn host_address(&self, start: NonNull<u8>) -> Result<DevicePtr, Error> {
        Ok(DevicePtr::new(start.as_ptr().addr() as u64))
    }

    fn create_stream(&self) -> Result<StreamHandle, Error> {
        let handle = number();
        let queue = Arc::new(Queue::new(Some(GRACE), || false));
        let served = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name(format!("sim-stream-{handle}"))
            .spawn(move || served.serve())
            .map_err(|source| Error::Simulation { what: "start a stream's thread", source })?;
        self.streams().insert(handle, SimStream { queue, thread });
        Ok(StreamHandle(handle))
    }

    fn destroy_stream(&self, stream: StreamHandle) -> Destroyed {
        let Some(stream) = self.streams().remove(&stream.0) else {
            return Destroyed::Finished;
        };
        stream.queue.close();
        // The thread does not panic; if it did, its work would be over too.
        let _ = stream.thread.join();
        match stream.queue.abandoned() {
            None => Destroyed::Finished,
            Some(why) => Destroyed::Abandoned(abandoned(why)),
        }
    }

    fn is_idle(&self, stream: StreamHandle) -> Result<bool, Error> {
        self.queue(stream)?.is_idle().map_err(abandoned)
    }

    fn state(&self, stream: StreamHandle) -> String {
        self.queue(stream).map_or_else(|error| error.to_string(), |queue| queue.describe())
    }

    fn synchronize(&self, stream: StreamHandle) -> Result<(), Error> {
        self.queue(stream)?.synchronize().map_err(abandoned)
    }

    unsafe fn enqueue(&self, stream: StreamHandle, work: Work<'_>) -> Result<(), Error> {
        let queue = self.queue(stream)?;
        let push = |item| queue.push(item).map_err(abandoned);
        match work {
            // The record is replaced only after the work was accepted, so that nothing waits for
            // rejected work.
            Work::Record(event) => {
                let record = Arc::new(Record::default());
                push(Item::Signal(Arc::clone(&record)))?;
                events(|events| events.insert(event.0, Some(record)));
                Ok(())
            }
            Work::Wait(event) => match latest(event)? {
                Some(record) => push(Item::Await(record)),
                None => Ok(()),
            },
            work => push(item(work, self.injector.as_ref())?),
        }
    }

    fn create_event(&self) -> Result<EventHandle, Error> {
        let handle = number();
        events(|events| events.insert(handle, None));
        Ok(EventHandle(handle))
    }

    fn destroy_event(&self, event: EventHandle) {
        events(|events| events.remove(&event.0));
    }

    fn event_is_done(&self, event: EventHandle) -> Result<bool, Error> {
        match latest(event)?.map(|record| record.state()) {
            None | Some(RecordState::Done(_)) => Ok(true),
            Some(RecordState::Pending) => Ok(false),
            Some(RecordState::Abandoned(why)) => Err(abandoned(why)),
        }
    }

    fn synchronize_event(&self, event: EventHandle) -> Result<(), Error> {
        match latest(event)?.map(|record| record.wait()) {
            Some(RecordState::Abandoned(why)) => Err(abandoned(why)),
            _ => Ok(()),
        }
    }

    fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Duration, Error> {
        match (latest(from)?.map(|record| record.state()), latest(to)?.map(|record| record.state()))
        {
            (Some(RecordState::Done(from)), Some(RecordState::Done(to))) => {
                Ok(to.saturating_duration_since(from))
            }
            (None, _) | (_, None) => {
                Err(Error::Event(driver_error("elapsed", CuResult::INVALID_HANDLE)))
            }
            _ => Err(Error::Event(driver_error("elapsed", CuResult::NOT_READY))),
        }
    }
}

impl fmt::Debug for SimGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimGpu").field("device", &self.device).finish_non_exhaustive()
    }
}

fn expose(start: NonNull<u8>, bytes: usize) -> DevicePtr {
    space::add_host(start, bytes);
    DevicePtr::new(start.as_ptr().expose_provenance() as u64)
}

/// Latest record of an event; `None` before the first.
fn latest(event: EventHandle) -> Result<Option<Arc<Record>>, Error> {
    events(|events| events.get(&event.0).cloned())
        .ok_or_else(|| Error::Event(driver_error("event", CuResult::INVALID_HANDLE)))
}

fn events<T>(with: impl FnOnce(&mut HashMap<u64, Option<Arc<Record>>>) -> T) -> T {
    let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    with(events.get_or_insert_default())
}

/// New number, unique in the simulation.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn abandoned(why: Arc<str>) -> Error {
    Error::Abandoned(why.to_string())
}

/// An error with the driver's code.
pub(super) fn driver_error(what: &'static str, result: CuResult) -> Failure {
    Failure::Returned { function: what, result }
}
