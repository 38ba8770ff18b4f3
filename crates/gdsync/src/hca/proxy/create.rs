//! A queue pair is made: software's rings, the verbs queue pair, and the memory between them.

use std::collections::VecDeque;
use std::sync::Arc;

use verbs::{Access, Buffer, Domain, Pages};

use super::Shared;
use super::pair::{Bounce, Link, Pair};
use crate::hca::port::{Made, failed};
use crate::hca::rings::Rings;
use crate::hca::{QueuePair, Request};
use crate::wire::{BLOCK, MOST_BLOCKS};
use crate::{Error, Supply};

/// Makes a queue pair of `supply`'s places.
pub(super) fn create(shared: &Arc<Shared>, supply: &Supply, request: &Request) -> Result<QueuePair, Error> {
    let rings = Rings::take(supply, request)?;
    let bounce = bounce(&shared.port.domain, request.send_blocks)?;
    let Made {
        pair,
        sent,
        received,
        room,
    } = shared.port.queue_pair(request)?;
    let endpoint = shared.port.endpoint(pair.number());
    let (near_send, near_receive) = rings.near(endpoint.qpn)?;
    let pair = Pair {
        link: Link::Init(pair),
        sent,
        received,
        endpoint,
        far: 0,
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
    Ok(QueuePair::new(
        near_send,
        near_receive,
        rings.completions,
        endpoint,
        Box::new(created),
    ))
}

fn bounce(domain: &Domain, blocks: u32) -> Result<Bounce, Error> {
    let bytes = (blocks as usize + MOST_BLOCKS) * BLOCK;
    let buffer = Buffer::new(bytes, Pages::Ordinary).map_err(failed("take memory for inline data"))?;
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
