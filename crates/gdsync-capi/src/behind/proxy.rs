//! Every other verbs device: a thread of this process rings and polls for the GPU.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::Allocator;
use engine::hca::proxy::{Agent, BorrowedQueues, ServedPair};
use engine::wire::AddressVector;
use process::PerProcess;
use verbs::raw::ibv_ah;
use verbs::{ProtectionDomain, QueuePairOptions};

use super::{Behind, Made, Wanted};
use crate::call_error::CallError;

/// One thread for all queue pairs, for as long as there are any.
static AGENT: PerProcess<Mutex<Weak<Agent>>> = PerProcess::new(Mutex::default);

#[derive(Debug)]
struct Proxied {
    adopted: ServedPair,
    _agent: Arc<Agent>,
}

impl Behind for Proxied {
    fn serve(&self) {
        self.adopted.serve();
    }

    fn wake(&self) {
        self.adopted.wake();
    }

    unsafe fn address(&self, _: NonNull<ibv_ah>) -> Result<AddressVector, CallError> {
        Err(super::NO_DATAGRAMS)
    }
}

/// # Safety
///
/// As [`super::create`].
pub(super) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    wanted: &Wanted,
) -> Result<Made, CallError> {
    let agent = agent()?;
    let context = domain.context();
    let queue = |entries| {
        let made = context.completions(entries);
        made.map_err(CallError::verbs("make a completion queue"))
    };
    let (sent, received) = (
        queue(wanted.options.send_depth)?,
        queue(wanted.options.receive_depth)?,
    );
    let options = QueuePairOptions {
        // The engine's queue has the bytes, and the proxy sends them from there.
        inline_bytes: 0,
        ..wanted.options
    };
    let pair = domain.queue_pair(options, &sent, &received);
    // SAFETY: the caller's promise.
    let pair = unsafe {
        pair.map_err(CallError::verbs("make a queue pair"))?
            .borrow()
    };
    let (raw, completions) = (pair.as_raw(), [sent.as_raw(), received.as_raw()]);
    let borrowed_queues = BorrowedQueues {
        pair,
        sent,
        received,
        sends: wanted.options.send_depth,
        receives: wanted.options.receive_depth,
    };
    let adopted = agent.adopt(allocator, borrowed_queues, &wanted.request);
    let (queues, adopted) =
        adopted.map_err(CallError::engine("make the queues that the GPU works on"))?;
    Ok(Made {
        queues,
        behind: Box::new(Proxied {
            adopted,
            _agent: agent,
        }),
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
