//! The simulated GPU itself: its streams and events by number, and the way from what is asked to memory and threads.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gdr_sys::cuda::CuResult;
use rustix::mm::{MapFlags, ProtFlags};

use super::event::{Record, State};
use super::kernels::SimKernel;
use super::queue::{Item, Operation, Queue};
use super::space::{self, Span};
use crate::backend::{Backend, Block, Destroyed, EventHandle, HostBlock, Kernel, Registration, StreamHandle, Work};
use crate::operation::Step;
use crate::{Allocation, Device, DevicePtr, Error, Failure};

/// As much memory as a simulated GPU has. It is taken from the host only as it is touched.
const MEMORY: u64 = 64 << 30;

/// A simulated GPU.
pub(crate) struct SimGpu {
    device: Device,
    streams: Mutex<HashMap<u64, SimStream>>,
}

struct SimStream {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// The latest record of every event of the process: an event of one GPU may be waited for by a stream of another.
static EVENTS: Mutex<Option<HashMap<u64, Option<Arc<Record>>>>> = Mutex::new(None);

impl SimGpu {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let ordinal = COUNT.fetch_add(1, Ordering::Relaxed);
        let device = Device {
            ordinal,
            name: "simulated GPU".to_owned(),
            uuid: format!("SIM-{ordinal:08x}"),
            pci: None,
            memory: MEMORY,
            simulated: true,
        };
        Self {
            device,
            streams: Mutex::default(),
        }
    }

