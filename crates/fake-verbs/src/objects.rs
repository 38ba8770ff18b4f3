//! All objects of the process, under one lock, keyed by the addresses that programs use, so that an invalid pointer is detected
//! without dereferencing it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ibverbs_sys::{
    ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_mr, ibv_pd, ibv_qp,
    ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, verbs_context,
};
use rustix::event::EventfdFlags;

use crate::abi::{Address, AsyncEvent, Completion};
use crate::answer::Errno;
use crate::efa::Draft;
use crate::maps::Mapping;
use crate::transport::Work;

/// A C structure that programs hold a pointer to; freed on drop.
pub struct Shared<T>(NonNull<T>);

// SAFETY: a C structure that any thread may use; its members change under the lock of [`OBJECTS`].
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    pub fn pointer(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Its key in the tables.
    pub fn address(&self) -> usize {
        self.0.addr().get()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: `new` took it out of a box, and only this puts it back.
        drop(unsafe { Box::from_raw(self.pointer()) });
    }
}

/// An eventfd that counts pending events.
#[derive(Clone)]
pub struct EventCounter(Arc<OwnedFd>);

impl EventCounter {
    pub fn new() -> Result<Self, Errno> {
        let file = rustix::event::eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC);
        file.map(|file| Self(Arc::new(file))).map_err(errno)
    }

    pub fn signal(&self) {
        // Cannot overflow: events take memory, and the counter has 64 bits.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for an event, unless the program has made the file non-blocking.
    pub fn wait(&self) -> Result<(), Errno> {
        rustix::io::read(&*self.0, &mut [0; 8]).map(drop).map_err(errno)
    }

    /// Removes one pending event, if there is one.
    pub fn consume(&self) {
        let mut files = [rustix::event::PollFd::new(&*self.0, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut files, Some(&now)) == Ok(1) {
            let _ = self.wait();
        }
    }

    pub fn number(&self) -> i32 {
        use std::os::fd::AsRawFd as _;
        self.0.as_raw_fd()
    }
}

pub fn errno(error: rustix::io::Errno) -> Errno {
    error.raw_os_error()
}

/// An event of a context, and the address of its subject.
pub struct QueuedEvent {
    pub event: AsyncEvent,
    pub about: Option<usize>,
}

// SAFETY: the pointer in it is for programs only; this library uses the address.
unsafe impl Send for QueuedEvent {}

pub struct Context {
    /// The extended context, of which programs hold the last member.
    pub raw: Shared<verbs_context>,
    pub device: usize,
    pub counter: EventCounter,
    pub events: VecDeque<QueuedEvent>,
}

impl Context {
    pub fn pointer(&self) -> *mut ibv_context {
        let whole = self.raw.pointer();
        // SAFETY: alive as long as this value; no reference is made.
        unsafe { &raw mut (*whole).context }
    }
}

pub struct Domain {
    pub raw: Shared<ibv_pd>,
    pub context: usize,
    pub device: usize,
}

pub struct Region {
    pub raw: Shared<ibv_mr>,
    pub domain: usize,
    pub device: usize,
    /// Its address in this process.
    pub start: usize,
    /// Its address in work requests.
    pub iova: u64,
    pub bytes: usize,
    pub access: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub is_device_memory: bool,
    /// Bytes that count against `memlock`.
    pub locked: u64,
    pub _mapping: Option<Mapping>,
}

pub struct Channel {
    pub raw: Shared<ibv_comp_channel>,
    pub context: usize,
    pub counter: EventCounter,
    /// Completion queues with a pending event.
    pub events: VecDeque<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Send,
    Receive,
}

/// A completion that was not polled yet.
pub struct Entry {
    pub completion: Completion,
    pub pair: usize,
    pub side: Side,
    /// Position of its request in the send or receive queue, from 1.
    pub through: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Armed {
    Any,
    Solicited,
}

pub struct Queue {
    pub raw: Shared<ibv_cq>,
    pub context: usize,
    pub channel: Option<usize>,
    pub room: usize,
    pub entries: VecDeque<Entry>,
    pub armed: Option<Armed>,
    pub overrun: bool,
    /// Events that the program has read, and those that it has acknowledged.
    pub taken: u32,
    pub acknowledged: u32,
}

/// An SGE of a work request.
#[derive(Clone, Copy)]
pub struct Sge {
    pub address: u64,
    pub bytes: u32,
    pub lkey: u32,
}

pub struct Receive {
    pub wr_id: u64,
    pub sges: Vec<Sge>,
    pub through: u64,
}

pub struct QueuePair {
    /// All are extended ones; only those of EFA have functions.
    pub raw: Shared<ibv_qp_ex>,
    /// Requests between `wr_start` and `wr_complete`, or what failed.
    pub drafts: Result<Vec<Draft>, Errno>,
    pub context: usize,
    pub device: usize,
    pub domain: usize,
    pub number: u32,
    pub kind: u32,
    pub send_queue: usize,
    pub receive_queue: usize,
    pub signals_all: bool,
    pub room: ibv_qp_cap,
    /// Includes its state.
    pub now: ibv_qp_attr,
    pub sends: VecDeque<Work>,
    pub receives: VecDeque<Receive>,
    /// Requests posted per queue, and those whose slots are free again.
    pub sent: u64,
    pub send_freed: u64,
    pub received: u64,
    pub receive_freed: u64,
    /// Asynchronous events that the program has read and not acknowledged.
    pub unacknowledged: u32,
}

pub struct Handle {
    pub _raw: Shared<Address>,
    pub domain: usize,
    pub to: ibv_ah_attr,
}

#[derive(Default)]
pub struct PortState {
    pub requests: u64,
    pub is_down: bool,
}

pub struct Objects {
    pub contexts: BTreeMap<usize, Context>,
    pub domains: BTreeMap<usize, Domain>,
    pub regions: BTreeMap<usize, Region>,
    /// The regions by lkey and rkey.
    pub keys: BTreeMap<u32, usize>,
    pub channels: BTreeMap<usize, Channel>,
    pub queues: BTreeMap<usize, Queue>,
    pub pairs: BTreeMap<usize, QueuePair>,
    pub handles: BTreeMap<usize, Handle>,
    pub ports: BTreeMap<(usize, u8), PortState>,
    /// Requests that each rule of the machine file has counted.
    pub counts: BTreeMap<(Option<usize>, &'static str, usize), u64>,
    /// The last queue pair number of each device.
    pub numbers: BTreeMap<usize, u32>,
    handle: u32,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects {
    contexts: BTreeMap::new(),
    domains: BTreeMap::new(),
    regions: BTreeMap::new(),
    keys: BTreeMap::new(),
    channels: BTreeMap::new(),
    queues: BTreeMap::new(),
    pairs: BTreeMap::new(),
    handles: BTreeMap::new(),
    ports: BTreeMap::new(),
    counts: BTreeMap::new(),
    numbers: BTreeMap::new(),
    handle: 0,
});

/// Signalled on each acknowledgement.
pub static ACKNOWLEDGED: Condvar = Condvar::new();

/// Locks the tables. A panic of another thread is ignored: its test fails by itself.
pub fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for an acknowledgement.
pub fn until_acknowledged(objects: MutexGuard<'static, Objects>) -> MutexGuard<'static, Objects> {
    ACKNOWLEDGED.wait(objects).unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// A new handle.
    pub fn handle(&mut self) -> u32 {
        self.handle += 1;
        self.handle
    }

    pub fn context(&self, context: *mut ibv_context) -> Result<&Context, Errno> {
        self.contexts.get(&context.addr()).ok_or(libc::EINVAL)
    }

    pub fn domain(&self, pd: *mut ibv_pd) -> Result<&Domain, Errno> {
        self.domains.get(&pd.addr()).ok_or(libc::EINVAL)
    }

    pub fn pair(&mut self, qp: *mut ibv_qp) -> Result<&mut QueuePair, Errno> {
        self.pairs.get_mut(&qp.addr()).ok_or(libc::EINVAL)
    }

    pub fn queue(&mut self, cq: *mut ibv_cq) -> Result<&mut Queue, Errno> {
        self.queues.get_mut(&cq.addr()).ok_or(libc::EINVAL)
    }
}

/// The bytes of a GID.
pub fn raw(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: both members of the union are 16 plain bytes.
    unsafe { gid.raw }
}
