//! Software's queues in the memory of the NIC's provider.

use gpu::{BorrowedMemory, Registration};
use verbs::{CompletionQueue as VerbsCompletions, Direct, QueuePair as Verbs, Ring, Words};

use super::{Error, gpu_failed, verbs_failed};
use crate::hca::{Driver, Request};
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue,
};
use crate::wire::{BLOCK, SEGMENT};
use crate::{Allocator, MappedMemory, MemoryLocation};

/// The queues of a queue pair.
#[derive(Debug)]
pub struct Queues {
    /// The send queue.
    pub send: SendQueue,
    /// The receive queue.
    pub receive: ReceiveQueue,
    /// Completions of the send queue.
    pub send_completions: CompletionQueue,
    /// Completions of the receive queue.
    pub receive_completions: CompletionQueue,
}

/// Takes over the queues of a new queue pair of [`verbs::ProtectionDomain::direct_queue_pair`] and its two completion queues,
/// which no other queue pair uses and which are empty. Their memory lives as long as the result.
///
/// # Errors
///
/// [`Error::Shape`], [`Error::Register`], [`Error::Verbs`]; [`crate::Error::Gpu`] if the GPU's driver does not register the
/// memory.
pub fn wrap<S>(
    allocator: &Allocator,
    pair: &Verbs<S, Direct>,
    [sent, received]: [&VerbsCompletions<Direct>; 2],
    request: &Request,
) -> Result<Queues, crate::Error> {
    let device = pair.domain().context().name();
    let layout = pair.layout().map_err(verbs_failed("read the layout of a queue pair"))?;
    let records = shared_with_gpu(
        allocator,
        &layout.records.pages,
        "register doorbell records with the GPU",
    )?;
    let record = |at: usize| records.part(layout.records.offset + at, 4);
    let (blocks, entries) = (layout.send.entries, layout.receive.entries);
    if layout.send.stride as usize != BLOCK {
        return Err(shape(
            device,
            "a send queue",
            &layout.send,
            "blocks must have 64 bytes".to_owned(),
        ));
    }
    let send = SendQueue::new(SendParts {
        blocks,
        ring: for_driver(allocator, &layout.send.memory, request.driver)?,
        record: record(4)?,
        has_record: true,
        flame: flame(allocator, &layout.register, layout.inline_register),
        register: register(allocator, &layout.register, request.driver)?,
        qpn: pair.number(),
        transport: request.transport,
    })?;
    let receive = ReceiveQueue::new(ReceiveParts {
        entries,
        segments: layout.receive.stride / SEGMENT as u32,
        ring: cpu_only(allocator, &layout.receive.memory)?,
        record: record(0)?,
        qpn: pair.number(),
    })?;
    Ok(Queues {
        send,
        receive,
        send_completions: completions(allocator, device, sent, request)?,
        receive_completions: completions(allocator, device, received, request)?,
    })
}

fn completions(
    allocator: &Allocator,
    device: &str,
    queue: &VerbsCompletions<Direct>,
    request: &Request,
) -> Result<CompletionQueue, crate::Error> {
    let layout = queue.layout();
    let layout = layout.map_err(verbs_failed("read the layout of a completion queue"))?;
    if layout.ring.stride as usize != BLOCK {
        let need = "streams need CQEs of 64 bytes: set MLX5_CQE_SIZE=64".to_owned();
        return Err(shape(device, "a completion queue", &layout.ring, need));
    }
    let Words { pages, offset } = &layout.records;
    CompletionQueue::new(CompletionParts {
        entries: layout.ring.entries,
        ring: shared_with_gpu(
            allocator,
            &layout.ring.memory,
            "register a completion queue with the GPU",
        )?,
        record: for_driver(allocator, pages, request.driver)?.part(*offset, 4)?,
        busy: allocator.place(MemoryLocation::Host, layout.ring.entries as usize * 4)?,
        waiting: request.waiting,
    })
}

/// A doorbell register, mapped for what rings it.
pub(super) fn register(
    allocator: &Allocator,
    word: &Words,
    driver: Driver,
) -> Result<MappedMemory, crate::Error> {
    if driver == Driver::Assisted {
        return cpu_only(allocator, &word.pages)?.part(word.offset, 8);
    }
    let page = word.pages.for_gpu(allocator.gpu(), Registration::Registers);
    MappedMemory::host(page.map_err(|source| Error::Register { source })?).part(word.offset, 8)
}

/// The two BlueFlame buffers of `bytes` bytes that begin with the register, if its page has them.
pub(super) fn flame(allocator: &Allocator, word: &Words, bytes: u32) -> Option<MappedMemory> {
    let page = word.pages.for_gpu(allocator.gpu(), Registration::Registers).ok()?;
    let has = bytes > 0 && word.offset.is_multiple_of(2 * bytes as usize);
    has.then(|| MappedMemory::host(page).part(word.offset, 2 * bytes as usize).ok())?
}

/// Memory that the CPU writes, and kernels if they drive the queue.
fn for_driver(
    allocator: &Allocator,
    memory: &BorrowedMemory,
    driver: Driver,
) -> Result<MappedMemory, crate::Error> {
    match driver {
        Driver::Streams => cpu_only(allocator, memory),
        Driver::Kernels | Driver::KernelsWithoutRecord | Driver::Assisted => {
            shared_with_gpu(allocator, memory, "register a NIC's queue with the GPU")
        }
    }
}

/// Memory that streams access too.
fn shared_with_gpu(
    allocator: &Allocator,
    memory: &BorrowedMemory,
    operation: &'static str,
) -> Result<MappedMemory, crate::Error> {
    let memory = memory.for_gpu(allocator.gpu(), Registration::Memory);
    Ok(MappedMemory::host(memory.map_err(gpu_failed(operation))?))
}

/// Memory that only the CPU accesses.
fn cpu_only(allocator: &Allocator, memory: &BorrowedMemory) -> Result<MappedMemory, crate::Error> {
    let memory = memory.for_cpu(allocator.gpu());
    Ok(MappedMemory::host(memory.map_err(gpu_failed("use a NIC's queue"))?))
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
