//! What the card does with a request: bytes move, or it fails as the InfiniBand specification has it, and its queue pair with it.
//!
//! A queue pair has one request under way, so that what follows a fence waits anyway.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::card::arrival::{Message, Received};
use crate::card::completion::{Completion, kind};
use crate::card::entry::{Control, Entry, Far, Piece, opcode};
use crate::card::memory::{self, Segment};
use crate::card::pair::{BLOCK, RELIABLE};
use crate::card::region::right;
use crate::card::registers::{Doorbell, Register};
use crate::card::state::stage;
use crate::card::syndrome::{self, vendor};
use crate::card::world::World;
use crate::switches::{Fate, Side, switches};

/// Requests of a queue pair that are executed until the next one has its turn.
const TURN: usize = 64;

/// The longest message, as `QUERY_PORT` says.
const LONGEST: usize = 1 << 30;

/// Doorbells that named no queue pair of their page.
static STRAY: AtomicU64 = AtomicU64::new(0);

/// How a request ended, or that it did not.
enum Outcome {
    /// So many bytes were moved.
    Done(usize),
    Failed(u8),
    /// It is to be tried again, for so long at most, and fails then.
    Waits(Option<Duration>, u8),
}

impl World {
    /// Hears what has been rung and executes some of what it was rung for; whether anything was done.
    pub fn round(&mut self) -> bool {
        self.hear();
        let pairs: Vec<u32> = self.pairs.keys().copied().collect();
        let moved = pairs.into_iter().filter(|pair| self.advance(*pair)).count();
        moved > 0
    }

    /// Takes all doorbells. One whose register has several queue pairs may hide the one before it, so that each of them is
    /// looked at.
    fn hear(&mut self) {
        let Self { contexts, pairs, .. } = self;
        for context in contexts {
            let Some(registers) = &context.registers else {
                continue;
            };
            let mut pages: Vec<usize> = pairs
                .values()
                .filter(|pair| pair.context == context.fd)
                .map(|pair| pair.register.page)
                .collect();
            pages.sort_unstable();
            pages.dedup();
            for page in pages {
                registers.take(page, |doorbell: Doorbell| {
                    let Register { page, .. } = doorbell.register;
                    let of_page =
                        |pair: &&mut crate::card::pair::Pair| pair.context == context.fd && pair.register.page == page;
                    let is_meant = pairs
                        .values_mut()
                        .filter(of_page)
                        .any(|pair| pair.number == doorbell.number);
                    if !is_meant {
                        STRAY.fetch_add(1, Ordering::Relaxed);
                    }
                    for pair in pairs.values_mut().filter(of_page).filter(|_| is_meant) {
                        if pair.number == doorbell.number || pair.register == doorbell.register {
                            pair.hear();
                        }
                    }
                });
            }
        }
    }

    /// Executes requests of a queue pair; whether there were any.
    fn advance(&mut self, handle: u32) -> bool {
        let mut has_moved = false;
        for _ in 0..TURN {
            let Some(pair) = self.pairs.get(&handle) else {
                return has_moved;
            };
            let moved = match pair.now.state {
                stage::ERROR => self.flush(handle),
                stage::READY_TO_SEND => pair.rung != pair.executed && self.execute(handle),
                _ => false,
            };
            if !moved {
                break;
            }
            has_moved = true;
        }
        has_moved
    }

    /// What a queue pair's next request begins with.
    fn control(&self, handle: u32) -> Option<Control> {
        let pair = self.pairs.get(&handle)?;
        let mut head = [0; 16];
        // SAFETY: a live queue pair's send queue, which the provider gives back after the pair is destroyed.
        unsafe { memory::ring(pair.sends, usize::from(pair.executed) * BLOCK, &mut head) };
        Some(Control::read(&head))
    }

