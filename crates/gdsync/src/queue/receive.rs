//! The receive queue, posted by the CPU.

use super::fits;
use crate::wire::{self, Completion, DataSegment, Depth, SEGMENT, queue_record};
use crate::{Error, MappedMemory};

/// Memory and QPN of a receive queue.
#[derive(Debug, Clone)]
pub struct ReceiveParts {
    /// Number of WQEs: a power of two, at most 2^15.
    pub entries: u32,
    /// Data segments per WQE: a power of two.
    pub segments: u32,
    /// The ring: 16 bytes × segments × WQEs.
    pub ring: MappedMemory,
    /// The doorbell record: 4 bytes.
    pub record: MappedMemory,
    /// The QPN.
    pub qpn: u32,
}

/// A receive queue. It has no doorbell register: the NIC reads the record when a message arrives.
#[derive(Debug)]
pub struct ReceiveQueue {
    parts: ReceiveParts,
    depth: Depth,
    stride: usize,
    /// The last WQE, as long as the stride.
    entry: Vec<u8>,
    producer: u16,
    consumer: u16,
    /// Number of completed WQEs.
    completed: u64,
}

impl ReceiveQueue {
    /// An empty queue. Sets its record to 0.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for an invalid depth; [`Error::Size`] for places of another size.
    pub fn new(parts: ReceiveParts) -> Result<Self, Error> {
        let depth = Depth::work(parts.entries)?;
        let segments = Depth::work(parts.segments)?;
        let stride = segments.entries() as usize * SEGMENT;
        fits("a receive queue", &parts.ring, parts.entries as usize * stride)?;
        fits("a doorbell record", &parts.record, 4)?;
        parts.record.store_u32(0, queue_record(0))?;
        Ok(Self {
            parts,
            depth,
            stride,
            entry: vec![0; stride],
            producer: 0,
            consumer: 0,
            completed: 0,
        })
    }

    /// Its memory and QPN.
    #[must_use]
    pub fn parts(&self) -> &ReceiveParts {
        &self.parts
    }

    /// Number of WQEs that can be posted.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.depth.free(self.producer, self.consumer)
    }

    /// Posts a WQE with these data segments and returns its number, from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; [`Error::Wire`] for segments that do not fit.
    pub fn post(&mut self, segments: &[DataSegment]) -> Result<u64, Error> {
        let free = self.free();
        if free == 0 {
            return Err(Error::Full { need: 1, free });
        }
        let length = wire::encode_receive(segments, &mut self.entry)?;
        let entry = self.entry.get(..length).unwrap_or_default();
        let slot = self.depth.slot(self.producer.into()) as usize;
        self.parts.ring.write(slot * self.stride, entry)?;
        let number = self.completed + u64::from(self.producer.wrapping_sub(self.consumer));
        self.producer = self.producer.wrapping_add(1);
        self.parts.record.store_u32(0, queue_record(self.producer))?;
        Ok(number)
    }

    /// Frees the WQE of a completion and returns its number. WQEs complete in posting order.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownEntry`] for another completion; the queue is unchanged.
    pub fn complete(&mut self, completion: &Completion) -> Result<u64, Error> {
        let (qpn, counter) = (completion.qpn, completion.counter);
        let known =
            qpn == self.parts.qpn && !completion.event.is_send() && counter == self.consumer;
        if !known || self.producer == self.consumer {
            return Err(Error::UnknownEntry { qpn, counter });
        }
        self.consumer = self.consumer.wrapping_add(1);
        self.completed += 1;
        Ok(self.completed - 1)
    }

    /// Bytes of a WQE in the ring.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }
}
