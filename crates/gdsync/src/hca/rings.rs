//! The HCA's side of the rings that software's queues lie in: how entries are read, and what is made for a queue pair.

use crate::hca::Request;
use crate::hca::completer::Completer;
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue,
};
use crate::wire::{
    BLOCK, DataSegment, Depth, Operation, SEGMENT, Transport, decode_receive, producer_of,
};
use crate::{Allocator, Error, MemoryLocation, Place};

/// The send queue, as it is read.
#[derive(Debug)]
pub(in crate::hca) struct SendSide {
    pub ring: Place,
    pub record: Place,
    pub register: Place,
    pub depth: Depth,
    /// The block that is next.
    pub cursor: u16,
    /// Up to which block doorbells have been rung.
    pub producer: u16,
}

/// The receive queue, as it is read.
#[derive(Debug)]
pub(in crate::hca) struct ReceiveSide {
    pub ring: Place,
    pub record: Place,
    pub depth: Depth,
    pub stride: usize,
    /// The entry that is next.
    pub cursor: u16,
}

/// Both sides' view of a queue pair's places.
#[derive(Debug)]
pub(in crate::hca) struct Rings {
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub completers: [Completer; 2],
    /// Software's completion queues, of sends and of receives.
    pub completions: [CompletionQueue; 2],
}

impl Rings {
    /// Takes a queue pair's places.
    pub(in crate::hca) fn take(allocator: &Allocator, request: &Request) -> Result<Self, Error> {
        // Depths are checked before anything of their size is allocated.
        let depth = Depth::work(request.send_blocks)?;
        let receives = Depth::work(request.receives)?;
        let stride = Depth::work(request.receive_segments)?.entries() as usize * SEGMENT;
        // The receive queue's record first, as in a NIC's: both are of one place.
        let records = allocator.place(request.records, 8)?;
        let send = SendSide {
            ring: allocator.place(request.queues, depth.entries() as usize * BLOCK)?,
            record: records.part(4, 4)?,
            // Registers are the HCA's own.
            register: allocator.place(MemoryLocation::Host, 8)?,
            depth,
            cursor: 0,
            producer: 0,
        };
        let receive = ReceiveSide {
            ring: allocator.place(request.queues, receives.entries() as usize * stride)?,
            record: records.part(0, 4)?,
            depth: receives,
            stride,
            cursor: 0,
        };
        let (sent, send_completer) = completions(allocator, request, request.send_completions)?;
        let (received, receive_completer) =
            completions(allocator, request, request.receive_completions)?;
        Ok(Self {
            send,
            receive,
            completers: [send_completer, receive_completer],
            completions: [sent, received],
        })
    }

    /// Software's queues, of the queue pair of this number.
    pub(in crate::hca) fn local(&self, qpn: u32) -> Result<(SendQueue, ReceiveQueue), Error> {
        let (send, receive) = (&self.send, &self.receive);
        let sends = SendQueue::new(SendParts {
            blocks: send.depth.entries(),
            ring: send.ring.clone(),
            record: send.record.clone(),
            register: send.register.clone(),
            qpn,
            transport: Transport::Connected,
        })?;
        let receives = ReceiveQueue::new(ReceiveParts {
            entries: receive.depth.entries(),
            segments: (receive.stride / SEGMENT) as u32,
            ring: receive.ring.clone(),
            record: receive.record.clone(),
            qpn,
        })?;
        Ok((sends, receives))
    }
}

/// A completion queue from both sides.
fn completions(
    allocator: &Allocator,
    request: &Request,
    entries: u32,
) -> Result<(CompletionQueue, Completer), Error> {
    let depth = Depth::completions(entries)?;
    let place = |location, bytes| -> Result<Place, Error> { allocator.place(location, bytes) };
    let parts = CompletionParts {
        entries,
        ring: place(request.completions, depth.entries() as usize * BLOCK)?,
        record: place(request.records, 4)?,
        busy: place(MemoryLocation::Host, depth.entries() as usize * 4)?,
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

impl SendSide {
    /// `count` blocks from the cursor on.
    pub(in crate::hca) fn blocks(&self, count: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; count * BLOCK];
        for (position, block) in bytes.chunks_exact_mut(BLOCK).enumerate() {
            let slot = self.depth.slot(u32::from(self.cursor) + position as u32);
            self.ring.read(slot as usize * BLOCK, block)?;
        }
        Ok(bytes)
    }

    pub(in crate::hca) fn is_empty(&self) -> bool {
        self.cursor == self.producer
    }

    /// Blocks that were rung for and not taken.
    pub(in crate::hca) fn left(&self) -> u16 {
        self.producer.wrapping_sub(self.cursor)
    }
}

impl ReceiveSide {
    /// Whether an entry is posted.
    pub(in crate::hca) fn is_posted(&self) -> bool {
        let producer = self.record.load_u32(0).map(producer_of);
        producer.is_ok_and(|producer| self.depth.free(producer, self.cursor) < self.depth.entries())
    }

    /// The posted entry: its counter and segments. It is taken, also where it cannot be read.
    pub(in crate::hca) fn take(&mut self) -> (u16, Result<Vec<DataSegment>, Error>) {
        let counter = self.cursor;
        self.cursor = counter.wrapping_add(1);
        let mut bytes = vec![0; self.stride];
        let slot = self.depth.slot(counter.into()) as usize;
        let read = self.ring.read(slot * self.stride, &mut bytes);
        (counter, read.and_then(|()| Ok(decode_receive(&bytes)?)))
    }
}

/// What a requester brings here.
pub(in crate::hca) fn brings(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
    )
}
