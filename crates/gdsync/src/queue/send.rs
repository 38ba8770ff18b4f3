//! The send queue: WQEs are prepared in its ring; the CPU or a stream rings the doorbell.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

use gpu::MemOp;

use super::{fits, on_stream};
use crate::wire::{
    BLOCK, Completion, Control, Depth, Error as WireError, MAX_BLOCKS, Transport, Wqe, producer_of,
    queue_record,
};
use crate::{Error, MappedMemory};

/// Memory, QPN and transport of a send queue.
#[derive(Debug, Clone)]
pub struct SendParts {
    /// Blocks of 64 bytes: a power of two, at most 2^15.
    pub blocks: u32,
    /// The ring: 64 bytes per block.
    pub ring: MappedMemory,
    /// The doorbell record: 4 bytes.
    pub record: MappedMemory,
    /// False if the NIC does not read the doorbell record: the doorbell alone says what is posted.
    pub has_record: bool,
    /// The doorbell register: 8 bytes.
    pub register: MappedMemory,
    /// The two BlueFlame buffers, which begin with the register. `None` without BlueFlame, or where nothing maps them.
    pub flame: Option<MappedMemory>,
    /// The QPN.
    pub qpn: u32,
    /// The transport.
    pub transport: Transport,
}

/// A send queue. It counts blocks modulo 2^16; a WQE takes one to sixteen.
#[derive(Debug)]
pub struct SendQueue {
    parts: SendParts,
    depth: Depth,
    producer: u16,
    consumer: u16,
    /// Number of the next WQE, from 0.
    next: u64,
    /// WQEs in the ring without a completion.
    pending: VecDeque<Pending>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    index: u16,
    blocks: u16,
}

/// A WQE in the ring. The NIC executes it once its doorbell, or that of a later WQE, is rung.
///
/// Dropping it leaves it in the ring, and the next doorbell sends it too.
#[derive(Debug)]
#[must_use = "ring it or roll it back"]
pub struct Prepared {
    record: MappedMemory,
    register: MappedMemory,
    producer: u16,
    doorbell: u64,
    entry: Pending,
}

impl SendQueue {
    /// An empty queue. Sets its record to 0.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for an invalid depth; [`Error::Size`] for places of another size.
    pub fn new(parts: SendParts) -> Result<Self, Error> {
        let depth = Depth::work(parts.blocks)?;
        fits("a send queue", &parts.ring, parts.blocks as usize * BLOCK)?;
        fits("a doorbell record", &parts.record, 4)?;
        fits("a doorbell register", &parts.register, 8)?;
        parts.record.store_u32(0, queue_record(0))?;
        Ok(Self { parts, depth, producer: 0, consumer: 0, next: 0, pending: VecDeque::new() })
    }

    /// Its memory, QPN and transport.
    #[must_use]
    pub fn parts(&self) -> &SendParts {
        &self.parts
    }

    /// The QPN.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.parts.qpn
    }

    /// Number of free blocks.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.depth.free(self.producer, self.consumer)
    }

    /// Number of prepared WQEs without a completion.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Writes a WQE into the ring without ringing the doorbell.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; [`Error::Transport`]; [`Error::Wire`] for an invalid WQE, or one longer than the queue.
    pub fn prepare(&mut self, entry: &Wqe) -> Result<Prepared, Error> {
        let transport = self.parts.transport;
        let has_address = entry.datagram.is_some();
        if has_address != (transport == Transport::Datagram) {
            let has = if has_address { "has" } else { "lacks" };
            return Err(Error::Transport { has, transport });
        }
        let mut bytes = [0; MAX_BLOCKS * BLOCK];
        let index = self.producer;
        let blocks = entry.encode(self.parts.qpn, index, &mut bytes)?;
        let (need, free) = (blocks as u32, self.free());
        if need > free {
            return Err(if need > self.depth.entries() {
                Error::Wire(WireError::Short { need: blocks * BLOCK, have: self.parts.ring.len() })
            } else {
                Error::Full { need, free }
            });
        }
        for (position, block) in bytes.chunks_exact(BLOCK).take(blocks).enumerate() {
            let slot = self.depth.slot(u32::from(index) + position as u32);
            self.parts.ring.write(slot as usize * BLOCK, block)?;
        }
        let entry = Pending { number: self.next, index, blocks: blocks as u16 };
        self.producer = index.wrapping_add(entry.blocks);
        self.next += 1;
        self.pending.push_back(entry);
        let first = bytes.first_chunk().copied().unwrap_or([0; BLOCK]);
        Ok(Prepared {
            record: self.parts.record.clone(),
            register: self.parts.register.clone(),
            producer: self.producer,
            doorbell: Control::doorbell(&first),
            entry,
        })
    }

    /// Removes the last prepared WQE. Its doorbell must not have been rung, not even by a stream.
    ///
    /// # Errors
    ///
    /// [`Error::NotLast`] if it is not the last one.
    pub fn roll_back(&mut self, prepared: Prepared) -> Result<(), Error> {
        let number = prepared.entry.number;
        match self.pending.back() {
            Some(last) if last.number == number => {
                self.producer = last.index;
                self.next = number;
                self.pending.pop_back();
                Ok(())
            }
            _ => Err(Error::NotLast { number, last: self.next.saturating_sub(1) }),
        }
    }

    /// Frees the WQE of a completion and all earlier ones, and returns its number, from 0.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownEntry`] for another completion; the queue is unchanged.
    pub fn complete(&mut self, completion: &Completion) -> Result<u64, Error> {
        let (qpn, counter) = (completion.qpn, completion.counter);
        let known = qpn == self.parts.qpn && completion.event.is_send();
        let mut entries = self.pending.iter().enumerate();
        let found = entries.find(|(_, entry)| known && entry.index == counter);
        let (position, &entry) = found.ok_or(Error::UnknownEntry { qpn, counter })?;
        self.pending.drain(..=position);
        self.consumer = entry.index.wrapping_add(entry.blocks);
        Ok(entry.number)
    }
}

impl Prepared {
    /// Number of the WQE, from 0, as [`SendQueue::complete`] returns it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.entry.number
    }

    /// WQE counter of its CQE: the first block.
    #[must_use]
    pub fn counter(&self) -> u16 {
        self.entry.index
    }

    /// True once its doorbell, or that of a later WQE, is rung: the record covers it.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`], not for aligned words such as these.
    pub fn is_rung(&self) -> Result<bool, Error> {
        let record = producer_of(self.record.load_u32(0)?);
        // At most half the range of the counter lies between the two.
        Ok(record.wrapping_sub(self.producer) < 1 << 15)
    }

    /// The operations that ring its doorbell: record, barrier, register.
    #[must_use]
    pub fn ops(&self) -> [MemOp<MappedMemory>; 3] {
        [
            MemOp::Write32 { at: self.record.clone(), value: queue_record(self.producer) },
            MemOp::Barrier,
            MemOp::Write64 { at: self.register.clone(), value: self.doorbell },
        ]
    }

    /// [`Self::ops`] for a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] for places that the GPU cannot access.
    pub fn operations(&self) -> Result<[MemOp; 3], Error> {
        let [record, barrier, register] = self.ops().map(on_stream);
        Ok([record?, barrier?, register?])
    }

    /// Rings its doorbell by the CPU.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`], not for aligned words such as these.
    pub fn ring(self) -> Result<(), Error> {
        self.record.store_u32(0, queue_record(self.producer))?;
        fence(Ordering::SeqCst);
        self.register.store_u64(0, self.doorbell)
    }
}
