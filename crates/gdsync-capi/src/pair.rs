//! A program's queue pair: the engine's queues, what the program named its work, and the requests that are prepared and given away.

mod end;
mod receive;
mod send;
mod wait;

pub(crate) use end::give_back;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::hca::QueuePair;
use engine::queue::{Prepared, Wait};
use engine::wire::{AddressVector, Transport};
use verbs::raw::{ibv_ah, ibv_qp};

use crate::abi::{self, Cq, Qp};
use crate::behind::{Behind, Made};
use crate::call_error::CallError;

/// Which of a queue pair's completion queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Sent,
    Received,
}

/// How much of each a queue pair takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    pub(crate) send_pieces: u32,
    pub(crate) receive_pieces: u32,
    pub(crate) inline: u32,
    /// Every send completes visibly.
    pub(crate) signals_all: bool,
    /// Whether sends are datagrams, each with an address of its own.
    pub(crate) transport: Transport,
}

/// A queue pair. Calls about it take turns.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Its number among all that this process has made.
    pub(crate) id: u64,
    pub(crate) limits: Limits,
    /// The verbs queue pair, alive while there are queues.
    raw: *mut ibv_qp,
    behind: Box<dyn Behind>,
    /// None once it is destroyed.
    queues: Mutex<Option<Queues>>,
    shown: Shown,
}

// SAFETY: the raw queue pair is only handed to verbs, which are thread safe, and what is shown to the program is written under the lock.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

/// What the program sees, at an address that stays.
#[derive(Debug)]
struct Shown(Box<UnsafeCell<Qp>>);

/// The queues, and what is kept of each piece of work.
#[derive(Debug)]
struct Queues {
    engine: QueuePair,
    /// Entries that are prepared and not completed, in order.
    sends: VecDeque<Named>,
    /// Requests to send that have not completed, in order.
    requests: VecDeque<Request>,
    /// Receives that are posted and not completed, in order.
    receives: VecDeque<Named>,
    /// Waits that are taken and whose completion was not polled, in order: of sends, of receives.
    waits: [VecDeque<Waiting>; 2],
    /// Which completion is waited for next.
    next_wait: [u32; 2],
}

/// A piece of work by its number in the queue, and by the program's.
#[derive(Debug, Clone, Copy)]
struct Named {
    number: u64,
    wr_id: u64,
}

/// Entries that were prepared together.
#[derive(Debug)]
struct Request {
    /// Those before the last, in order.
    before: Vec<Prepared>,
    /// The last of them, whose doorbell covers all.
    last: Prepared,
    given: Given,
    /// A kernel may have its addresses and values.
    is_shown: bool,
}

/// A wait that was taken.
#[derive(Debug)]
struct Waiting {
    wait: Wait,
    /// Words that are written after it.
    appended: Vec<(usize, u32)>,
    given: Given,
    /// A kernel may have its addresses and values.
    is_shown: bool,
}

/// What was done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    No,
    /// It was given to a stream, or the CPU does it.
    Posted,
    /// It was taken back.
    Over,
}

impl Given {
    /// Whether it may be posted.
    fn may(self) -> Result<(), CallError> {
        match self {
            Self::No => Ok(()),
            Self::Posted => Err(CallError::Spent {
                why: "posted before",
            }),
            Self::Over => Err(CallError::Spent {
                why: "given up by gds_post_wait_cq",
            }),
        }
    }
}

impl Pair {
    pub(crate) fn new(
        id: u64,
        limits: Limits,
        made: Made,
        context: *mut verbs::raw::ibv_context,
    ) -> Self {
        let [sent, received] = made.completions;
        let cq = |cq| Cq { cq, curr_offset: 0 };
        let shown = Qp {
            qp: made.raw,
            send_cq: cq(sent),
            recv_cq: cq(received),
            res_domain: std::ptr::null_mut(),
            dev_context: context,
        };
        let queues = Queues {
            engine: made.queues,
            sends: VecDeque::new(),
            requests: VecDeque::new(),
            receives: VecDeque::new(),
            waits: Default::default(),
            next_wait: [0; 2],
        };
        Self {
            id,
            limits,
            raw: made.raw,
            behind: made.behind,
            queues: Mutex::new(Some(queues)),
            shown: Shown(Box::new(UnsafeCell::new(shown))),
        }
    }

    /// What the program calls it by.
    pub(crate) fn shown(&self) -> *mut Qp {
        self.shown.0.get()
    }

    /// Whether it was destroyed.
    pub(crate) fn is_gone(&self) -> bool {
        self.queues().is_none()
    }

    /// Hands what was given to who is behind the queues.
    pub(crate) fn serve(&self) {
        self.behind.serve();
    }

    /// A stream was given work.
    pub(crate) fn wake(&self) {
        self.behind.wake();
    }

    /// The way that a program's address handle has.
    ///
    /// # Safety
    ///
    /// The handle is alive, of the queue pair's device.
    pub(crate) unsafe fn address(
        &self,
        handle: NonNull<ibv_ah>,
    ) -> Result<AddressVector, CallError> {
        // SAFETY: this function's condition.
        unsafe { self.behind.address(handle) }
    }

    /// Does something with the verbs queue pair, which is alive meanwhile.
    pub(crate) fn with_raw<T>(&self, does: impl FnOnce(*mut ibv_qp) -> T) -> Result<T, CallError> {
        let queues = self.queues();
        queues.as_ref().ok_or(GONE)?;
        Ok(does(self.raw))
    }

    fn alive<T>(
        &self,
        does: impl FnOnce(&mut Queues) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        does(self.queues().as_mut().ok_or(GONE)?)
    }

    /// A panic while the lock was held leaves at worst work without its name.
    fn queues(&self) -> MutexGuard<'_, Option<Queues>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the program which completion is waited for next. The lock is held.
    fn show_offset(&self, side: Side, next: u32) {
        let shown = self.shown();
        // SAFETY: it lives as long as this value, and the library writes it under the lock alone. The program may read it meanwhile.
        unsafe {
            let queue = match side {
                Side::Sent => &raw mut (*shown).send_cq,
                Side::Received => &raw mut (*shown).recv_cq,
            };
            (&raw mut (*queue).curr_offset).write_volatile(next);
        }
    }
}

const GONE: CallError = CallError::Gone { what: "queue pair" };

impl Side {
    /// Its place in arrays of both.
    fn at(self) -> usize {
        match self {
            Self::Sent => 0,
            Self::Received => 1,
        }
    }

    /// Where its queue stands in a `struct gds_qp`.
    pub(crate) const fn offset(self) -> usize {
        match self {
            Self::Sent => std::mem::offset_of!(abi::Qp, send_cq),
            Self::Received => std::mem::offset_of!(abi::Qp, recv_cq),
        }
    }
}
