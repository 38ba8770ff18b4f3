//! Software's queues in the memory where a NIC's provider keeps them.

use gpu::{BorrowedMemory, Registration};
use verbs::{CompletionQueue as VerbsCompletions, Direct, QueuePair as Verbs, Ring, Words};

use super::{Error, gpu_failed, verbs_failed};
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue, Waiting,
};
use crate::wire::{BLOCK, SEGMENT, Transport};
use crate::{Allocator, MemoryLocation, Place};

/// Software's queues of a queue pair.
#[derive(Debug)]
pub struct Laid {
    /// What is sent.
    pub send: SendQueue,
    /// What is posted for messages to come.
    pub receive: ReceiveQueue,
    /// Completions of the send queue.
    pub send_completions: CompletionQueue,
    /// Completions of the receive queue.
    pub receive_completions: CompletionQueue,
}

/// Takes over the queues of a queue pair that was just made by [`verbs::ProtectionDomain::direct_queue_pair`], and of its two completion
/// queues: no other queue pair's, and nothing has completed yet. Their memory stays until the queues are dropped.
///
/// # Errors
///
/// [`Error::Shape`], [`Error::Register`], [`Error::Verbs`]; [`crate::Error::Gpu`] for records and rings that the GPU's driver does not
/// register.
pub fn lay_out<S>(
    allocator: &Allocator,
    pair: &Verbs<S, Direct>,
    [sent, received]: [&VerbsCompletions<Direct>; 2],
    transport: Transport,
    waiting: Waiting,
) -> Result<Laid, crate::Error> {
    let device = pair.domain().context().name();
    let told = pair
        .layout()
        .map_err(verbs_failed("learn where a queue pair lies"))?;
    let records = reached(
        allocator,
        &told.records.pages,
        "register doorbell records with the GPU",
    )?;
    let record = |at: usize| records.part(told.records.offset + at, 4);
    let (blocks, entries) = (told.send.entries, told.receive.entries);
    if told.send.stride as usize != BLOCK {
        return Err(shape(
            device,
            "a send queue",
            &told.send,
            "blocks have 64 bytes".to_owned(),
        ));
    }
    let send = SendQueue::new(SendParts {
        blocks,
        ring: unseen(allocator, &told.send.memory)?,
        record: record(4)?,
        register: register(allocator, &told.register)?,
        qpn: pair.number(),
        transport,
    })?;
    let receive = ReceiveQueue::new(ReceiveParts {
        entries,
        segments: told.receive.stride / SEGMENT as u32,
        ring: unseen(allocator, &told.receive.memory)?,
        record: record(0)?,
        qpn: pair.number(),
    })?;
    Ok(Laid {
        send,
        receive,
        send_completions: completions(allocator, device, sent, waiting)?,
        receive_completions: completions(allocator, device, received, waiting)?,
    })
}

fn completions(
    allocator: &Allocator,
    device: &str,
    queue: &VerbsCompletions<Direct>,
    waiting: Waiting,
) -> Result<CompletionQueue, crate::Error> {
    let told = queue.layout();
    let told = told.map_err(verbs_failed("learn where a completion queue lies"))?;
    if told.ring.stride as usize != BLOCK {
        let need = "a stream waits at entries of 64 bytes: set MLX5_CQE_SIZE=64".to_owned();
        return Err(shape(device, "a completion queue", &told.ring, need));
    }
    let Words { pages, offset } = &told.records;
    CompletionQueue::new(CompletionParts {
        entries: told.ring.entries,
        ring: reached(
            allocator,
            &told.ring.memory,
            "register a completion queue with the GPU",
        )?,
        // The CPU alone tells the NIC how far it has polled.
        record: unseen(allocator, pages)?.part(*offset, 4)?,
        busy: allocator.place(MemoryLocation::Host, told.ring.entries as usize * 4)?,
        waiting,
    })
}

/// A doorbell register, which the GPU rings.
pub(super) fn register(allocator: &Allocator, word: &Words) -> Result<Place, crate::Error> {
    let page = word.pages.for_gpu(allocator.gpu(), Registration::Registers);
    Place::host(page.map_err(|source| Error::Register { source })?).part(word.offset, 8)
}

/// Memory that streams read and write too.
fn reached(
    allocator: &Allocator,
    memory: &BorrowedMemory,
    operation: &'static str,
) -> Result<Place, crate::Error> {
    let memory = memory.for_gpu(allocator.gpu(), Registration::Memory);
    Ok(Place::host(memory.map_err(gpu_failed(operation))?))
}

/// Memory that the CPU alone writes.
fn unseen(allocator: &Allocator, memory: &BorrowedMemory) -> Result<Place, crate::Error> {
    let memory = memory.for_cpu(allocator.gpu());
    Ok(Place::host(
        memory.map_err(gpu_failed("use a NIC's queue"))?,
    ))
}

pub(super) fn shape(device: &str, what: &'static str, ring: &Ring, need: String) -> crate::Error {
    let error = Error::Shape {
        device: device.to_owned(),
        what,
        count: ring.entries,
        bytes: ring.stride,
        need,
    };
    error.into()
}
