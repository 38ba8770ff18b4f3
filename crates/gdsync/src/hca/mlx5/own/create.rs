//! Creates a queue pair by DEVX commands.

use verbs::devx::{
    CompletionQueue as DevxCompletions, CompletionQueueOptions, Devx, QueuePair as DevxPair,
    QueuePairOptions, Registers, Spot,
};
use verbs::{Access, Init};

use super::memory::allocate;
use crate::hca::Request;
use crate::hca::mlx5::queues::{Queues, register};
use crate::hca::mlx5::{Shared, verbs_failed};
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue,
};
use crate::wire::{BLOCK, SEGMENT, Transport};
use crate::{Allocator, MemoryLocation, Place};

/// Distance of doorbell records in bytes: one cache line each.
const APART: usize = 64;

/// Software's queues and the DEVX objects.
pub(in crate::hca::mlx5) fn create(
    shared: &Shared,
    allocator: &Allocator,
    request: &Request,
) -> Result<(Queues, DevxPair<Init>), crate::Error> {
    let devx = shared.devx()?;
    let registers = devx
        .registers()
        .map_err(verbs_failed("allocate a doorbell register"))?;
    // The send queue follows the receive queue and must start at a block.
    let stride = request.receive_segments as usize * SEGMENT;
    let receives = request.receives.max((BLOCK / stride.max(1)) as u32);
    let received = receives as usize * stride;
    let sent = request.send_blocks as usize * BLOCK;
    let (rings, rings_spot) = allocate(allocator, &devx, request.queues, received + sent)?;
    let (records, records_spot) = allocate(allocator, &devx, request.records, 3 * APART)?;
    let spot = |at: usize| Spot {
        offset: records_spot.offset + at,
        ..records_spot.clone()
    };
    let completions = |entries, at: usize| {
        let records = (records.part(at, 8)?, spot(at));
        completions(allocator, &devx, &registers, request, entries, records)
    };
    let (send_completions, sent_devx) = completions(request.send_completions, APART)?;
    let (receive_completions, received_devx) = completions(request.receive_completions, 2 * APART)?;
    let options = QueuePairOptions {
        send_blocks: request.send_blocks,
        receives,
        receive_stride: stride as u32,
        rings: rings_spot,
        records: spot(0),
        registers: registers.clone(),
        user_index: shared.next_index(),
    };
    let pair = devx.queue_pair(&shared.port.domain, &options, &sent_devx, &received_devx);
    let pair = pair.map_err(verbs_failed("create a queue pair by DEVX"))?;
    let word = registers
        .register()
        .map_err(verbs_failed("find a doorbell register"))?;
    let send = SendQueue::new(SendParts {
        blocks: request.send_blocks,
        ring: rings.part(received, sent)?,
        record: records.part(4, 4)?,
        register: register(allocator, &word)?,
        qpn: pair.number(),
        transport: Transport::Connected,
    })?;
    let receive = ReceiveQueue::new(ReceiveParts {
        entries: receives,
        segments: request.receive_segments,
        ring: rings.part(0, received)?,
        record: records.part(0, 4)?,
        qpn: pair.number(),
    })?;
    let pair = pair.init(shared.port.number(), Access::ALL);
    let pair = pair.map_err(verbs_failed("move a queue pair to INIT"))?;
    let queues = Queues {
        send,
        receive,
        send_completions,
        receive_completions,
    };
    Ok((queues, pair))
}

/// A completion queue. Software's part comes first: it marks every slot as unwritten before the NIC may write one.
fn completions(
    allocator: &Allocator,
    devx: &Devx,
    registers: &Registers,
    request: &Request,
    entries: u32,
    (record, spot): (Place, Spot),
) -> Result<(CompletionQueue, DevxCompletions), crate::Error> {
    let bytes = entries as usize * BLOCK;
    let (ring, ring_spot) = allocate(allocator, devx, request.completions, bytes)?;
    let queue = CompletionQueue::new(CompletionParts {
        entries,
        ring: ring.part(0, bytes)?,
        record: record.part(0, 4)?,
        busy: allocator.place(MemoryLocation::Host, entries as usize * 4)?,
        waiting: request.waiting,
    })?;
    let created = devx.completion_queue(&CompletionQueueOptions {
        entries,
        ring: ring_spot,
        records: spot,
        registers: registers.clone(),
    });
    let created = created.map_err(verbs_failed("create a completion queue by DEVX"))?;
    Ok((queue, created))
}
