//! Other verbs devices: a thread of this process posts and polls for the GPU.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::Allocator;
use engine::hca::proxy::{Agent, BorrowedQueues, ServedPair};
use engine::wire::AddressVector;
use gdr_sys::process::PerProcess;
use verbs::raw::ibv_ah;
use verbs::{BorrowedHandle, Context, ProtectionDomain, QueuePairOptions};

use super::{Backend, BackendPair, PairOptions};
use crate::call_error::CallError;

/// One thread for all queue pairs, while there are any.
static AGENT: PerProcess<Mutex<Weak<Agent>>> = PerProcess::new(Mutex::default);

#[derive(Debug)]
struct Proxy {
    pair: ServedPair,
    context: Context,
    _agent: Arc<Agent>,
}

impl Backend for Proxy {
    fn serve(&self) {
        self.pair.serve();
    }

    fn wake(&self) {
        self.pair.wake();
    }

    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, CallError> {
        // SAFETY: the caller's promise.
        if unsafe { (*handle.as_ptr()).context } != self.context.as_raw() {
            return Err(CallError::OtherDevice { what: "the address handle" });
        }
        // SAFETY: the program keeps the handle until the send has completed, as gdsync/core.h requires.
        let handle = unsafe { BorrowedHandle::new(handle) };
        let address = self.pair.address(handle);
        address.ok_or(CallError::Gone { what: "queue pair" })
    }
}

/// # Safety
///
/// As [`super::create`].
pub(super) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    options: &PairOptions,
) -> Result<BackendPair, CallError> {
    let agent = agent()?;
    let context = domain.context();
    let queue = |entries| {
        let queue = context.completions(entries);
        queue.map_err(CallError::verbs("create a completion queue"))
    };
    let (sent, received) = (queue(options.verbs.send_depth)?, queue(options.verbs.receive_depth)?);
    let verbs_options = QueuePairOptions {
        // The proxy sends inline data from registered memory.
        inline_bytes: 0,
        ..options.verbs
    };
    let pair = domain.queue_pair(verbs_options, &sent, &received);
    // SAFETY: the caller's promise.
    let pair = unsafe { pair.map_err(CallError::verbs("create a queue pair"))?.borrow() };
    let (raw, completions) = (pair.as_raw(), [sent.as_raw(), received.as_raw()]);
    let borrowed_queues = BorrowedQueues {
        pair,
        sent,
        received,
        sends: options.verbs.send_depth,
        receives: options.verbs.receive_depth,
    };
    let adopted = agent.adopt(allocator, borrowed_queues, &options.request);
    let (queues, pair) = adopted.map_err(CallError::engine("create the GPU's queues"))?;
    Ok(BackendPair {
        queues,
        backend: Box::new(Proxy { pair, context: context.clone(), _agent: agent }),
        raw,
        completions,
    })
}

fn agent() -> Result<Arc<Agent>, CallError> {
    let mut kept = AGENT.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(agent) = kept.upgrade() {
        return Ok(agent);
    }
    let agent = Arc::new(Agent::start().map_err(CallError::engine("start the proxy"))?);
    *kept = Arc::downgrade(&agent);
    Ok(agent)
}