    /// Executes the next request; whether it ended.
    fn execute(&mut self, handle: u32) -> bool {
        let (Some(control), Some(pair)) = (self.control(handle), self.pairs.get(&handle)) else {
            return false;
        };
        let posted = usize::from(pair.rung.wrapping_sub(pair.executed)) * BLOCK;
        let fate = switches().fate(Side::Send, pair.index, pair.requests_ended);
        if let Fate::Fails { syndrome, vendor } = fate {
            self.end(handle, &control, Err((syndrome, vendor)), true);
            return true;
        }
        let mut bytes = vec![0; control.bytes()];
        // SAFETY: as in `control`.
        unsafe { memory::ring(pair.sends, usize::from(pair.executed) * BLOCK, &mut bytes) };
        let fits = posted <= pair.sends.bytes && bytes.len() <= posted && pair.kind == RELIABLE;
        let entry = control.entry(&bytes, pair.executed, pair.number).filter(|_| fits);
        let outcome = match entry {
            Some(entry) => self.perform(handle, &control, &entry),
            None => Outcome::Failed(syndrome::LOCAL_OPERATION),
        };
        let ended = match outcome {
            Outcome::Done(bytes) => Ok(bytes),
            Outcome::Failed(syndrome) => Err((syndrome, vendor(syndrome))),
            Outcome::Waits(longest, syndrome) => {
                let since = self
                    .pairs
                    .get_mut(&handle)
                    .map(|pair| *pair.waits_since.get_or_insert_with(Instant::now));
                let is_over = longest
                    .zip(since)
                    .is_some_and(|(longest, since)| since.elapsed() >= longest);
                if !is_over {
                    return false;
                }
                Err((syndrome, vendor(syndrome)))
            }
        };
        self.end(handle, &control, ended, fate != Fate::Vanishes);
        true
    }

    /// Executes what a request says.
    fn perform(&mut self, handle: u32, control: &Control, entry: &Entry) -> Outcome {
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
        let is_far = |far: &crate::card::pair::Pair| {
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

    /// The far end refuses, and is out of service after that (the specification's 9.9.3.1, class C).
    fn refuse(&mut self, far: u32, syndrome: u8) -> Outcome {
        self.break_pair(far);
        Outcome::Failed(syndrome)
    }

    pub fn break_pair(&mut self, handle: u32) {
        if let Some(pair) = self.pairs.get_mut(&handle) {
            pair.now.state = stage::ERROR;
        }
    }

    /// The next request has ended: it completes where that was asked for, and in any case where it failed, and then the pair is
    /// broken.
    fn end(&mut self, handle: u32, control: &Control, ended: Result<usize, (u8, u8)>, is_told: bool) {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return;
        };
        let completion = Completion {
            kind: if ended.is_ok() {
                kind::REQUEST
            } else {
                kind::REQUEST_ERROR
            },
            user_index: pair.user_index,
            number: pair.number,
            opcode: control.opcode,
            counter: pair.executed,
            bytes: ended.map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            error: ended.err(),
            ..Completion::default()
        };
        pair.executed = pair.executed.wrapping_add(control.blocks());
        pair.requests_ended += 1;
        pair.waits_since = None;
        let queue = pair.send_queue;
        if ended.is_err() {
            pair.now.state = stage::ERROR;
        }
        if is_told && (control.is_signalled() || ended.is_err()) {
            self.complete(queue, &completion);
        }
    }

    /// Ends a request and a receive of a broken queue pair; whether there was one.
    fn flush(&mut self, handle: u32) -> bool {
        let flushed = (syndrome::FLUSHED, vendor(syndrome::FLUSHED));
        let has_receive = self.flush_receive(handle, flushed);
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return false;
        };
        let posted = pair.rung.wrapping_sub(pair.executed);
        if usize::from(posted) * BLOCK > pair.sends.bytes {
            // A doorbell of more than there is: nothing of it can be believed.
            pair.executed = pair.rung;
            return has_receive;
        }
        let control = self.control(handle).filter(|_| posted > 0);
        if let Some(mut control) = control {
            control.bound(posted);
            self.end(handle, &control, Err(flushed), true);
        }
        has_receive || posted > 0
    }
}

/// How many doorbells have named no queue pair of their page, for a test.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_stray_doorbells() -> u64 {
    STRAY.load(Ordering::Relaxed)
}
