//! Execution of one request: bytes move, or it fails as the InfiniBand specification says, and possibly the remote queue pair too.

use std::time::Duration;

use crate::nic::arrival::{Message, Origin, Received};
use crate::nic::completion::kind;
use crate::nic::memory::{self, Segment};
use crate::nic::objects::Objects;
use crate::nic::pair::{QueuePair, RELIABLE};
use crate::nic::peers;
use crate::nic::region::right;
use crate::nic::state::{Attributes, stage};
use crate::nic::syndrome;
use crate::nic::wqe::{Control, DataSegment, Peer, Wqe, opcode};
use crate::switches::switches;

/// Longest message in bytes, as `QUERY_PORT` says.
pub const MAX_MESSAGE: usize = 1 << 30;

/// Result of an execution step.
pub enum Outcome {
    /// Bytes moved.
    Done(usize),
    Failed(u8),
    /// Retry, and fail with this syndrome after this time.
    Waits(Option<Duration>, u8),
    /// Another process executes it.
    Sent,
}

/// The sender of a request.
pub struct Requester {
    pub origin: Origin,
    pub now: Attributes,
}

impl Objects {
    /// Executes a request.
    pub fn perform(&mut self, handle: u32, control: &Control, wqe: &Wqe) -> Outcome {
        if control.opcode == opcode::NOP {
            return Outcome::Done(0);
        }
        let Some(pair) = self.pairs.get(&handle) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let inline =
            wqe.data.iter().any(|data_segment| matches!(data_segment, DataSegment::Inline(_)));
        if control.takes() && (inline || pair.now.max_rd_atomic == 0) {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        }
        let rights = if control.takes() { right::LOCAL_WRITE } else { 0 };
        let Some(local) = self.local(pair.domain, &wqe.data, rights) else {
            return Outcome::Failed(syndrome::LOCAL_PROTECTION);
        };
        let bytes: usize = local.iter().map(|segment| segment.bytes).sum();
        if bytes > MAX_MESSAGE || (control.is_atomic() && bytes != 8) {
            return Outcome::Failed(syndrome::LOCAL_LENGTH);
        }
        if let Some(to) = &wqe.to {
            return self.datagram(handle, control, to, &local);
        }
        let longest = pair.now.answer_timeout();
        let requester =
            Requester { origin: Origin { number: pair.number, lid: peers::lid() }, now: pair.now };
        let Some(peer) = self.peer_end(handle) else {
            let remote = self.perform_remotely(handle, control, wqe, &local);
            let no_answer = Outcome::Waits(longest, syndrome::TRANSPORT_RETRY);
            return remote.unwrap_or(no_answer);
        };
        match wqe.peer {
            None => self.send(&requester, peer, control, &local),
            Some(at) if control.is_atomic() => self.word(peer, control, at, wqe.operands, &local),
            Some(at) => self.reach(&requester, peer, control, at, &local),
        }
    }

    /// The local data: inline data and SGEs; none if an lkey does not allow access.
    pub fn local(&self, domain: u32, data: &[DataSegment], rights: u32) -> Option<Vec<Segment>> {
        let segment = |data_segment: &DataSegment| match data_segment {
            DataSegment::Inline(bytes) => {
                Some(Segment { address: bytes.as_ptr().expose_provenance(), bytes: bytes.len() })
            }
            DataSegment::Named { key, address, bytes } => {
                self.segment(domain, *key, *address, *bytes, rights)
            }
        };
        data.iter().map(segment).collect()
    }

    /// The remote queue pair, if it exists and is connected back, both ports are up, and its expected PSN matches.
    fn peer_end(&self, handle: u32) -> Option<u32> {
        let pair = self.pairs.get(&handle)?;
        let own = &pair.now;
        let is_peer = |peer: &QueuePair| {
            peer.number == own.destination
                && peer.kind == pair.kind
                && peer.now.receives()
                && peer.now.destination == pair.number
                && peer.now.port == own.port
                && peer.now.receive_psn & 0xff_ffff == own.send_psn & 0xff_ffff
                // The response must reach its sender.
                && peer.now.is_reached
        };
        let goes_out = own.is_reached && !switches().is_down(own.port);
        let mut peer = self.pairs.iter().filter(|(_, peer)| goes_out && is_peer(peer));
        peer.next().map(|(peer, _)| *peer)
    }

