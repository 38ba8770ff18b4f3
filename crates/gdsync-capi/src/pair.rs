//! A program's queue pair: the engine's queues, the ids of posted work, and prepared requests and waits.

mod end;
mod receive;
mod send;
mod wait;

pub(crate) use end::release_retired;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::hca::QueuePair;
use engine::queue::{Prepared, Wait};
use engine::wire::{AddressVector, Transport};
use verbs::raw::{ibv_ah, ibv_cq, ibv_qp, ibv_qp_attr};

use crate::abi::{self, Cq, Qp};
use crate::backend::{Backend, BackendPair};
use crate::call_error::CallError;

/// One of the two completion queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Sent,
    Received,
}

/// Limits of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    pub(crate) send_sges: u32,
    pub(crate) receive_sges: u32,
    pub(crate) inline: u32,
    /// Every send is signalled.
    pub(crate) signals_all: bool,
    pub(crate) transport: Transport,
}

/// A queue pair. Calls on it are serialised.
#[derive(Debug)]
pub(crate) struct ProgramQueuePair {
    /// Id, unique in this process.
    pub(crate) id: u64,
    pub(crate) limits: Limits,
    /// The program's queue pair, valid while `queues` is `Some`.
    raw: *mut ibv_qp,
    /// Addresses of its verbs completion queues: of sends, of receives.
    completions: [usize; 2],
    backend: Box<dyn Backend>,
    /// `None` once destroyed.
    queues: Mutex<Option<Queues>>,
    public: PublicQp,
}

// SAFETY: the raw queue pair is only passed to verbs, which are thread safe, and `public` is written only under the lock.
unsafe impl Send for ProgramQueuePair {}
// SAFETY: as above.
unsafe impl Sync for ProgramQueuePair {}

/// The program's structure, at a stable address.
#[derive(Debug)]
struct PublicQp(Box<UnsafeCell<Qp>>);

#[derive(Debug)]
struct Queues {
    engine: QueuePair,
    /// Prepared sends without a completion, in order.
    sends: VecDeque<WorkId>,
    /// Send requests without a completion, in order.
    requests: VecDeque<Request>,
    /// Posted receives without a completion, in order.
    receives: VecDeque<WorkId>,
    /// Waits whose completion was not polled, in order, by side.
    waits: [VecDeque<PendingWait>; 2],
    /// Index of the next completion to wait for, by side.
    next_wait: [u32; 2],
}

/// Number of a WQE in its queue, and the program's id.
#[derive(Debug, Clone, Copy)]
struct WorkId {
    number: u64,
    wr_id: u64,
}

/// WQEs prepared by one call.
#[derive(Debug)]
struct Request {
    /// All but the last, in order.
    before: Vec<Prepared>,
    /// The last one, whose doorbell covers all.
    last: Prepared,
    state: RequestState,
    /// Its addresses and values were returned for a kernel.
    is_exposed: bool,
}

#[derive(Debug)]
struct PendingWait {
    wait: Wait,
    /// Writes after the wait: address and value.
    appended: Vec<(usize, u32)>,
    state: RequestState,
    /// Its addresses and values were returned for a kernel.
    is_exposed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    Prepared,
    /// Posted to a stream, or executed by the CPU.
    Posted,
    Abandoned,
}

impl RequestState {
    /// Checks that the request can be posted.
    fn check(self) -> Result<(), CallError> {
        match self {
            Self::Prepared => Ok(()),
            Self::Posted => Err(CallError::Spent { why: "posted" }),
            Self::Abandoned => Err(CallError::Spent { why: "abandoned by gds_post_wait_cq" }),
        }
    }
}

