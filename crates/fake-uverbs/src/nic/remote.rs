//! Requests to queue pairs of other processes (`peers`): the requester sends a call and waits for its answer, the responder executes it as
//! a request of its own process.

use std::time::{Duration, Instant};

use crate::device::INFINIBAND;
use crate::nic::arrival::{Message, Origin};
use crate::nic::memory::{self, Segment};
use crate::nic::objects::Objects;
use crate::nic::pair::{DATAGRAMS, QueuePair};
use crate::nic::peers::Arrived;
use crate::nic::perform::{MAX_MESSAGE, Outcome, Requester};
use crate::nic::state::Attributes;
use crate::nic::syndrome;
use crate::nic::wqe::{Control, Peer, Wqe};

/// Pause before a call that the remote end could not execute is repeated.
const PAUSE: Duration = Duration::from_micros(100);

/// The call of a queue pair's next request.
#[derive(Debug, Clone)]
pub enum Call {
    /// Sent to this LID; its answer has not arrived.
    Sent {
        id: u64,
        lid: u16,
    },
    Answered(Answer),
    /// To be repeated, with the outcome so far.
    Repeated(Instant, Option<Duration>, u8),
}

/// The remote end's outcome.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With the data of a read or an atomic operation.
    Done(Vec<u8>),
    Failed(u8),
    Waits(Option<Duration>, u8),
    /// There is no queue pair that is connected to the requester.
    NoPeer,
}

/// Kinds of frames.
const CALL: u8 = 1;
const ANSWER: u8 = 2;
const DATAGRAM: u8 = 3;

impl Objects {
    /// Executes a request at another process's queue pair; `None` if no process has the LID.
    pub fn perform_remotely(
        &mut self,
        handle: u32,
        control: &Control,
        wqe: &Wqe,
        local: &[Segment],
    ) -> Option<Outcome> {
        let pair = self.pairs.get(&handle)?;
        let (now, lid) = (pair.now, pair.now.address.lid());
        let peers = self.peers.as_mut()?;
        let no_answer = Outcome::Waits(now.answer_timeout(), syndrome::TRANSPORT_RETRY);
        if now.port != INFINIBAND {
            return None;
        }
        let call = match &pair.call {
            Some(Call::Repeated(at, longest, syndrome)) if at.elapsed() < PAUSE => {
                return Some(Outcome::Waits(*longest, *syndrome));
            }
            Some(Call::Sent { lid, .. }) if peers.is_connected(*lid) => return Some(Outcome::Sent),
            Some(Call::Sent { .. }) => return Some(no_answer),
            Some(Call::Answered(answer)) => Some(answer.clone()),
            _ => None,
        };
        if let Some(answer) = call {
            return Some(self.take_answer(handle, control, answer, local));
        }
        if !peers.reaches(lid) {
            return None;
        }
        let id = self.calls;
        let frame = self.call_frame(id, handle, control, wqe, local)?;
        self.calls += 1;
        let sent = self.peers.as_mut()?.send(lid, &frame);
        let pair = self.pairs.get_mut(&handle)?;
        pair.call = sent.then_some(Call::Sent { id, lid });
        Some(if sent { Outcome::Sent } else { no_answer })
    }

    fn take_answer(
        &mut self,
        handle: u32,
        control: &Control,
        answer: Answer,
        local: &[Segment],
    ) -> Outcome {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        pair.call = None;
        let (longest, syndrome) = match answer {
            Answer::Done(bytes) => {
                if control.takes() {
                    // SAFETY: registered memory with local write access.
                    unsafe { memory::scatter(&bytes, local) };
                }
                return Outcome::Done(local.iter().map(|segment| segment.bytes).sum());
            }
            Answer::Failed(syndrome) => return Outcome::Failed(syndrome),
            Answer::Waits(longest, syndrome) => (longest, syndrome),
            Answer::NoPeer => (pair.now.answer_timeout(), syndrome::TRANSPORT_RETRY),
        };
        pair.call = Some(Call::Repeated(Instant::now(), longest, syndrome));
        Outcome::Waits(longest, syndrome)
    }

    fn call_frame(
        &self,
        id: u64,
        handle: u32,
        control: &Control,
        wqe: &Wqe,
        local: &[Segment],
    ) -> Option<Vec<u8>> {
        let pair = self.pairs.get(&handle)?;
        let length: usize = local.iter().map(|segment| segment.bytes).sum();
        let at = wqe.peer.unwrap_or(Peer { address: 0, key: 0 });
        let mut frame = vec![CALL];
        frame.extend(id.to_le_bytes());
        frame.extend(crate::nic::peers::lid().to_le_bytes());
        frame.extend([pair.kind, pair.now.rnr_retries]);
        for number in [pair.number, pair.now.destination, pair.now.send_psn, at.key] {
            frame.extend(number.to_le_bytes());
        }
        for number in [at.address, wqe.operands.0, wqe.operands.1, length as u64] {
            frame.extend(number.to_le_bytes());
        }
        frame.extend(control.bytes16());
        if !control.takes() {
            // SAFETY: registered memory, mapped while it is registered, or the request's inline data.
            frame.extend(unsafe { memory::gather(local) }?);
        }
        Some(frame)
    }

