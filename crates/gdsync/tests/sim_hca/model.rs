//! Reference model: executes WQEs on two byte arrays. Also generates random WQEs.

use std::collections::VecDeque;

use super::table::{
    COMPARE_SWAP, CQ_UPDATE, CompletionEntry, FETCH_ADD, NOP, READ, SEND, SEND_IMM, SOLICITED,
    SendEntry, WRITE, WRITE_IMM,
};

/// Bytes of each side's memory.
pub const MEMORY: usize = 4096;

/// One WQE. `pieces` are offsets and lengths in local memory, `remote` is an offset in remote memory.
#[derive(Debug, Clone, Default)]
pub struct Op {
    pub opcode: u8,
    pub signalled: bool,
    pub solicited: bool,
    pub immediate: u32,
    pub remote: usize,
    pub pieces: Vec<(usize, u32)>,
    pub inline: Option<Vec<u8>>,
    /// The summand or the new value.
    pub first: u64,
    /// The value to compare.
    pub second: u64,
}

/// Address and key of a memory.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    pub base: u64,
    pub key: u32,
}

impl Op {
    pub fn is_atomic(&self) -> bool {
        matches!(self.opcode, COMPARE_SWAP | FETCH_ADD)
    }

    pub fn has_remote(&self) -> bool {
        matches!(self.opcode, WRITE | WRITE_IMM | READ) || self.is_atomic()
    }

    pub fn has_immediate(&self) -> bool {
        matches!(self.opcode, WRITE_IMM | SEND_IMM)
    }

    /// True if it consumes a receive WQE.
    pub fn takes_receive(&self) -> bool {
        matches!(self.opcode, SEND | SEND_IMM | WRITE_IMM)
    }

    pub fn length(&self) -> usize {
        match &self.inline {
            Some(bytes) => bytes.len(),
            None => self.pieces.iter().map(|&(_, length)| length as usize).sum(),
        }
    }

    /// The reference encoding.
    pub fn table(&self, index: u16, qpn: u32, local: Address, peer: Address) -> SendEntry {
        let signalled = if self.signalled { CQ_UPDATE } else { 0 };
        let solicited = if self.solicited { SOLICITED } else { 0 };
        let piece =
            |&(offset, length): &(usize, u32)| (length, local.key, local.base + offset as u64);
        SendEntry {
            opcode: self.opcode,
            index,
            qpn,
            flags: signalled | solicited,
            immediate: if self.has_immediate() { self.immediate } else { 0 },
            remote: self.has_remote().then(|| (peer.base + self.remote as u64, peer.key)),
            atomic: match self.opcode {
                COMPARE_SWAP => Some((self.first, self.second)),
                FETCH_ADD => Some((self.first, 0)),
                _ => None,
            },
            segments: self.pieces.iter().map(piece).collect(),
            inline: self.inline.clone(),
        }
    }
}

/// Both memories and the posted receives.
#[derive(Debug, Clone)]
pub struct Model {
    pub local: Vec<u8>,
    pub peer: Vec<u8>,
    posted: VecDeque<(u16, Vec<(usize, u32)>)>,
    posts: u16,
}

impl Model {
    pub fn new(local: Vec<u8>, peer: Vec<u8>) -> Self {
        Self { local, peer, posted: VecDeque::new(), posts: 0 }
    }

    pub fn post(&mut self, pieces: &[(usize, u32)]) {
        self.posted.push_back((self.posts, pieces.to_vec()));
        self.posts = self.posts.wrapping_add(1);
    }

    /// Executes a WQE at block `index`. Returns the CQEs of the send and the receive queue.
    pub fn apply(
        &mut self,
        op: &Op,
        index: u16,
        qpn: u32,
    ) -> (Option<CompletionEntry>, Option<CompletionEntry>) {
        let outgoing = match &op.inline {
            Some(bytes) => bytes.clone(),
            None => op
                .pieces
                .iter()
                .flat_map(|&(offset, length)| self.local[offset..offset + length as usize].to_vec())
                .collect(),
        };
        let length = outgoing.len();
        let mut receive = None;
        let mut returned = Vec::new();
        match op.opcode {
            WRITE | WRITE_IMM => {
                self.peer[op.remote..op.remote + length].copy_from_slice(&outgoing)
            }
            READ => returned = self.peer[op.remote..op.remote + length].to_vec(),
            COMPARE_SWAP | FETCH_ADD => {
                let word = &mut self.peer[op.remote..op.remote + 8];
                returned = word.to_vec();
                let old = u64::from_le_bytes(returned.clone().try_into().unwrap());
                let new = match op.opcode {
                    FETCH_ADD => old.wrapping_add(op.first),
                    _ if old == op.second => op.first,
                    _ => old,
                };
                word.copy_from_slice(&new.to_le_bytes());
            }
            _ => {}
        }
        if op.takes_receive() {
            let (counter, pieces) = self.posted.pop_front().expect("something is posted");
            if op.opcode != WRITE_IMM {
                scatter(&mut self.peer, &pieces, &outgoing);
            }
            receive = Some(CompletionEntry {
                opcode: match op.opcode {
                    WRITE_IMM => 1,
                    SEND => 2,
                    _ => 3,
                },
                solicited: op.solicited,
                immediate: if op.has_immediate() { op.immediate } else { 0 },
                byte_count: length as u32,
                source: qpn,
                qpn,
                counter,
                ..CompletionEntry::default()
            });
        }
        scatter(&mut self.local, &op.pieces, &returned);
        let send = op.signalled.then(|| CompletionEntry {
            opcode: 0,
            byte_count: returned.len() as u32,
            send_opcode: op.opcode,
            qpn,
            counter: index,
            ..CompletionEntry::default()
        });
        (send, receive)
    }
}

fn scatter(memory: &mut [u8], pieces: &[(usize, u32)], mut bytes: &[u8]) {
    for &(offset, length) in pieces {
        let (part, rest) = bytes.split_at(bytes.len().min(length as usize));
        memory[offset..offset + part.len()].copy_from_slice(part);
        bytes = rest;
    }
}

/// Random numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// `count` pieces of at most `longest` bytes, some empty.
    pub fn pieces(&mut self, count: usize, longest: usize) -> Vec<(usize, u32)> {
        let piece = |_| {
            let length = if self.below(8) == 0 { 0 } else { self.below(longest) + 1 };
            (self.below(MEMORY - length), length as u32)
        };
        (0..count).map(piece).collect()
    }

    /// A WQE with `count` pieces or `count` inline bytes.
    pub fn op(&mut self, opcode: u8, count: usize, inline: bool) -> Op {
        let mut op = Op {
            opcode,
            signalled: self.below(2) == 0,
            solicited: self.below(4) == 0,
            immediate: self.next() as u32,
            first: self.next(),
            second: self.next(),
            ..Op::default()
        };
        if op.is_atomic() {
            op.remote = self.below(MEMORY / 8) * 8;
            op.pieces = vec![(self.below(MEMORY - 8), 8)];
        } else if opcode != NOP {
            if inline && opcode != READ {
                op.inline = Some(self.bytes(count))
            } else {
                op.pieces = self.pieces(count.min(30), 60)
            }
            op.remote = self.below(MEMORY - op.length());
        }
        op
    }
}

pub const OPCODES: [u8; 8] = [NOP, WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD];