impl ProgramQueuePair {
    pub(crate) fn new(
        id: u64,
        limits: Limits,
        created: BackendPair,
        context: *mut verbs::raw::ibv_context,
    ) -> Self {
        let [sent, received] = created.completions;
        let cq = |cq| Cq { cq, curr_offset: 0 };
        let public = Qp {
            qp: created.raw,
            send_cq: cq(sent),
            recv_cq: cq(received),
            res_domain: std::ptr::null_mut(),
            dev_context: context,
        };
        let queues = Queues {
            engine: created.queues,
            sends: VecDeque::new(),
            requests: VecDeque::new(),
            receives: VecDeque::new(),
            waits: Default::default(),
            next_wait: [0; 2],
        };
        Self {
            id,
            limits,
            raw: created.raw,
            completions: [sent.addr(), received.addr()],
            backend: created.backend,
            queues: Mutex::new(Some(queues)),
            public: PublicQp(Box::new(UnsafeCell::new(public))),
        }
    }

    /// The program's pointer.
    pub(crate) fn qp(&self) -> *mut Qp {
        self.public.0.get()
    }

    /// The side of a verbs completion queue.
    pub(crate) fn side_of(&self, cq: *const ibv_cq) -> Option<Side> {
        let [sent, received] = self.completions;
        match cq.addr() {
            address if address == sent => Some(Side::Sent),
            address if address == received => Some(Side::Received),
            _ => None,
        }
    }

    /// True if this is its verbs queue pair.
    pub(crate) fn is_of(&self, qp: *const ibv_qp) -> bool {
        self.raw.cast_const() == qp
    }

    /// Addresses of its verbs objects.
    pub(crate) fn objects(&self) -> [usize; 3] {
        let [sent, received] = self.completions;
        [self.raw.addr(), sent, received]
    }

    /// True if destroyed.
    pub(crate) fn is_gone(&self) -> bool {
        self.queues().is_none()
    }

    /// Passes posted work to the device.
    pub(crate) fn serve(&self) {
        self.backend.serve();
    }

    /// Announces that a stream was given work.
    pub(crate) fn wake(&self) {
        self.backend.wake();
    }

    /// The address vector of a program's address handle.
    ///
    /// # Safety
    ///
    /// The handle is live and belongs to the queue pair's device.
    pub(crate) unsafe fn address(
        &self,
        handle: NonNull<ibv_ah>,
    ) -> Result<AddressVector, CallError> {
        // SAFETY: the caller's promise.
        unsafe { self.backend.address(handle) }
    }

    /// Changes its state.
    ///
    /// # Safety
    ///
    /// The attributes are readable.
    pub(crate) unsafe fn modify(
        &self,
        attributes: *mut ibv_qp_attr,
        what: c_int,
    ) -> Result<(), CallError> {
        let queues = self.queues();
        queues.as_ref().ok_or(GONE)?;
        // SAFETY: the queue pair is live while the lock is held; the rest is the caller's promise.
        unsafe { self.backend.modify(self.raw, attributes, what) }
    }

    fn with_queues<T>(
        &self,
        body: impl FnOnce(&mut Queues) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        body(self.queues().as_mut().ok_or(GONE)?)
    }

    /// Ignores poisoning: a panic can at worst lose the id of posted work.
    fn queues(&self) -> MutexGuard<'_, Option<Queues>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets `curr_offset` for the program. The lock must be held.
    fn set_offset(&self, side: Side, next: u32) {
        let qp = self.qp();
        // SAFETY: `qp` lives as long as `self`, and only the library writes it, under the lock. The program may read it concurrently.
        unsafe {
            let queue = match side {
                Side::Sent => &raw mut (*qp).send_cq,
                Side::Received => &raw mut (*qp).recv_cq,
            };
            (&raw mut (*queue).curr_offset).write_volatile(next);
        }
    }
}

const GONE: CallError = CallError::Gone { what: "queue pair" };

impl Side {
    /// Index in arrays by side.
    fn index(self) -> usize {
        match self {
            Self::Sent => 0,
            Self::Received => 1,
        }
    }

    /// Offset of its queue in `struct gds_qp`.
    pub(crate) const fn offset(self) -> usize {
        match self {
            Self::Sent => std::mem::offset_of!(abi::Qp, send_cq),
            Self::Received => std::mem::offset_of!(abi::Qp, recv_cq),
        }
    }
}
