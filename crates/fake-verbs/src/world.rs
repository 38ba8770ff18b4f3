//! All that programs have made, under one lock. Objects go by the addresses that programs know them by, so a pointer to
//! nothing of ours is told from one of ours without following it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ibverbs_sys::{
    ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_mr, ibv_pd, ibv_qp,
    ibv_qp_attr, ibv_qp_cap,
};
use rustix::event::EventfdFlags;

use crate::abi::{Address, AsyncEvent, Completion};
use crate::answer::Errno;
use crate::maps::Mapping;
use crate::transport::Work;

/// A structure that programs hold a pointer to; freed when this goes.
pub struct Shared<T>(NonNull<T>);

// SAFETY: it is a structure of C, which any thread may use; what changes in it changes under the lock of [`WORLD`].
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

    /// What it goes by.
    pub fn address(&self) -> usize {
        self.0.addr().get()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: it came out of a box, in `new`, and goes back into one here alone.
        drop(unsafe { Box::from_raw(self.pointer()) });
    }
}

/// A file that is readable as often as it was rung.
#[derive(Clone)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    pub fn new() -> Result<Self, Errno> {
        let file = rustix::event::eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC);
        file.map(|file| Self(Arc::new(file))).map_err(errno)
    }

    pub fn ring(&self) {
        // It holds more rings than a process has memory for events.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for a ring, unless the program has made the file one that does not wait.
    pub fn wait(&self) -> Result<(), Errno> {
        rustix::io::read(&*self.0, &mut [0; 8])
            .map(drop)
            .map_err(errno)
    }

    /// Takes a ring back, if it was not heard yet.
    pub fn unring(&self) {
        let mut files = [rustix::event::PollFd::new(
            &*self.0,
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
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

/// An event of a context, as programs get it, with the address of what it is about.
pub struct Told {
    pub event: AsyncEvent,
    pub about: Option<usize>,
}

// SAFETY: the pointer in it is for programs alone; this library goes by the address.
unsafe impl Send for Told {}

pub struct Context {
    pub raw: Shared<ibv_context>,
    pub device: usize,
    pub bell: Bell,
    pub events: VecDeque<Told>,
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
    /// Where it is in this process.
    pub start: usize,
    /// Where work requests say it is.
    pub iova: u64,
    pub bytes: usize,
    pub access: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub is_device_memory: bool,
    /// What counts against `memlock`.
    pub locked: u64,
    pub _mapping: Option<Mapping>,
}

pub struct Channel {
    pub raw: Shared<ibv_comp_channel>,
    pub context: usize,
    pub bell: Bell,
    /// The completion queues that told of something.
    pub events: VecDeque<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Send,
    Receive,
}

/// A completion that waits to be polled.
pub struct Entry {
    pub completion: Completion,
    pub pair: usize,
    pub side: Side,
    /// How many requests of its side there were before it and with it.
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
    /// Events that the program has taken, and those that it has acknowledged.
    pub taken: u32,
    pub acknowledged: u32,
}

/// A piece of memory, as a work request names it.
#[derive(Clone, Copy)]
pub struct Piece {
    pub address: u64,
    pub bytes: u32,
    pub lkey: u32,
}

pub struct Receive {
    pub wr_id: u64,
    pub pieces: Vec<Piece>,
    pub through: u64,
}

pub struct Pair {
    pub raw: Shared<ibv_qp>,
    pub context: usize,
    pub device: usize,
    pub domain: usize,
    pub number: u32,
    pub kind: u32,
    pub send_queue: usize,
    pub receive_queue: usize,
    pub signals_all: bool,
    pub room: ibv_qp_cap,
    /// Its state among them.
    pub now: ibv_qp_attr,
    pub sends: VecDeque<Work>,
    pub receives: VecDeque<Receive>,
    /// Requests of each side that were posted, and those whose places are free again.
    pub sent: u64,
    pub send_freed: u64,
    pub received: u64,
    pub receive_freed: u64,
    /// Asynchronous events that the program has taken and not acknowledged.
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

pub struct World {
    pub contexts: BTreeMap<usize, Context>,
    pub domains: BTreeMap<usize, Domain>,
    pub regions: BTreeMap<usize, Region>,
    /// The regions by their local and remote keys.
    pub keys: BTreeMap<u32, usize>,
    pub channels: BTreeMap<usize, Channel>,
    pub queues: BTreeMap<usize, Queue>,
    pub pairs: BTreeMap<usize, Pair>,
    pub handles: BTreeMap<usize, Handle>,
    pub ports: BTreeMap<(usize, u8), PortState>,
    /// How often each rule of the machine file has counted.
    pub counts: BTreeMap<(Option<usize>, &'static str, usize), u64>,
    /// The last number that a device gave to a queue pair.
    pub numbers: BTreeMap<usize, u32>,
    handle: u32,
}

static WORLD: Mutex<World> = Mutex::new(World {
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

/// An event was acknowledged.
pub static ACKNOWLEDGED: Condvar = Condvar::new();

/// The tables, until the result goes. What a panic left is used as it is: a test fails by itself.
pub fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the next acknowledgement.
pub fn until_acknowledged(world: MutexGuard<'static, World>) -> MutexGuard<'static, World> {
    ACKNOWLEDGED
        .wait(world)
        .unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A number that no object has had.
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

    pub fn pair(&mut self, qp: *mut ibv_qp) -> Result<&mut Pair, Errno> {
        self.pairs.get_mut(&qp.addr()).ok_or(libc::EINVAL)
    }

    pub fn queue(&mut self, cq: *mut ibv_cq) -> Result<&mut Queue, Errno> {
        self.queues.get_mut(&cq.addr()).ok_or(libc::EINVAL)
    }
}

/// A GID's bytes.
pub fn raw(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: both forms of it are 16 bytes of which any is a value.
    unsafe { gid.raw }
}
