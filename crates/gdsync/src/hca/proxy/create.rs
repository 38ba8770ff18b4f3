//! A queue pair is made: software's rings, the verbs queue pair, and the memory between them.

use std::collections::VecDeque;
use std::sync::Arc;

use verbs::{Access, Buffer, Pages, ProtectionDomain};

use super::Shared;
use super::pair::{Bounce, Link, Pair};
use crate::hca::port::{Made, Port, failed};
use crate::hca::rings::Rings;
use crate::hca::{Endpoint, QueuePair, Request};
use crate::wire::{BLOCK, MOST_BLOCKS};
use crate::{Allocator, Error};

/// Makes a queue pair of `allocator`'s places.
pub(super) fn create(
    shared: &Arc<Shared>,
    port: &Port,
    allocator: &Allocator,
    request: &Request,
) -> Result<QueuePair, Error> {
    let rings = Rings::take(allocator, request)?;
    let bounce = bounce(&port.domain, request.send_blocks)?;
    let made = port.queue_pair(request)?;
    let endpoint = port.endpoint(made.link.number());
    let (pair, _) = keep(shared, rings, bounce, made.map(Link::Init), endpoint)?;
    Ok(pair)
}

/// Keeps a queue pair for the thread; software's side of it, and its number there.
pub(super) fn keep(
    shared: &Arc<Shared>,
    rings: Rings,
    bounce: Bounce,
    made: Made<Link>,
    endpoint: Endpoint,
) -> Result<(QueuePair, u64), Error> {
    let Made {
        link,
        sent,
        received,
        room,
    } = made;
    let (near_send, near_receive) = rings.local(endpoint.qpn)?;
    let pair = Pair {
        link,
        sent,
        received,
        endpoint,
        peer: 0,
        room,
        send: rings.send,
        receive: rings.receive,
        completers: rings.completers,
        bounce,
        sends: VecDeque::new(),
        posted: 0,
        next: 0,
        halted: false,
        receives: VecDeque::new(),
        unusable: None,
        broken: false,
        failed: false,
        clock: 0,
    };
    let mut state = shared.lock();
    let number = state.next;
    state.next += 1;
    state.pairs.insert(number, pair);
    drop(state);
    let created = Created {
        shared: Arc::clone(shared),
        number,
    };
    let pair = QueuePair::new(
        near_send,
        near_receive,
        rings.completions,
        endpoint,
        Box::new(created),
    );
    Ok((pair, number))
}

/// Memory for the bytes that entries of so many blocks hold themselves.
pub(super) fn bounce(domain: &ProtectionDomain, blocks: u32) -> Result<Bounce, Error> {
    let bytes = (blocks as usize + MOST_BLOCKS) * BLOCK;
    let buffer =
        Buffer::new(bytes, Pages::Ordinary).map_err(failed("take memory for inline data"))?;
    let region = domain.register(&buffer, Access::default());
    let region = region.map_err(failed("register memory for inline data"))?;
    Ok(Bounce { region, buffer })
}

/// Destroys the queue pair when it falls.
#[derive(Debug)]
struct Created {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Created {
    fn drop(&mut self) {
        let pair = self.shared.lock().pairs.remove(&self.number);
        // Its places, and what verbs have of it, are let go without the lock.
        drop(pair);
    }
}
