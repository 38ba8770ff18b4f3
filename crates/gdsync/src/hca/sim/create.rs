//! A queue pair is made: both sides' view of the same places.

use std::sync::Arc;

use super::Shared;
use super::pair::Pair;
use crate::hca::rings::Rings;
use crate::hca::{Endpoint, QueuePair, Request, RetryPolicy};
use crate::{Allocator, Error};

/// Makes a queue pair of `allocator`'s places.
pub(super) fn create(
    shared: &Arc<Shared>,
    allocator: &Allocator,
    request: &Request,
) -> Result<QueuePair, Error> {
    let rings = Rings::take(allocator, request)?;
    let mut state = shared.lock();
    let qpn = state.new_qpn();
    let (near_send, near_receive) = rings.local(qpn)?;
    let [send_completions, receive_completions] = rings.completers;
    let pair = Pair {
        qpn,
        send: rings.send,
        receive: rings.receive,
        send_completions,
        receive_completions,
        peer: None,
        timeout: RetryPolicy::default(),
        failed: false,
        in_flight: None,
        stall: None,
        begun: None,
        sequence: 0,
        completed: 0,
    };
    state.pairs.insert(qpn, pair);
    drop(state);
    let lid = shared.lid;
    let created = Created {
        shared: Arc::clone(shared),
        qpn,
    };
    Ok(QueuePair::new(
        near_send,
        near_receive,
        rings.completions,
        Endpoint::new(lid, qpn),
        Box::new(created),
    ))
}

/// Destroys the queue pair when it falls.
#[derive(Debug)]
struct Created {
    shared: Arc<Shared>,
    qpn: u32,
}

impl Drop for Created {
    fn drop(&mut self) {
        let pair = self.shared.lock().pairs.remove(&self.qpn);
        // Its places are let go without the lock.
        drop(pair);
    }
}
