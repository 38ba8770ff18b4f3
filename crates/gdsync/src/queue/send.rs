//! The send queue: entries are prepared in its ring, and rung by the CPU or by a stream.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

use gpu::MemOp;

use super::{fits, on_stream};
use crate::wire::{
    BLOCK, Completion, Control, Depth, Error as WireError, MOST_BLOCKS, Transport, Wqe,
    queue_record,
};
use crate::{Error, Place};

/// Where a send queue lies, and whose it is.
#[derive(Debug, Clone)]
pub struct SendParts {
    /// Blocks of 64 bytes: a power of two, at most 2^15.
    pub blocks: u32,
    /// The ring: as many blocks.
    pub ring: Place,
    /// The doorbell record: 4 bytes.
    pub record: Place,
    /// The doorbell register: 8 bytes.
    pub register: Place,
    /// The queue pair's number.
    pub qpn: u32,
    /// What it speaks.
    pub transport: Transport,
}

/// A send queue. It counts blocks modulo 2^16; an entry takes one to sixteen.
#[derive(Debug)]
pub struct SendQueue {
    parts: SendParts,
    depth: Depth,
    producer: u16,
    consumer: u16,
    /// Number of the next entry, counted from 0.
    next: u64,
    /// What is in the ring and not known to be done.
    pending: VecDeque<Pending>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    index: u16,
    blocks: u16,
}

/// An entry that is in the ring, and of which the NIC knows nothing until its doorbell is rung: once, or together with a later one.
///
/// Dropped without being rung it stays in the ring, and the next doorbell sends it too.
#[derive(Debug)]
#[must_use = "nothing is sent until it is rung, or rolled back"]
pub struct Prepared {
    record: Place,
    register: Place,
    producer: u16,
    doorbell: u64,
    entry: Pending,
}

impl SendQueue {
    /// An empty queue. Its record is set to 0.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for a depth that is none; [`Error::Size`] for places of another size.
    pub fn new(parts: SendParts) -> Result<Self, Error> {
        let depth = Depth::work(parts.blocks)?;
        fits("a send queue", &parts.ring, parts.blocks as usize * BLOCK)?;
        fits("a doorbell record", &parts.record, 4)?;
        fits("a doorbell register", &parts.register, 8)?;
        parts.record.store_u32(0, queue_record(0))?;
        Ok(Self {
            parts,
            depth,
            producer: 0,
            consumer: 0,
            next: 0,
            pending: VecDeque::new(),
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn parts(&self) -> &SendParts {
        &self.parts
    }

    /// The queue pair's number.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.parts.qpn
    }

    /// Blocks that are free.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.depth.free(self.producer, self.consumer)
    }

    /// Entries that are prepared and not completed.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Writes an entry into the ring, and rings nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; [`Error::Transport`]; [`Error::Wire`] for an entry that cannot be, or is longer than the queue.
    pub fn prepare(&mut self, entry: &Wqe) -> Result<Prepared, Error> {
        let transport = self.parts.transport;
        match (entry.datagram.is_some(), transport) {
            (true, Transport::Connected) => {
                return Err(Error::Transport {
                    has: "has",
                    transport,
                });
            }
            (false, Transport::Datagram) => {
                return Err(Error::Transport {
                    has: "lacks",
                    transport,
                });
            }
            _ => {}
        }
        let mut bytes = [0; MOST_BLOCKS * BLOCK];
        let index = self.producer;
        let blocks = entry.encode(self.parts.qpn, index, &mut bytes)?;
        let (need, free) = (blocks as u32, self.free());
        if need > free {
            return Err(match need > self.depth.entries() {
                true => Error::Wire(WireError::Short {
                    need: blocks * BLOCK,
                    have: self.parts.ring.len(),
                }),
                false => Error::Full { need, free },
            });
        }
        for (position, block) in bytes.chunks_exact(BLOCK).take(blocks).enumerate() {
            let slot = self.depth.slot(u32::from(index) + position as u32);
            self.parts.ring.write(slot as usize * BLOCK, block)?;
        }
        let entry = Pending {
            number: self.next,
            index,
            blocks: blocks as u16,
        };
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

    /// Takes back the last entry that was prepared. It must never have been rung, by whomever.
    ///
    /// # Errors
    ///
    /// [`Error::NotLast`] if there is a later one.
    pub fn roll_back(&mut self, prepared: Prepared) -> Result<(), Error> {
        let number = prepared.entry.number;
        match self.pending.back() {
            Some(last) if last.number == number => {
                self.producer = last.index;
                self.next = number;
                self.pending.pop_back();
                Ok(())
            }
            _ => Err(Error::NotLast {
                number,
                last: self.next.saturating_sub(1),
            }),
        }
    }

    /// Frees the entry that a completion is of and those before it, and says which number it had, counted from 0.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownEntry`] for a completion of something else; the queue is as it was.
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
    /// Number of the entry, counted from 0: what [`SendQueue::complete`] tells.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.entry.number
    }

    /// What the completion of the entry counts: the block it starts at.
    #[must_use]
    pub fn counter(&self) -> u16 {
        self.entry.index
    }

    /// Rings its doorbell: the record, a barrier, the register.
    #[must_use]
    pub fn ops(&self) -> [MemOp<Place>; 3] {
        [
            MemOp::Write32 {
                at: self.record.clone(),
                value: queue_record(self.producer),
            },
            MemOp::Barrier,
            MemOp::Write64 {
                at: self.register.clone(),
                value: self.doorbell,
            },
        ]
    }

    /// [`Self::ops`] for a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] for places that the GPU does not reach.
    pub fn operations(&self) -> Result<[MemOp; 3], Error> {
        let [record, barrier, register] = self.ops().map(on_stream);
        Ok([record?, barrier?, register?])
    }

    /// Rings its doorbell, by the CPU.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`] for places that the CPU cannot write, which those of a queue are not.
    pub fn ring(self) -> Result<(), Error> {
        self.record.store_u32(0, queue_record(self.producer))?;
        fence(Ordering::SeqCst);
        self.register.store_u64(0, self.doorbell)
    }
}