    /// Sends a datagram to another process; it is lost if nobody has the LID.
    pub fn datagram_remotely(
        &mut self,
        lid: u16,
        from: u32,
        to: (u32, u32),
        message: &Message<'_>,
    ) {
        let Some(peers) = &mut self.peers else { return };
        let mut frame = vec![DATAGRAM];
        frame.extend(crate::nic::peers::lid().to_le_bytes());
        frame.extend(from.to_le_bytes());
        frame.extend(to.0.to_le_bytes());
        frame.extend(to.1.to_le_bytes());
        frame.extend([message.kind, message.is_solicited.into(), message.flags]);
        frame.extend(message.immediate);
        frame.extend(message.payload);
        peers.send(lid, &frame);
    }

    /// Serves the connections to other NICs; true if anything arrived.
    pub fn serve_peers(&mut self) -> bool {
        let Some(peers) = &mut self.peers else {
            return false;
        };
        let frames = peers.take();
        let has_moved = !frames.is_empty();
        for (arrived, frame) in frames {
            let mut fields = Fields(&frame);
            match (fields.array().map(u8::from_le_bytes), arrived) {
                (Some(CALL), Arrived::At(connection)) => {
                    if let Some(answer) = self.called(fields)
                        && let Some(peers) = &mut self.peers
                    {
                        peers.answer(connection, &answer);
                    }
                }
                (Some(ANSWER), Arrived::Answer) => self.answered(fields),
                (Some(DATAGRAM), Arrived::At(_)) => {
                    self.datagram_arrived(fields);
                }
                _ => crate::log("invalid frame of another process"),
            }
        }
        has_moved
    }

    /// Executes a call, and returns the frame of its answer.
    fn called(&mut self, mut fields: Fields<'_>) -> Option<Vec<u8>> {
        let id = fields.u64()?;
        let lid = fields.u16()?;
        let [kind, rnr_retries] = fields.array()?;
        let (from, to, psn, key) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let (address, operand, compared) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let length = usize::try_from(fields.u64()?).ok()?;
        let length = length.min(MAX_MESSAGE);
        let control = Control::read(&fields.array()?);
        let mut data = if control.takes() { vec![0; length] } else { fields.0.to_vec() };
        let is_peer = |pair: &&QueuePair| {
            pair.number == to
                && pair.kind == kind
                && pair.now.receives()
                && pair.now.destination == from
                && pair.now.port == INFINIBAND
                && pair.now.address.lid() == lid
                && pair.now.receive_psn & 0xff_ffff == psn & 0xff_ffff
        };
        let mut found = self.pairs.iter().filter(|(_, pair)| is_peer(pair));
        let peer = found.next().map(|(peer, _)| *peer);
        let requester = Requester {
            origin: Origin { number: from, lid },
            now: Attributes { rnr_retries, ..Attributes::default() },
        };
        let local = [Segment { address: data.as_mut_ptr().expose_provenance(), bytes: data.len() }];
        let at = Peer { address, key };
        let outcome = peer.map(|peer| {
            if control.is_send() {
                self.send(&requester, peer, &control, &local)
            } else if control.is_atomic() {
                self.word(peer, &control, at, (operand, compared), &local)
            } else {
                self.reach(&requester, peer, &control, at, &local)
            }
        });
        let mut frame = vec![ANSWER];
        frame.extend(id.to_le_bytes());
        match outcome {
            Some(Outcome::Done(_)) => {
                frame.push(0);
                if control.takes() {
                    frame.extend(data);
                }
            }
            Some(Outcome::Failed(syndrome)) => frame.extend([1, syndrome]),
            Some(Outcome::Waits(longest, syndrome)) => {
                let longest = longest.map_or(u64::MAX, |longest| longest.as_micros() as u64);
                frame.extend([2, syndrome]);
                frame.extend(longest.to_le_bytes());
            }
            Some(Outcome::Sent) | None => frame.push(3),
        }
        Some(frame)
    }

    fn answered(&mut self, mut fields: Fields<'_>) {
        let Some(id) = fields.u64() else { return };
        let answer = match fields.array() {
            Some([0]) => Answer::Done(fields.0.to_vec()),
            Some([1]) => Answer::Failed(fields.array().map_or(0, u8::from_le_bytes)),
            Some([2]) => {
                let syndrome = fields.array().map_or(0, u8::from_le_bytes);
                let longest = fields.u64().filter(|longest| *longest != u64::MAX);
                Answer::Waits(longest.map(Duration::from_micros), syndrome)
            }
            _ => Answer::NoPeer,
        };
        let is_it = |pair: &&mut QueuePair| matches!(pair.call, Some(Call::Sent { id: sent, .. }) if sent == id);
        // The answer to a request that was flushed is ignored.
        if let Some(pair) = self.pairs.values_mut().find(is_it) {
            pair.call = Some(Call::Answered(answer));
        }
    }

    fn datagram_arrived(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let lid = fields.u16()?;
        let (from, to, key) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let [kind, is_solicited, flags] = fields.array()?;
        let immediate = fields.array()?;
        let message = Message {
            payload: fields.0,
            kind,
            bytes: fields.0.len(),
            immediate,
            is_solicited: is_solicited != 0,
            flags,
        };
        let is_peer = |pair: &QueuePair| {
            pair.number == to
                && pair.kind == DATAGRAMS
                && pair.now.receives()
                && pair.now.port == INFINIBAND
                && pair.now.qkey == key
        };
        let mut found = self.pairs.iter().filter(|(_, pair)| is_peer(pair));
        let peer = *found.next()?.0;
        // Dropped without a receive; a receive that is too small fails its queue pair.
        self.receive(peer, Origin { number: from, lid }, &message);
        Some(())
    }
}

/// The rest of a frame.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
