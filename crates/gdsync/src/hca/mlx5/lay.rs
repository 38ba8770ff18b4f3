//! Software's queues in the memory where a card's provider keeps them.

use gpu::{BorrowedMemory, Registration};
use verbs::{CompletionQueue as VerbsCompletions, Direct, QueuePair as Verbs, Ring, Words};

use super::{Error, gpu_failed, verbs_failed};
use crate::queue::{CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue, Waiting};
use crate::wire::{BLOCK, SEGMENT, Transport};
use crate::{Home, Place, Supply};

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

/// Takes over the queues of a queue pair that was just made by [`verbs::Domain::direct_queue_pair`], and of its two completion
/// queues: no other queue pair's, and nothing has completed yet. Their memory stays until the queues are dropped.
///
/// # Errors
///
/// [`Error::Shape`], [`Error::Register`], [`Error::Verbs`]; [`crate::Error::Gpu`] for records and rings that the GPU's driver does not
/// register.
pub fn lay_out<S>(
    supply: &Supply,
    pair: &Verbs<S, Direct>,
    [sent, received]: [&VerbsCompletions<Direct>; 2],
    transport: Transport,
    waiting: Waiting,
) -> Result<Laid, crate::Error> {
    let device = pair.domain().context().name();
    let told = pair.layout().map_err(verbs_failed("learn where a queue pair lies"))?;
    let records = reached(supply, &told.records.pages, "register doorbell records with the GPU")?;
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
        ring: unseen(supply, &told.send.memory)?,
        record: record(4)?,
        register: register(supply, &told.register)?,
        qpn: pair.number(),
        transport,
    })?;
    let receive = ReceiveQueue::new(ReceiveParts {
        entries,
        segments: told.receive.stride / SEGMENT as u32,
        ring: unseen(supply, &told.receive.memory)?,
        record: record(0)?,
        qpn: pair.number(),
    })?;
    Ok(Laid {
        send,
        receive,
        send_completions: completions(supply, device, sent, waiting)?,
        receive_completions: completions(supply, device, received, waiting)?,
    })
}

fn completions(
    supply: &Supply,
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
        ring: reached(supply, &told.ring.memory, "register a completion queue with the GPU")?,
        // The CPU alone tells the card how far it has polled.
        record: unseen(supply, pages)?.part(*offset, 4)?,
        busy: supply.place(Home::Host, told.ring.entries as usize * 4)?,
        waiting,
    })
}

/// A doorbell register, which the GPU rings.
pub(super) fn register(supply: &Supply, word: &Words) -> Result<Place, crate::Error> {
    let page = word.pages.for_gpu(supply.gpu(), Registration::Registers);
    Place::host(page.map_err(|source| Error::Register { source })?).part(word.offset, 8)
}

/// Memory that streams read and write too.
fn reached(supply: &Supply, memory: &BorrowedMemory, operation: &'static str) -> Result<Place, crate::Error> {
    let memory = memory.for_gpu(supply.gpu(), Registration::Memory);
    Ok(Place::host(memory.map_err(gpu_failed(operation))?))
}

/// Memory that the CPU alone writes.
fn unseen(supply: &Supply, memory: &BorrowedMemory) -> Result<Place, crate::Error> {
    let memory = memory.for_cpu(supply.gpu());
    Ok(Place::host(memory.map_err(gpu_failed("use a card's queue"))?))
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
