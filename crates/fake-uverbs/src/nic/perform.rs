//! What a request does: bytes move, or it fails as the InfiniBand specification has it, and the remote end's queue pair may break.

use std::time::Duration;

use crate::nic::arrival::{Message, Received};
use crate::nic::completion::kind;
use crate::nic::entry::{Control, Entry, Peer, Piece, opcode};
use crate::nic::memory::{self, Segment};
use crate::nic::pair::{Pair, RELIABLE};
use crate::nic::region::right;
use crate::nic::state::stage;
use crate::nic::syndrome;
use crate::nic::world::World;
use crate::switches::switches;

/// The longest message, as `QUERY_PORT` says.
const LONGEST: usize = 1 << 30;

/// How a request ended, or that it did not.
pub enum Outcome {
    /// So many bytes were moved.
    Done(usize),
    Failed(u8),
    /// It is to be tried again, for so long at most, and fails then.
    Waits(Option<Duration>, u8),
}

impl World {
    /// Executes what a request says.
    pub fn perform(&mut self, handle: u32, control: &Control, entry: &Entry) -> Outcome {
        if control.opcode == opcode::NOP {
            return Outcome::Done(0);
        }
        let Some(pair) = self.pairs.get(&handle) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let inline = entry
            .pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Inline(_)));
        if control.takes() && (inline || pair.now.max_rd_atomic == 0) {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        }
        let rights = if control.takes() {
            right::LOCAL_WRITE
        } else {
            0
        };
        let Some(local) = self.local(pair.domain, &entry.pieces, rights) else {
            return Outcome::Failed(syndrome::LOCAL_PROTECTION);
        };
        let bytes: usize = local.iter().map(|segment| segment.bytes).sum();
        if bytes > LONGEST || (control.is_atomic() && bytes != 8) {
            return Outcome::Failed(syndrome::LOCAL_LENGTH);
        }
        if let Some(to) = &entry.to {
            return self.datagram(handle, control, to, &local);
        }
        let Some(peer) = self.peer_end(handle) else {
            return Outcome::Waits(pair.now.unanswered(), syndrome::TRANSPORT_RETRY);
        };
        match entry.peer {
            None => self.send(handle, peer, control, &local),
            Some(at) if control.is_atomic() => self.word(peer, control, at, entry.operands, &local),
            Some(at) => self.reach(handle, peer, control, at, &local),
        }
    }

    /// The request's own bytes, and those that its keys name; none where a key does not.
    pub fn local(&self, domain: u32, pieces: &[Piece], rights: u32) -> Option<Vec<Segment>> {
        let segment = |piece: &Piece| match piece {
            Piece::Inline(bytes) => Some(Segment {
                address: bytes.as_ptr().expose_provenance(),
                bytes: bytes.len(),
            }),
            Piece::Named {
                key,
                address,
                bytes,
            } => self.segment(domain, *key, *address, *bytes, rights),
        };
        pieces.iter().map(segment).collect()
    }

    /// The queue pair that this one is connected to: it is there, it is connected back, both ports are up, and packets have the
    /// number that it waits for.
    fn peer_end(&self, handle: u32) -> Option<u32> {
        let pair = self.pairs.get(&handle)?;
        let own = &pair.now;
        let is_peer = |peer: &Pair| {
            peer.number == own.destination
                && peer.kind == pair.kind
                && peer.now.receives()
                && peer.now.destination == pair.number
                && peer.now.port == own.port
                && peer.now.receive_psn & 0xff_ffff == own.send_psn & 0xff_ffff
                // What answers finds its way back, too.
                && peer.now.is_reached
        };
        let goes_out = own.is_reached && !switches().is_down(own.port);
        let mut peer = self
            .pairs
            .iter()
            .filter(|(_, peer)| goes_out && is_peer(peer));
        peer.next().map(|(peer, _)| *peer)
    }

    /// A message for the remote end's receive queue.
    fn send(&mut self, handle: u32, peer: u32, control: &Control, local: &[Segment]) -> Outcome {
        // SAFETY: registered memory, which is mapped for as long as it is registered, or the request's own bytes.
        let Some(payload) = (unsafe { memory::gather(local) }) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let kind = if control.has_immediate() {
            kind::RECEIVED_SEND_IMM
        } else {
            kind::RECEIVED_SEND
        };
        let bytes = payload.len();
        self.arrive(handle, peer, control, kind, Some(&payload), bytes)
    }

    /// Gives the remote end's next receive what has arrived.
    fn arrive(
        &mut self,
        handle: u32,
        peer: u32,
        control: &Control,
        kind: u8,
        payload: Option<&[u8]>,
        bytes: usize,
    ) -> Outcome {
        let message = Message {
            payload: payload.unwrap_or_default(),
            kind,
            bytes,
            immediate: if control.has_immediate() {
                control.immediate
            } else {
                [0; 4]
            },
            is_solicited: control.is_solicited(),
            flags: 0,
        };
        let own = self.pairs.get(&handle).map(|pair| (pair.number, pair.now));
        let end = self.pairs.get(&peer).map(|pair| pair.now);
        let Some(((number, own), end)) = own.zip(end) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        match self.receive(peer, number, &message) {
            Received::Taken => Outcome::Done(bytes),
            Received::NoReceive => {
                Outcome::Waits(own.not_ready(&end), syndrome::RECEIVER_NOT_READY)
            }
            Received::TooLong => Outcome::Failed(syndrome::REMOTE_INVALID_REQUEST),
            Received::Broken => Outcome::Failed(syndrome::REMOTE_OPERATION),
        }
    }

    /// A write or a read of the remote end's memory.
    fn reach(
        &mut self,
        handle: u32,
        peer: u32,
        control: &Control,
        at: Peer,
        local: &[Segment],
    ) -> Outcome {
        let Some(end) = self.pairs.get(&peer) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        let rights = if control.takes() {
            right::REMOTE_READ
        } else {
            right::REMOTE_WRITE
        };
        if end.now.access & rights == 0 || (control.takes() && end.now.max_dest_rd_atomic == 0) {
            return self.refuse(peer, syndrome::REMOTE_INVALID_REQUEST);
        }
        let bytes = local.iter().map(|segment| segment.bytes).sum();
        // The key of no bytes is not looked at.
        let named = self.segment(end.domain, at.key, at.address, bytes, rights);
        let remote = match named {
            Some(remote) => Vec::from([remote]),
            None if bytes == 0 => Vec::new(),
            None => return self.refuse(peer, syndrome::REMOTE_ACCESS),
        };
        if control.has_immediate() && end.receives_left() == 0 {
            return self.arrive(handle, peer, control, kind::RECEIVED_WRITE_IMM, None, bytes);
        }
        let (from, to) = if control.takes() {
            (&remote[..], local)
        } else {
            (local, &remote[..])
        };
        // SAFETY: registered memory, or the request's own bytes.
        let Some(moved) = (unsafe { memory::gather(from) }) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        // SAFETY: registered memory, which its rights say may be written.
        unsafe { memory::scatter(&moved, to) };
        if control.has_immediate() {
            return self.arrive(handle, peer, control, kind::RECEIVED_WRITE_IMM, None, bytes);
        }
        Outcome::Done(bytes)
    }

    /// An atomic operation on a word of the remote end's memory; what was there comes back. Words are in the machine's byte order.
    fn word(
        &mut self,
        peer: u32,
        control: &Control,
        at: Peer,
        operands: (u64, u64),
        local: &[Segment],
    ) -> Outcome {
        let Some(end) = self.pairs.get(&peer) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        let is_able = end.now.access & right::REMOTE_ATOMIC != 0 && end.now.max_dest_rd_atomic > 0;
        if !is_able || !at.address.is_multiple_of(8) {
            return self.refuse(peer, syndrome::REMOTE_INVALID_REQUEST);
        }
        let Some(remote) = self.segment(end.domain, at.key, at.address, 8, right::REMOTE_ATOMIC)
        else {
            return self.refuse(peer, syndrome::REMOTE_ACCESS);
        };
        if !remote.address.is_multiple_of(8) {
            return self.refuse(peer, syndrome::REMOTE_INVALID_REQUEST);
        }
        let (operand, compared) = operands;
        let adds = control.opcode == opcode::FETCH_ADD;
        let changed = |old: u64| match adds {
            true => old.wrapping_add(operand),
            false if old == compared => operand,
            false => old,
        };
        // SAFETY: registered memory of 8 bytes that its rights say may be changed; aligned, as just checked.
        let old = unsafe { memory::change(remote.address, changed) };
        // SAFETY: registered memory, which its rights say may be written.
        unsafe { memory::scatter(&old.to_ne_bytes(), local) };
        Outcome::Done(8)
    }

    /// The remote end refuses, and is out of service after that (the specification's 9.9.3.1, class C); without acknowledgements it drops
    /// what it refuses.
    fn refuse(&mut self, peer: u32, syndrome: u8) -> Outcome {
        if self
            .pairs
            .get(&peer)
            .is_some_and(|peer| peer.kind == RELIABLE)
        {
            self.break_pair(peer);
        }
        Outcome::Failed(syndrome)
    }

    pub fn break_pair(&mut self, handle: u32) {
        if let Some(pair) = self.pairs.get_mut(&handle) {
            pair.now.state = stage::ERROR;
        }
    }
}
