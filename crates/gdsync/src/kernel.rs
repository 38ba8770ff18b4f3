//! Queue pairs whose send side a kernel drives ([`gpu::Stream::post`]): it builds the WQEs, rings the doorbell and polls the CQEs.
//!
//! The queue pair's [`SendQueue`](crate::queue::SendQueue) and send completion queue do not know what the kernel does: nothing else may
//! use them.
//!
//! One kernel, `post.ptx`, posts a list of requests again and again: a block of threads has one queue pair, its threads build the WQEs of
//! a batch, and one of them rings and polls. A request is any WQE, so the oracle that compares `wire` compares the kernel too: its Rust
//! version in `gpu::sim` here, its PTX on a GPU by `exercise_kernel`. The Rust version finds memory as the GPU's page tables do.
//! `hca::Driver` says who drives: a NIC's queues are mapped for the GPU only as far as that needs. It may leave out the doorbell record of
//! sends, where the NIC's firmware has that mode: then the doorbell alone says what is posted.

use gpu::{DevicePayload, DeviceQueue, DeviceRange, DeviceRequest};

use crate::hca::QueuePair;
use crate::place::MemoryRef;
use crate::wire::{BLOCK, MAX_BLOCKS, Payload, SEGMENT, Wqe};
use crate::{Error, MappedMemory};

/// A request that a kernel posts.
#[derive(Debug, Clone)]
pub struct KernelRequest {
    /// What the kernel builds. Its inline data is what `inline` holds.
    pub wqe: Wqe,
    /// Bytes that the kernel copies into the WQE, instead of its payload.
    pub inline: Option<MappedMemory>,
    /// A message that the kernel writes before each post.
    pub source: Option<MappedMemory>,
    /// Where the message arrives.
    pub destination: Option<MappedMemory>,
}

/// How a kernel rings.
#[derive(Debug, Clone)]
pub enum Doorbell {
    /// By 8 bytes to the register.
    Eight,
    /// By the WQE, to the BlueFlame buffers.
    BlueFlame,
    /// By 8 bytes to a word that a CPU thread copies to the register.
    Assisted(MappedMemory),
}

/// A new queue pair's send side for a kernel.
///
/// # Errors
///
/// [`Error::NoBlueFlame`]; [`Error::Gpu`] for memory that the GPU cannot access; [`Error::Wire`] for an invalid WQE.
pub fn queue(
    pair: &QueuePair,
    requests: &[KernelRequest],
    doorbell: &Doorbell,
) -> Result<DeviceQueue, Error> {
    let (send, completions) = (pair.send.parts(), pair.send_completions.parts());
    let (register, flame) = match doorbell {
        Doorbell::Eight => (&send.register, 0),
        Doorbell::Assisted(word) => (word, 0),
        Doorbell::BlueFlame => {
            let buffers = send.flame.as_ref().ok_or(Error::NoBlueFlame)?;
            (buffers, buffers.len() as u32 / 2)
        }
    };
    let requests = requests.iter().map(request);
    Ok(DeviceQueue {
        ring: range(&send.ring)?,
        record: send.has_record.then(|| range(&send.record)).transpose()?,
        register: range(register)?,
        flame,
        completions: range(&completions.ring)?,
        completion_record: Some(range(&completions.record)?),
        qpn: send.qpn,
        posted: 0,
        polled: pair.send_completions.consumer(),
        requests: requests.collect::<Result<_, _>>()?,
    })
}

/// A request for a kernel.
///
/// # Errors
///
/// As [`queue`].
pub fn request(request: &KernelRequest) -> Result<DeviceRequest, Error> {
    let KernelRequest { wqe, inline, source, destination } = request;
    let payload = match (inline, &wqe.payload) {
        (Some(place), _) => DevicePayload::Inline(range(place)?),
        (None, Payload::Inline(bytes)) if !bytes.is_empty() => {
            return Err(Error::Size {
                what: "inline data that a kernel copies",
                need: bytes.len(),
                have: 0,
            });
        }
        (None, Payload::Inline(_)) => DevicePayload::Segments(Vec::new()),
        (None, Payload::Segments(segments)) => {
            let values = segments.iter();
            let values = values.map(|segment| (segment.address, segment.length, segment.key));
            DevicePayload::Segments(values.collect())
        }
    };
    let optional = |place: &Option<MappedMemory>| place.as_ref().map(range).transpose();
    Ok(DeviceRequest {
        opcode: wqe.operation.opcode() as u8,
        flags: wqe.flags.bits(),
        immediate: wqe.operation.immediate().unwrap_or(0),
        remote: wqe.operation.remote().map(|remote| (remote.address, remote.key)),
        atomic: wqe.operation.atomic(),
        datagram: datagram(wqe)?,
        payload,
        source: optional(source)?,
        destination: optional(destination)?,
    })
}

/// The address segment of a datagram.
fn datagram(wqe: &Wqe) -> Result<Option<[u8; 48]>, Error> {
    if wqe.datagram.is_none() {
        return Ok(None);
    }
    let bare = Wqe { payload: Payload::none(), ..wqe.clone() };
    let mut bytes = [0; MAX_BLOCKS * BLOCK];
    bare.encode(0, 0, &mut bytes)?;
    Ok(bytes.get(SEGMENT..).and_then(|bytes| bytes.first_chunk()).copied())
}

/// All of a place for a kernel.
///
/// # Errors
///
/// [`Error::Gpu`] for memory that the GPU cannot access.
pub fn range(place: &MappedMemory) -> Result<DeviceRange, Error> {
    let (memory, start) = place.whole();
    let range = match memory {
        MemoryRef::Host(memory) => DeviceRange::new(memory, start, place.len()),
        MemoryRef::Device(memory) => DeviceRange::new(memory, start, place.len()),
    };
    range.map_err(|source| Error::Gpu { operation: "pass a queue to a kernel", source })
}
