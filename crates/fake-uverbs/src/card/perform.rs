//! What a request does: bytes move, or it fails as the InfiniBand specification has it, and the far end's queue pair may break.

use std::time::Duration;

use crate::card::arrival::{Message, Received};
use crate::card::completion::kind;
use crate::card::entry::{Control, Entry, Far, Piece, opcode};
use crate::card::memory::{self, Segment};
use crate::card::pair::{Pair, RELIABLE};
use crate::card::region::right;
use crate::card::state::stage;
use crate::card::syndrome;
use crate::card::world::World;
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
        let inline = entry.pieces.iter().any(|piece| matches!(piece, Piece::Inline(_)));
        if control.takes() && (inline || pair.now.max_rd_atomic == 0) {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        }
        let rights = if control.takes() { right::LOCAL_WRITE } else { 0 };
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
        let Some(far) = self.far_end(handle) else {
            return Outcome::Waits(pair.now.unanswered(), syndrome::TRANSPORT_RETRY);
        };
        match entry.far {
            None => self.send(handle, far, control, &local),
            Some(at) if control.is_atomic() => self.word(far, control, at, entry.operands, &local),
            Some(at) => self.reach(handle, far, control, at, &local),
        }
    }

    /// The request's own bytes, and those that its keys name; none where a key does not.
    pub fn local(&self, domain: u32, pieces: &[Piece], rights: u32) -> Option<Vec<Segment>> {
        let segment = |piece: &Piece| match piece {
            Piece::Inline(bytes) => Some(Segment {
                address: bytes.as_ptr().expose_provenance(),
                bytes: bytes.len(),
            }),
            Piece::Named { key, address, bytes } => self.segment(domain, *key, *address, *bytes, rights),
        };
        pieces.iter().map(segment).collect()
    }

    /// The queue pair that this one is connected to: it is there, it is connected back, both ports are up, and packets have the
    /// number that it waits for.
    fn far_end(&self, handle: u32) -> Option<u32> {
        let pair = self.pairs.get(&handle)?;
        let near = &pair.now;
        let is_far = |far: &Pair| {
            far.number == near.destination
                && far.kind == pair.kind
                && far.now.receives()
                && far.now.destination == pair.number
                && far.now.port == near.port
                && far.now.receive_psn & 0xff_ffff == near.send_psn & 0xff_ffff
                // What answers finds its way back, too.
                && far.now.is_reached
        };
        let goes_out = near.is_reached && !switches().is_down(near.port);
        let mut far = self.pairs.iter().filter(|(_, far)| goes_out && is_far(far));
        far.next().map(|(far, _)| *far)
    }

    /// A message for the far end's receive queue.
    fn send(&mut self, handle: u32, far: u32, control: &Control, local: &[Segment]) -> Outcome {
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
        self.arrive(handle, far, control, kind, Some(&payload), bytes)
    }

    /// Gives the far end's next receive what has arrived.
    fn arrive(
        &mut self,
        handle: u32,
        far: u32,
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
        let near = self.pairs.get(&handle).map(|pair| (pair.number, pair.now));
        let end = self.pairs.get(&far).map(|pair| pair.now);
        let Some(((number, near), end)) = near.zip(end) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        match self.receive(far, number, &message) {
            Received::Taken => Outcome::Done(bytes),
            Received::NoReceive => Outcome::Waits(near.not_ready(&end), syndrome::RECEIVER_NOT_READY),
            Received::TooLong => Outcome::Failed(syndrome::REMOTE_INVALID_REQUEST),
            Received::Broken => Outcome::Failed(syndrome::REMOTE_OPERATION),
        }
    }

    /// A write or a read of the far end's memory.
    fn reach(&mut self, handle: u32, far: u32, control: &Control, at: Far, local: &[Segment]) -> Outcome {
        let Some(end) = self.pairs.get(&far) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        let rights = if control.takes() {
            right::REMOTE_READ
        } else {
            right::REMOTE_WRITE
        };
        if end.now.access & rights == 0 || (control.takes() && end.now.max_dest_rd_atomic == 0) {
            return self.refuse(far, syndrome::REMOTE_INVALID_REQUEST);
        }
        let bytes = local.iter().map(|segment| segment.bytes).sum();
        // The key of no bytes is not looked at.
        let named = self.segment(end.domain, at.key, at.address, bytes, rights);
        let remote = match named {
            Some(remote) => Vec::from([remote]),
            None if bytes == 0 => Vec::new(),
            None => return self.refuse(far, syndrome::REMOTE_ACCESS),
        };
        if control.has_immediate() && end.receives_left() == 0 {
            return self.arrive(handle, far, control, kind::RECEIVED_WRITE_IMM, None, bytes);
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
            return self.arrive(handle, far, control, kind::RECEIVED_WRITE_IMM, None, bytes);
        }
        Outcome::Done(bytes)
    }

    /// An atomic operation on a word of the far end's memory; what was there comes back. Words are in the machine's byte order.
    fn word(&mut self, far: u32, control: &Control, at: Far, operands: (u64, u64), local: &[Segment]) -> Outcome {
        let Some(end) = self.pairs.get(&far) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        let is_able = end.now.access & right::REMOTE_ATOMIC != 0 && end.now.max_dest_rd_atomic > 0;
        if !is_able || !at.address.is_multiple_of(8) {
            return self.refuse(far, syndrome::REMOTE_INVALID_REQUEST);
        }
        let Some(remote) = self.segment(end.domain, at.key, at.address, 8, right::REMOTE_ATOMIC) else {
            return self.refuse(far, syndrome::REMOTE_ACCESS);
        };
        if !remote.address.is_multiple_of(8) {
            return self.refuse(far, syndrome::REMOTE_INVALID_REQUEST);
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

    /// The far end refuses, and is out of service after that (the specification's 9.9.3.1, class C); without acknowledgements it drops
    /// what it refuses.
    fn refuse(&mut self, far: u32, syndrome: u8) -> Outcome {
        if self.pairs.get(&far).is_some_and(|far| far.kind == RELIABLE) {
            self.break_pair(far);
        }
        Outcome::Failed(syndrome)
    }

    pub fn break_pair(&mut self, handle: u32) {
        if let Some(pair) = self.pairs.get_mut(&handle) {
            pair.now.state = stage::ERROR;
        }
    }
}
