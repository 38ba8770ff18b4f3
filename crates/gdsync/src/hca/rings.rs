//! The HCA's part of work queues: allocates their memory and reads WQEs.

use std::sync::atomic::{Ordering, fence};

use crate::hca::completer::Completer;
use crate::hca::{Driver, Request};
use crate::queue::{
    CompletionParts, CompletionQueue, ReceiveParts, ReceiveQueue, SendParts, SendQueue,
};
use crate::wire::{
    BLOCK, Control, DataSegment, Depth, Operation, SEGMENT, Transport, decode_receive, producer_of,
};
use crate::{Allocator, Error, MappedMemory, MemoryLocation};

/// Bytes of a BlueFlame buffer, as on a ConnectX.
const FLAME: usize = 256;

/// Reads the send queue.
#[derive(Debug)]
pub(in crate::hca) struct SendSide {
    pub ring: MappedMemory,
    pub record: MappedMemory,
    /// The last doorbell of a queue without a doorbell record. `None`: it has one.
    pub last: Option<u64>,
    /// Two BlueFlame buffers, each of which begins with a doorbell.
    pub buffers: MappedMemory,
    pub depth: Depth,
    /// The next block.
    pub cursor: u16,
    /// The end of the blocks with a doorbell.
    pub producer: u16,
}

/// Reads the receive queue.
#[derive(Debug)]
pub(in crate::hca) struct ReceiveSide {
    pub ring: MappedMemory,
    pub record: MappedMemory,
    pub depth: Depth,
    pub stride: usize,
    /// The next WQE.
    pub cursor: u16,
}

/// Software's and the HCA's parts of a queue pair.
#[derive(Debug)]
pub(in crate::hca) struct Rings {
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub completers: [Completer; 2],
    /// Software's completion queues, of sends and of receives.
    pub completions: [CompletionQueue; 2],
}

