//! Creates a queue pair: software's queues, the verbs queue pair, and memory for inline data.

use std::collections::VecDeque;
use std::sync::Arc;

use verbs::{Access, Buffer, Pages, ProtectionDomain};

use super::Shared;
use super::pair::{Bounce, Link, ProxyQueuePair};
use crate::hca::port::{Port, VerbsPair, failed};
use crate::hca::rings::Rings;
use crate::hca::{Endpoint, QueuePair, Request};
use crate::wire::{BLOCK, MAX_BLOCKS, Transport};
use crate::{Allocator, Error};

/// Creates a queue pair in `allocator`'s memory.
pub(super) fn create(
    shared: &Arc<Shared>,
    port: &Port,
    allocator: &Allocator,
    request: &Request,
) -> Result<QueuePair, Error> {
    let rings = Rings::take(allocator, request)?;
    let bounce = bounce(&port.domain, request.send_blocks)?;
    let pair = port.queue_pair(request)?;
    let endpoint = port.endpoint(pair.link.number());
    let pair = pair.try_map(|link| match request.transport {
        Transport::Connected => port.init(link).map(Link::Init),
        Transport::Datagram => port.ready(link, request.key).map(Link::Ready),
    })?;
    let (pair, _) = keep(shared, rings, bounce, pair, endpoint, request.transport)?;
    Ok(pair)
}

/// Passes a queue pair to the thread. Returns software's part and its number in the shared state.
pub(super) fn keep(
    shared: &Arc<Shared>,
    rings: Rings,
    bounce: Bounce,
    pair: VerbsPair<Link>,
    endpoint: Endpoint,
    transport: Transport,
) -> Result<(QueuePair, u64), Error> {
    let VerbsPair { link, sent, received, room } = pair;
    let (send_queue, receive_queue) = rings.local(endpoint.qpn, transport)?;
    let pair = ProxyQueuePair {
        link,
        sent,
        received,
        endpoint,
        transport,
        handles: Vec::new(),
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
        unchecked: false,
        checked_at: 0,
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
    let guard = DestroyGuard { shared: Arc::clone(shared), number };
    let pair =
        QueuePair::new(send_queue, receive_queue, rings.completions, endpoint, Box::new(guard));
    Ok((pair, number))
}

/// Memory for the inline data of a send queue.
pub(super) fn bounce(domain: &ProtectionDomain, blocks: u32) -> Result<Bounce, Error> {
    let bytes = (blocks as usize + MAX_BLOCKS) * BLOCK;
    let buffer =
        Buffer::new(bytes, Pages::Ordinary).map_err(failed("allocate memory for inline data"))?;
    let region = domain.register(&buffer, Access::default());
    let region = region.map_err(failed("register memory for inline data"))?;
    Ok(Bounce { region, buffer })
}

/// Destroys the queue pair on drop.
#[derive(Debug)]
struct DestroyGuard {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for DestroyGuard {
    fn drop(&mut self) {
        let pair = self.shared.lock().pairs.remove(&self.number);
        // Destroy it without the lock.
        drop(pair);
    }
}
