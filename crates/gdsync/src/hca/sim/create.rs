//! A queue pair is made: both sides' view of the same places.

use std::sync::Arc;

use super::Shared;
use super::completer::Completer;
use super::pair::{Pair, ReceiveSide, SendSide};
use crate::hca::{Endpoint, Patience, QueuePair, Request};
use crate::queue::{CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue};
use crate::wire::{BLOCK, Depth, SEGMENT, Transport};
use crate::{Error, Home, Place, Supply};

/// Makes a queue pair of `supply`'s places.
pub(super) fn create(shared: &Arc<Shared>, supply: &Supply, request: &Request) -> Result<QueuePair, Error> {
    // Depths are checked before anything of their size is allocated.
    let depth = Depth::work(request.send_blocks)?;
    let receives = Depth::work(request.receives)?;
    let stride = Depth::work(request.receive_segments)?.entries() as usize * SEGMENT;
    // The receive queue's record first, as in a card's: both are of one place.
    let records = supply.place(request.records, 8)?;
    let send = SendSide {
        ring: supply.place(request.queues, depth.entries() as usize * BLOCK)?,
        record: records.part(4, 4)?,
        // Registers are the HCA's own.
        register: supply.place(Home::Host, 8)?,
        depth,
        cursor: 0,
        producer: 0,
    };
    let receive = ReceiveSide {
        ring: supply.place(request.queues, receives.entries() as usize * stride)?,
        record: records.part(0, 4)?,
        depth: receives,
        stride,
        cursor: 0,
    };
    let (send_queue, send_completer) = completions(supply, request, request.send_completions)?;
    let (receive_queue, receive_completer) = completions(supply, request, request.receive_completions)?;

    let mut state = shared.lock();
    let qpn = state.new_qpn();
    let send_parts = SendParts {
        blocks: depth.entries(),
        ring: send.ring.clone(),
        record: send.record.clone(),
        register: send.register.clone(),
        qpn,
        transport: Transport::Connected,
    };
    let receive_parts = ReceiveParts {
        entries: receives.entries(),
        segments: request.receive_segments,
        ring: receive.ring.clone(),
        record: receive.record.clone(),
        qpn,
    };
    let (near_send, near_receive) = (SendQueue::new(send_parts)?, ReceiveQueue::new(receive_parts)?);
    let pair = Pair {
        qpn,
        send,
        receive,
        send_completions: send_completer,
        receive_completions: receive_completer,
        far: None,
        patience: Patience::default(),
        failed: false,
        under_way: None,
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
        [send_queue, receive_queue],
        Endpoint { lid, qpn },
        Box::new(created),
    ))
}

/// A completion queue from both sides.
fn completions(supply: &Supply, request: &Request, entries: u32) -> Result<(CompletionQueue, Completer), Error> {
    let depth = Depth::completions(entries)?;
    let place = |home, bytes| -> Result<Place, Error> { supply.place(home, bytes) };
    let parts = CompletionParts {
        entries,
        ring: place(request.completions, depth.entries() as usize * BLOCK)?,
        record: place(request.records, 4)?,
        busy: place(Home::Host, depth.entries() as usize * 4)?,
        waiting: request.waiting,
    };
    let completer = Completer {
        ring: parts.ring.clone(),
        record: parts.record.clone(),
        depth,
        producer: 0,
    };
    Ok((CompletionQueue::new(parts)?, completer))
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