impl Rings {
    /// Allocates a queue pair's memory.
    pub(in crate::hca) fn take(allocator: &Allocator, request: &Request) -> Result<Self, Error> {
        // Check depths before allocating.
        let depth = Depth::work(request.send_blocks)?;
        let receives = Depth::work(request.receives)?;
        let stride = Depth::work(request.receive_segments)?.entries() as usize * SEGMENT;
        // One place for both records, the receive queue's first, as on a NIC.
        let records = allocator.place(request.records, 8)?;
        let send = SendSide {
            ring: allocator.place(request.queues, depth.entries() as usize * BLOCK)?,
            record: records.part(4, 4)?,
            last: (request.driver == Driver::KernelsWithoutRecord).then_some(0),
            buffers: allocator.place(MemoryLocation::Host, 2 * FLAME)?,
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
        let [send_location, receive_location] = request.completions;
        let (sent, send_completer) =
            completions(allocator, request, request.send_completions, send_location)?;
        let (received, receive_completer) =
            completions(allocator, request, request.receive_completions, receive_location)?;
        Ok(Self {
            send,
            receive,
            completers: [send_completer, receive_completer],
            completions: [sent, received],
        })
    }

    /// Software's work queues.
    pub(in crate::hca) fn local(
        &self,
        qpn: u32,
        transport: Transport,
    ) -> Result<(SendQueue, ReceiveQueue), Error> {
        let (send, receive) = (&self.send, &self.receive);
        let sends = SendQueue::new(SendParts {
            blocks: send.depth.entries(),
            ring: send.ring.clone(),
            record: send.record.clone(),
            has_record: send.last.is_none(),
            register: send.buffers.part(0, 8)?,
            flame: send.last.is_none().then(|| send.buffers.clone()),
            qpn,
            transport,
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

/// Software's and the HCA's part of a completion queue.
fn completions(
    allocator: &Allocator,
    request: &Request,
    entries: u32,
    location: MemoryLocation,
) -> Result<(CompletionQueue, Completer), Error> {
    let depth = Depth::completions(entries)?;
    let place =
        |location, bytes| -> Result<MappedMemory, Error> { allocator.place(location, bytes) };
    let parts = CompletionParts {
        entries,
        ring: place(location, depth.entries() as usize * BLOCK)?,
        record: place(request.records, 4)?,
        busy: place(MemoryLocation::Host, depth.entries() as usize * 4)?,
        waiting: request.waiting,
    };
    let completer =
        Completer { ring: parts.ring.clone(), record: parts.record.clone(), depth, producer: 0 };
    Ok((CompletionQueue::new(parts)?, completer))
}

impl SendSide {
    /// `count` blocks at the cursor.
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

    /// Number of blocks with a doorbell after the cursor.
    pub(in crate::hca) fn left(&self) -> u16 {
        self.producer.wrapping_sub(self.cursor)
    }

    /// The doorbell, if one was rung. Without a record the register is never cleared, which could lose a doorbell: two doorbells in a row
    /// differ by their index.
    pub(in crate::hca) fn doorbell(&self) -> Option<u64> {
        let none = self.last.unwrap_or(0);
        let rung = |at| self.buffers.load_u64(at).ok().filter(|value| *value != none);
        match self.last {
            Some(_) => rung(0),
            None => rung(0).or_else(|| rung(FLAME)),
        }
    }

    /// Takes a doorbell, and returns the end of the blocks that it covers.
    ///
    /// Clears the doorbell register, then reads the record. In this order no doorbell is lost: a second one is either still
    /// in the register, or its record is already there.
    pub(in crate::hca) fn acknowledge(&mut self, doorbell: u64) -> Option<u16> {
        if let Some(last) = &mut self.last {
            *last = doorbell;
            return Some(Control::end(doorbell));
        }
        let cleared = self.buffers.store_u64(0, 0);
        let cleared = cleared.and(self.buffers.store_u64(FLAME, 0));
        fence(Ordering::SeqCst);
        let record = self.record.load_u32(0);
        cleared.and(record).ok().map(producer_of)
    }

    /// Opcode byte and number of blocks of the WQE at the cursor, as far as it is readable.
    pub(in crate::hca) fn peek(&self) -> (u8, u16) {
        let first = self.blocks(1).unwrap_or_default();
        let blocks = Control::decode(&first).map_or(1, |control| control.blocks() as u16);
        let opcode = first.get(3).copied().unwrap_or(0);
        (opcode, blocks.min(self.left()))
    }
}

impl ReceiveSide {
    /// True if a WQE is posted.
    pub(in crate::hca) fn is_posted(&self) -> bool {
        let producer = self.record.load_u32(0).map(producer_of);
        producer.is_ok_and(|producer| self.depth.free(producer, self.cursor) < self.depth.entries())
    }

    /// Consumes the posted WQE, even if malformed: its counter and segments.
    pub(in crate::hca) fn take(&mut self) -> (u16, Result<Vec<DataSegment>, Error>) {
        let counter = self.cursor;
        self.cursor = counter.wrapping_add(1);
        (counter, self.segments(counter))
    }

    /// The segments of a WQE. Reads it up to its end segment only: the rest of the stride is in other cache lines.
    fn segments(&self, counter: u16) -> Result<Vec<DataSegment>, Error> {
        let start = self.depth.slot(counter.into()) as usize * self.stride;
        let mut segments = Vec::new();
        let mut bytes = [0; BLOCK];
        for offset in (0..self.stride).step_by(BLOCK) {
            let length = BLOCK.min(self.stride - offset);
            let block = bytes.get_mut(..length).unwrap_or_default();
            self.ring.read(start + offset, block)?;
            let found = decode_receive(block)?;
            let is_whole = found.len() * SEGMENT == length;
            segments.extend(found);
            if !is_whole {
                break;
            }
        }
        Ok(segments)
    }
}

/// True if the operation returns data to the requester.
pub(in crate::hca) fn brings(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
    )
}
