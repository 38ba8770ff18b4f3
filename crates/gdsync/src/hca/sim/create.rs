//! Creates a queue pair: software's and the HCA's part.

use std::sync::Arc;

use super::Shared;
use super::pair::SimQueuePair;
use crate::hca::rings::Rings;
use crate::hca::{Endpoint, QueuePair, Request, RetryPolicy};
use crate::{Allocator, Error};

/// Creates a queue pair in `allocator`'s memory.
pub(super) fn create(
    shared: &Arc<Shared>,
    allocator: &Allocator,
    request: &Request,
) -> Result<QueuePair, Error> {
    let rings = Rings::take(allocator, request)?;
    let mut state = shared.lock();
    let qpn = state.new_qpn();
    let (send_queue, receive_queue) = rings.local(qpn, request.transport)?;
    let [send_completions, receive_completions] = rings.completers;
    let pair = SimQueuePair {
        qpn,
        transport: request.transport,
        key: request.key,
        send: rings.send,
        receive: rings.receive,
        send_completions,
        receive_completions,
        peer: None,
        timeout: RetryPolicy::default(),
        failed: false,
        in_flight: None,
        stall: None,
        attempt: None,
        sequence: 0,
        answered: 0,
        completed: 0,
    };
    state.pairs.insert(qpn, pair);
    drop(state);
    let lid = shared.lid;
    let guard = DestroyGuard { shared: Arc::clone(shared), qpn };
    Ok(QueuePair::new(
        send_queue,
        receive_queue,
        rings.completions,
        Endpoint::new(lid, qpn),
        Box::new(guard),
    ))
}

/// Destroys the queue pair on drop.
#[derive(Debug)]
struct DestroyGuard {
    shared: Arc<Shared>,
    qpn: u32,
}

impl Drop for DestroyGuard {
    fn drop(&mut self) {
        let pair = self.shared.lock().pairs.remove(&self.qpn);
        // Free its memory without the lock.
        drop(pair);
    }
}