    /// A message for the remote receive queue.
    pub fn send(
        &mut self,
        from: &Requester,
        peer: u32,
        control: &Control,
        local: &[Segment],
    ) -> Outcome {
        // SAFETY: registered memory, mapped while it is registered, or the request's inline data.
        let Some(payload) = (unsafe { memory::gather(local) }) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let kind =
            if control.has_immediate() { kind::RECEIVED_SEND_IMM } else { kind::RECEIVED_SEND };
        let bytes = payload.len();
        self.arrive(from, peer, control, kind, Some(&payload), bytes)
    }

    /// Delivers to the remote end's next receive.
    fn arrive(
        &mut self,
        from: &Requester,
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
            immediate: if control.has_immediate() { control.immediate } else { [0; 4] },
            is_solicited: control.is_solicited(),
            flags: 0,
        };
        let Some(end) = self.pairs.get(&peer).map(|pair| pair.now) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        match self.receive(peer, from.origin, &message) {
            Received::Taken => Outcome::Done(bytes),
            Received::NoReceive => {
                Outcome::Waits(from.now.rnr_timeout(&end), syndrome::RECEIVER_NOT_READY)
            }
            Received::TooLong => Outcome::Failed(syndrome::REMOTE_INVALID_REQUEST),
            Received::Broken => Outcome::Failed(syndrome::REMOTE_OPERATION),
        }
    }

    /// A write or read of remote memory.
    pub fn reach(
        &mut self,
        requester: &Requester,
        peer: u32,
        control: &Control,
        at: Peer,
        local: &[Segment],
    ) -> Outcome {
        let Some(end) = self.pairs.get(&peer) else {
            return Outcome::Failed(syndrome::REMOTE_OPERATION);
        };
        let rights = if control.takes() { right::REMOTE_READ } else { right::REMOTE_WRITE };
        if end.now.access & rights == 0 || (control.takes() && end.now.max_dest_rd_atomic == 0) {
            return self.reject(peer, syndrome::REMOTE_INVALID_REQUEST);
        }
        let bytes = local.iter().map(|segment| segment.bytes).sum();
        // The key of a zero-length access is not checked.
        let named = self.segment(end.domain, at.key, at.address, bytes, rights);
        let remote = match named {
            Some(remote) => Vec::from([remote]),
            None if bytes == 0 => Vec::new(),
            None => return self.reject(peer, syndrome::REMOTE_ACCESS),
        };
        if control.has_immediate() && end.receives_left() == 0 {
            return self.arrive(requester, peer, control, kind::RECEIVED_WRITE_IMM, None, bytes);
        }
        let (from, to) = if control.takes() { (&remote[..], local) } else { (local, &remote[..]) };
        // SAFETY: registered memory, or the request's inline data.
        let Some(moved) = (unsafe { memory::gather(from) }) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        // SAFETY: registered memory whose access rights allow the write.
        unsafe { memory::scatter(&moved, to) };
        if control.has_immediate() {
            return self.arrive(requester, peer, control, kind::RECEIVED_WRITE_IMM, None, bytes);
        }
        Outcome::Done(bytes)
    }

    /// An atomic operation on a remote word in native byte order; returns the old value to the sender.
    pub fn word(
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
            return self.reject(peer, syndrome::REMOTE_INVALID_REQUEST);
        }
        let Some(remote) = self.segment(end.domain, at.key, at.address, 8, right::REMOTE_ATOMIC)
        else {
            return self.reject(peer, syndrome::REMOTE_ACCESS);
        };
        if !remote.address.is_multiple_of(8) {
            return self.reject(peer, syndrome::REMOTE_INVALID_REQUEST);
        }
        let (operand, compared) = operands;
        let adds = control.opcode == opcode::FETCH_ADD;
        let changed = |old: u64| {
            if adds {
                old.wrapping_add(operand)
            } else if old == compared {
                operand
            } else {
                old
            }
        };
        // SAFETY: 8 bytes of registered memory with remote atomic access, aligned, as just checked.
        let old = unsafe { memory::change(remote.address, changed) };
        // SAFETY: registered memory with local write access.
        unsafe { memory::scatter(&old.to_ne_bytes(), local) };
        Outcome::Done(8)
    }

    /// The remote end rejects the request and fails (specification, 9.9.3.1, class C); without acknowledgements it drops the request.
    fn reject(&mut self, peer: u32, syndrome: u8) -> Outcome {
        if self.pairs.get(&peer).is_some_and(|peer| peer.kind == RELIABLE) {
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