    fn queue(&self, stream: StreamHandle) -> Result<Arc<Queue>, Error> {
        let streams = self.streams();
        let stream = streams
            .get(&stream.0)
            .ok_or_else(|| Error::Stream(refused("stream", CuResult::INVALID_HANDLE)))?;
        Ok(Arc::clone(&stream.queue))
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u64, SimStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: a stream's thread touches memory only as its items say. `synchronize` returns after they are done, or after an
// abandonment, from which on the thread does nothing; `destroy_stream` joins the thread.
unsafe impl Backend for SimGpu {
    fn device(&self) -> &Device {
        &self.device
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

    fn allocate(&self, kind: Allocation, bytes: usize) -> Result<Block, Error> {
        if bytes as u64 > MEMORY - space::used(self.device.ordinal).min(MEMORY) {
            let source = refused("allocate", CuResult::OUT_OF_MEMORY);
            return Err(Error::Allocate { kind, bytes, source });
        }
        let address = space::allocate(kind, bytes, self.device.ordinal)?;
        Ok(Block {
            address,
            bytes,
            reserved: bytes,
            kind,
        })
    }

    fn free(&self, block: Block) -> Result<(), Error> {
        if space::free(block.address) {
            return Ok(());
        }
        Err(Error::Free {
            address: block.address,
            source: refused("free", CuResult::INVALID_VALUE),
        })
    }

    fn allocate_host(&self, bytes: usize, _write_combined: bool) -> Result<HostBlock, Error> {
        let failed = |errno: rustix::io::Errno| Error::Pages {
            bytes,
            source: errno.into(),
        };
        let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping where the kernel likes replaces nothing.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, read_write, private) };
        let start =
            NonNull::new(start.map_err(failed)?.cast::<u8>()).ok_or_else(|| failed(rustix::io::Errno::NOMEM))?;
        let device = expose(start, bytes);
        Ok(HostBlock { start, device, bytes })
    }

    fn free_host(&self, block: HostBlock) {
        space::remove_host(block.start);
        // SAFETY: the mapping `allocate_host` made, which nobody holds any more; only other arguments could fail.
        let _ = unsafe { rustix::mm::munmap(block.start.as_ptr().cast(), block.bytes) };
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize, _how: Registration) -> Result<DevicePtr, Error> {
        Ok(expose(start, bytes))
    }

    fn unregister(&self, start: NonNull<u8>) {
        space::remove_host(start);
    }

    fn create_stream(&self) -> Result<StreamHandle, Error> {
        let handle = number();
        let queue = Arc::new(Queue::default());
        let served = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name(format!("sim-stream-{handle}"))
            .spawn(move || served.serve())
            .map_err(|source| Error::Simulation {
                what: "start a stream's thread",
                source,
            })?;
        self.streams().insert(handle, SimStream { queue, thread });
        Ok(StreamHandle(handle))
    }

    fn destroy_stream(&self, stream: StreamHandle) -> Destroyed {
        let Some(stream) = self.streams().remove(&stream.0) else {
            return Destroyed::Finished;
        };
        stream.queue.close();
        // The thread does not panic; had it, its work would be over too.
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
        self.queue(stream)
            .map_or_else(|error| error.to_string(), |queue| queue.describe())
    }

    fn synchronize(&self, stream: StreamHandle) -> Result<(), Error> {
        self.queue(stream)?.synchronize().map_err(abandoned)
    }

    unsafe fn enqueue(&self, stream: StreamHandle, work: Work<'_>) -> Result<(), Error> {
        let queue = self.queue(stream)?;
        let push = |item| queue.push(item).map_err(abandoned);
        match work {
            // An event's record is replaced only once the work is in, so that nobody waits for one that was refused.
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
            work => push(item(work)?),
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
            None | Some(State::Done(_)) => Ok(true),
            Some(State::Pending) => Ok(false),
            Some(State::Abandoned(why)) => Err(abandoned(why)),
        }
    }

    fn synchronize_event(&self, event: EventHandle) -> Result<(), Error> {
        match latest(event)?.map(|record| record.wait()) {
            Some(State::Abandoned(why)) => Err(abandoned(why)),
            _ => Ok(()),
        }
    }

    fn elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Duration, Error> {
        match (
            latest(from)?.map(|record| record.state()),
            latest(to)?.map(|record| record.state()),
        ) {
            (Some(State::Done(from)), Some(State::Done(to))) => Ok(to.saturating_duration_since(from)),
            (None, _) | (_, None) => Err(Error::Event(refused("elapsed", CuResult::INVALID_HANDLE))),
            _ => Err(Error::Event(refused("elapsed", CuResult::NOT_READY))),
        }
    }
}

impl fmt::Debug for SimGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimGpu")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

/// Finds the memory that work names, or refuses it as the driver does.
fn item(work: Work<'_>) -> Result<Item, Error> {
    let copy = |address, bytes| move |source| Error::Copy { address, bytes, source };
    let fill = |address, bytes| move |source| Error::Fill { address, bytes, source };
    Ok(match work {
        Work::HostToDevice { to, from, bytes } => Item::Copy {
            to: find(to, bytes).map_err(copy(to, bytes))?,
            from: Span::host(from.cast_mut()),
            bytes,
        },
        Work::DeviceToHost { to, from, bytes } => Item::Copy {
            from: find(from, bytes).map_err(copy(from, bytes))?,
            to: Span::host(to),
            bytes,
        },
        Work::DeviceToDevice { to, from, bytes } => Item::Copy {
            to: find(to, bytes).map_err(copy(to, bytes))?,
            from: find(from, bytes).map_err(copy(from, bytes))?,
            bytes,
        },
        Work::FillBytes { to, value, bytes } => Item::FillBytes {
            to: find(to, bytes).map_err(fill(to, bytes))?,
            value,
            bytes,
        },
        Work::FillWords { to, value, words } => Item::FillWords {
            to: find(to, words * 4).map_err(fill(to, words * 4))?,
            value,
            words,
        },
        Work::Operations(steps) => Item::Operations(
            steps
                .iter()
                .map(|&step| operation(step))
                .collect::<Result<_, _>>()
                .map_err(|source| Error::MemoryOperations {
                    count: steps.len(),
                    source,
                })?,
        ),
        Work::Launch(kernel) => Item::Launch(sim_kernel(kernel).map_err(|source| Error::Kernel {
            name: kernel.name(),
            source,
        })?),
        // The caller has them.
        Work::Record(_) | Work::Wait(_) => Item::Operations(Vec::new()),
    })
}

fn operation(step: Step) -> Result<Operation, Failure> {
    let word = |address: DevicePtr, width: usize| {
        if address.get().is_multiple_of(width as u64) {
            find(address, width)
        } else {
            Err(refused("memory operation", CuResult::INVALID_VALUE))
        }
    };
    Ok(match step {
        Step::Write32 { address, value } => Operation::Write32 {
            to: word(address, 4)?,
            value,
        },
        Step::Write64 { address, value } => Operation::Write64 {
            to: word(address, 8)?,
            value,
        },
        Step::Wait32 {
            address,
            value,
            compare,
            flush: _,
        } => Operation::Wait32 {
            on: word(address, 4)?,
            value,
            compare,
        },
        Step::Wait64 {
            address,
            value,
            compare,
            flush: _,
        } => Operation::Wait64 {
            on: word(address, 8)?,
            value,
            compare,
        },
        Step::Barrier | Step::FlushRemoteWrites => Operation::Fence,
    })
}

fn sim_kernel(kernel: Kernel) -> Result<SimKernel, Failure> {
    Ok(match kernel {
        Kernel::PingPong {
            flag,
            reply,
            rounds,
            limit,
        } => SimKernel::PingPong {
            flag: find(flag, 4)?,
            reply: find(reply, 4)?,
            rounds,
            limit,
        },
        Kernel::FillPattern {
            to,
            words,
            pattern,
            first,
        } => SimKernel::FillPattern {
            to: find(to, words as usize * 4)?,
            words: words as usize,
            pattern,
            first,
        },
        Kernel::CheckPattern {
            from,
            words,
            pattern,
            first,
            result,
        } => SimKernel::CheckPattern {
            from: find(from, words as usize * 4)?,
            words: words as usize,
            pattern,
            first,
            result: find(result, 16)?,
        },
    })
}

fn find(address: DevicePtr, bytes: usize) -> Result<Span, Failure> {
    space::resolve(address, bytes).ok_or_else(|| refused("address", CuResult::INVALID_VALUE))
}

fn expose(start: NonNull<u8>, bytes: usize) -> DevicePtr {
    space::add_host(start, bytes);
    DevicePtr::new(start.as_ptr().expose_provenance() as u64)
}

/// The latest record of an event; `None` before the first.
fn latest(event: EventHandle) -> Result<Option<Arc<Record>>, Error> {
    events(|events| events.get(&event.0).cloned())
        .ok_or_else(|| Error::Event(refused("event", CuResult::INVALID_HANDLE)))
}

fn events<T>(with: impl FnOnce(&mut HashMap<u64, Option<Arc<Record>>>) -> T) -> T {
    let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    with(events.get_or_insert_default())
}

/// A number nothing else of the simulation has.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn abandoned(why: Arc<str>) -> Error {
    Error::Abandoned(why.to_string())
}

/// A refusal, with the code the driver would give.
fn refused(what: &'static str, result: CuResult) -> Failure {
    Failure::Returned { function: what, result }
}
