//! Creates a queue pair by DEVX commands.

use verbs::devx::{
    CompletionQueue as DevxCompletions, CompletionQueueOptions, Devx, QueuePair as DevxPair,
    QueuePairOptions, Registers, Spot,
};
use verbs::{ProtectionDomain, Reset, Words};

use super::memory::allocate;
use crate::hca::mlx5::queues::{Queues, flame, register};
use crate::hca::mlx5::{no_recordless_queues, verbs_failed};
use crate::hca::{Driver, Request};
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue,
};
use crate::wire::{BLOCK, SEGMENT};
use crate::{Allocator, MappedMemory, MemoryLocation};

/// Distance of doorbell records in bytes: one cache line each.
const APART: usize = 64;

/// What creates a queue pair by DEVX, and of which transport.
#[derive(Debug)]
pub struct Firmware {
    /// The NIC.
    pub devx: Devx,
    /// The protection domain.
    pub domain: ProtectionDomain,
    /// The transport: [`Request::transport`] does not tell RC from UC.
    pub transport: verbs::Transport,
    /// The user index in its CQEs, 24 bits.
    pub user_index: u32,
}

/// Creates software's queues and the DEVX objects, in RESET.
///
/// # Errors
///
/// [`Error::Verbs`](crate::hca::port::Error::Verbs), [`Error::GpuQueues`](crate::hca::port::Error::GpuQueues),
/// [`Error::Register`](crate::hca::port::Error::Register); [`crate::Error::NoMapping`] and errors of the allocation.
pub fn create(
    Firmware { devx, domain, transport, user_index }: &Firmware,
    allocator: &Allocator,
    request: &Request,
) -> Result<(Queues, DevxPair<Reset>), crate::Error> {
    let has_record = request.driver != Driver::KernelsWithoutRecord;
    if !has_record && !devx.capabilities().has_recordless_queues {
        let why = "its firmware has no such mode (send_dbr_mode_no_dbr_ext)".to_owned();
        return Err(no_recordless_queues(devx.context(), why));
    }
    let registers = devx.registers().map_err(verbs_failed("allocate a doorbell register"))?;
    // The send queue follows the receive queue and must start at a block.
    let stride = request.receive_segments as usize * SEGMENT;
    let receives = request.receives.max((BLOCK / stride.max(1)) as u32);
    let received = receives as usize * stride;
    let sent = request.send_blocks as usize * BLOCK;
    let (rings, rings_spot) = allocate(allocator, devx, request.queues, received + sent)?;
    let (records, records_spot) = allocate(allocator, devx, request.records, 3 * APART)?;
    let spot = |at: usize| Spot { offset: records_spot.offset + at, ..records_spot.clone() };
    let completions = |shape, at: usize| {
        let records = (records.part(at, 8)?, spot(at));
        completions((allocator, devx, &registers), request, shape, records)
    };
    let [send_location, receive_location] = request.completions;
    let (send_completions, sent_devx) =
        completions((request.send_completions, send_location), APART)?;
    let (receive_completions, received_devx) =
        completions((request.receive_completions, receive_location), 2 * APART)?;
    let options = QueuePairOptions {
        transport: *transport,
        send_blocks: request.send_blocks,
        receives,
        receive_stride: stride as u32,
        rings: rings_spot,
        records: spot(0),
        registers: registers.clone(),
        has_record,
        user_index: *user_index,
    };
    let pair = devx.queue_pair(domain, &options, &sent_devx, &received_devx);
    let pair = pair.map_err(verbs_failed("create a queue pair by DEVX"))?;
    let word = doorbell(&registers, has_record)?;
    let send = SendQueue::new(SendParts {
        blocks: request.send_blocks,
        ring: rings.part(received, sent)?,
        record: records.part(4, 4)?,
        has_record,
        flame: if has_record {
            flame(allocator, &word, devx.capabilities().inline_register)
        } else {
            None
        },
        register: register(allocator, &word, request.driver)?,
        qpn: pair.number(),
        transport: request.transport,
    })?;
    let receive = ReceiveQueue::new(ReceiveParts {
        entries: receives,
        segments: request.receive_segments,
        ring: rings.part(0, received)?,
        record: records.part(0, 4)?,
        qpn: pair.number(),
    })?;
    let queues = Queues { send, receive, send_completions, receive_completions };
    Ok((queues, pair))
}

fn doorbell(registers: &Registers, has_record: bool) -> Result<Words, crate::Error> {
    let word = if has_record { registers.register() } else { registers.recordless_register() };
    word.map_err(verbs_failed("find a doorbell register"))
}

/// A completion queue. Software's part comes first: it marks every slot as unwritten before the NIC may write one.
fn completions(
    (allocator, devx, registers): (&Allocator, &Devx, &Registers),
    request: &Request,
    (entries, location): (u32, MemoryLocation),
    (record, spot): (MappedMemory, Spot),
) -> Result<(CompletionQueue, DevxCompletions), crate::Error> {
    let bytes = entries as usize * BLOCK;
    let (ring, ring_spot) = allocate(allocator, devx, location, bytes)?;
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
