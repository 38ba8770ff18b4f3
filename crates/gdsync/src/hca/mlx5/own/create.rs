//! A queue pair is made by commands to the NIC's firmware.

use verbs::devx::{
    CompletionQueue as Named, CompletionQueueOptions, Devx, QueuePair as Made, QueuePairOptions,
    Registers, Spot,
};
use verbs::{Access, Init};

use super::memory::named;
use crate::hca::Request;
use crate::hca::mlx5::lay::{Laid, register};
use crate::hca::mlx5::{Shared, verbs_failed};
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue,
};
use crate::wire::{BLOCK, SEGMENT, Transport};
use crate::{Allocator, MemoryLocation, Place};

/// Bytes between doorbell records, so that no two lie in one line of a cache.
const APART: usize = 64;

/// Both sides of it: software's queues, and the NIC's.
pub(in crate::hca::mlx5) fn create(
    shared: &Shared,
    allocator: &Allocator,
    request: &Request,
) -> Result<(Laid, Made<Init>), crate::Error> {
    let devx = shared.devx()?;
    let registers = devx
        .registers()
        .map_err(verbs_failed("have a doorbell register"))?;
    // The send queue behind the receive queue begins with a block.
    let stride = request.receive_segments as usize * SEGMENT;
    let receives = request.receives.max((BLOCK / stride.max(1)) as u32);
    let received = receives as usize * stride;
    let sent = request.send_blocks as usize * BLOCK;
    let (rings, rings_named) = named(allocator, &devx, request.queues, received + sent)?;
    let (records, records_named) = named(allocator, &devx, request.records, 3 * APART)?;
    let spot = |at: usize| Spot {
        offset: records_named.offset + at,
        ..records_named.clone()
    };
    let completions = |entries, at: usize| {
        let records = (records.part(at, 8)?, spot(at));
        completions(allocator, &devx, &registers, request, entries, records)
    };
    let (send_completions, sent_named) = completions(request.send_completions, APART)?;
    let (receive_completions, received_named) =
        completions(request.receive_completions, 2 * APART)?;
    let options = QueuePairOptions {
        send_blocks: request.send_blocks,
        receives,
        receive_stride: stride as u32,
        rings: rings_named,
        records: spot(0),
        registers: registers.clone(),
        user_index: shared.next_index(),
    };
    let made = devx.queue_pair(&shared.port.domain, &options, &sent_named, &received_named);
    let made = made.map_err(verbs_failed("make a queue pair in memory of our own"))?;
    let word = registers
        .register()
        .map_err(verbs_failed("find a doorbell register"))?;
    let send = SendQueue::new(SendParts {
        blocks: request.send_blocks,
        ring: rings.part(received, sent)?,
        record: records.part(4, 4)?,
        register: register(allocator, &word)?,
        qpn: made.number(),
        transport: Transport::Connected,
    })?;
    let receive = ReceiveQueue::new(ReceiveParts {
        entries: receives,
        segments: request.receive_segments,
        ring: rings.part(0, received)?,
        record: records.part(0, 4)?,
        qpn: made.number(),
    })?;
    let made = made.init(shared.port.number(), Access::ALL);
    let made = made.map_err(verbs_failed("give a queue pair its port"))?;
    let laid = Laid {
        send,
        receive,
        send_completions,
        receive_completions,
    };
    Ok((laid, made))
}

/// A completion queue: software's side first, which marks every slot as never written before the NIC may write one.
fn completions(
    allocator: &Allocator,
    devx: &Devx,
    registers: &Registers,
    request: &Request,
    entries: u32,
    (record, spot): (Place, Spot),
) -> Result<(CompletionQueue, Named), crate::Error> {
    let bytes = entries as usize * BLOCK;
    let (ring, ring_named) = named(allocator, devx, request.completions, bytes)?;
    let queue = CompletionQueue::new(CompletionParts {
        entries,
        ring: ring.part(0, bytes)?,
        record: record.part(0, 4)?,
        busy: allocator.place(MemoryLocation::Host, entries as usize * 4)?,
        waiting: request.waiting,
    })?;
    let made = devx.completion_queue(&CompletionQueueOptions {
        entries,
        ring: ring_named,
        records: spot,
        registers: registers.clone(),
    });
    let made = made.map_err(verbs_failed("make a completion queue in memory of our own"))?;
    Ok((queue, made))
}
