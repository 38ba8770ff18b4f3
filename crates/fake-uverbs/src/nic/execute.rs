//! The NIC's main loop: reads doorbells, executes each queue pair's requests in order, and completes them or fails the pair.
//!
//! A queue pair has one request in progress, so fences always hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::nic::completion::{Completion, kind};
use crate::nic::memory;
use crate::nic::objects::Objects;
use crate::nic::pair::{BLOCK, DATAGRAMS, QueuePair, RELIABLE, UNRELIABLE};
use crate::nic::perform::Outcome;
use crate::nic::registers::Doorbell;
use crate::nic::state::stage;
use crate::nic::syndrome::{self, vendor};
use crate::nic::wqe::{Control, opcode};
use crate::switches::{Fate, switches};

/// Requests that a queue pair executes before the next one is served.
const BATCH: usize = 64;

/// Doorbells for a queue pair that does not use their page.
static STRAY: AtomicU64 = AtomicU64::new(0);

impl Objects {
    /// Reads doorbells and executes requests; true if anything was done.
    pub fn run_once(&mut self) -> bool {
        self.read_doorbells();
        let has_arrived = self.serve_peers();
        let pairs: Vec<u32> = self.pairs.keys().copied().collect();
        let moved = pairs.into_iter().filter(|pair| self.advance(*pair)).count();
        has_arrived || moved > 0
    }

    /// Reads all doorbells. On a register shared by several queue pairs one doorbell may overwrite another, so all pairs of the register
    /// are polled.
    pub fn read_doorbells(&mut self) {
        let Self { contexts, pairs, queues, .. } = self;
        for context in contexts {
            let Some(registers) = &context.registers else {
                continue;
            };
            if let Some(named) = registers.take_completion_queue() {
                for (handle, queue) in
                    queues.iter_mut().filter(|(_, queue)| queue.context == context.fd)
                {
                    if let Some(event_state) = &mut queue.event_state {
                        event_state.ring(*handle == named);
                    }
                }
            }
            let mut pages: Vec<usize> = pairs
                .values()
                .filter(|pair| pair.context == context.fd)
                .map(|pair| pair.register.page)
                .collect();
            pages.sort_unstable();
            pages.dedup();
            for page in pages {
                registers.take(page, |doorbell: Doorbell| {
                    let of_page = |pair: &&mut QueuePair| {
                        pair.context == context.fd
                            && pair.register.page == page
                            && pair.has_send_record == doorbell.end.is_none()
                    };
                    let mut meant = pairs.values_mut().filter(of_page);
                    let is_meant = meant.any(|pair| pair.number == doorbell.number);
                    if !is_meant {
                        STRAY.fetch_add(1, Ordering::Relaxed);
                    }
                    for pair in pairs.values_mut().filter(of_page).filter(|_| is_meant) {
                        match doorbell.end {
                            Some(end) if pair.number == doorbell.number => pair.take_end(end),
                            Some(_) => {}
                            None if pair.number == doorbell.number
                                || pair.register == doorbell.register =>
                            {
                                pair.read_doorbells();
                            }
                            None => {}
                        }
                    }
                });
            }
        }
    }

    /// Executes requests of a queue pair; true if there were any.
    fn advance(&mut self, handle: u32) -> bool {
        let mut has_moved = false;
        for _ in 0..BATCH {
            let Some(pair) = self.pairs.get(&handle) else {
                return has_moved;
            };
            let moved = match pair.now.state {
                stage::ERROR => self.flush(handle),
                stage::READY_TO_SEND => pair.posted != pair.executed && self.execute(handle),
                _ => false,
            };
            if !moved {
                break;
            }
            has_moved = true;
        }
        has_moved
    }

    /// The control segment of a queue pair's next request.
    fn control(&self, handle: u32) -> Option<Control> {
        let pair = self.pairs.get(&handle)?;
        let mut head = [0; 16];
        // SAFETY: a live queue pair's send queue, which the provider frees after destroying the pair.
        unsafe { memory::ring(pair.sends, usize::from(pair.executed) * BLOCK, &mut head) };
        Some(Control::read(&head))
    }

    /// Executes the next request; true if it ended.
    fn execute(&mut self, handle: u32) -> bool {
        let (Some(control), Some(pair)) = (self.control(handle), self.pairs.get(&handle)) else {
            return false;
        };
        let posted = usize::from(pair.posted.wrapping_sub(pair.executed)) * BLOCK;
        let fate = switches().fate(pair.index, pair.requests_ended);
        if let Fate::Fails { syndrome, vendor } = fate {
            self.end(handle, &control, Err((syndrome, vendor)), true);
            return true;
        }
        let mut bytes = vec![0; control.bytes()];
        // SAFETY: as in `control`.
        unsafe { memory::ring(pair.sends, usize::from(pair.executed) * BLOCK, &mut bytes) };
        let fits = posted <= pair.sends.bytes && bytes.len() <= posted;
        let is_able = match pair.kind {
            RELIABLE => true,
            UNRELIABLE => !control.takes(),
            _ => control.is_send() || control.opcode == opcode::NOP,
        };
        let is_acknowledged = pair.kind == RELIABLE;
        let wqe = control
            .wqe(&bytes, pair.executed, pair.number, pair.kind == DATAGRAMS)
            .filter(|_| fits && is_able);
        let outcome = match wqe {
            Some(wqe) => self.perform(handle, &control, &wqe),
            None => Outcome::Failed(syndrome::LOCAL_OPERATION),
        };
        let ended = match outcome {
            Outcome::Done(bytes) => Ok(bytes),
            // UC has no acknowledgements: the sender sees no remote error.
            Outcome::Failed(syndrome::REMOTE_INVALID_REQUEST..=syndrome::REMOTE_OPERATION)
            | Outcome::Waits(..)
                if !is_acknowledged =>
            {
                Ok(0)
            }
            Outcome::Failed(syndrome) => Err((syndrome, vendor(syndrome))),
            Outcome::Sent => return false,
            Outcome::Waits(longest, syndrome) => {
                let since = self
                    .pairs
                    .get_mut(&handle)
                    .map(|pair| *pair.waits_since.get_or_insert_with(Instant::now));
                let is_over =
                    longest.zip(since).is_some_and(|(longest, since)| since.elapsed() >= longest);
                if !is_over {
                    return false;
                }
                Err((syndrome, vendor(syndrome)))
            }
        };
        self.end(handle, &control, ended, fate != Fate::Vanishes);
        true
    }

    /// Ends the next request: a signalled or failed request completes, and a failed one fails the queue pair.
    fn end(
        &mut self,
        handle: u32,
        control: &Control,
        ended: Result<usize, (u8, u8)>,
        completes: bool,
    ) {
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return;
        };
        let completion = Completion {
            kind: if ended.is_ok() { kind::REQUEST } else { kind::REQUEST_ERROR },
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
        pair.call = None;
        let queue = pair.send_queue;
        if ended.is_err() {
            pair.now.state = stage::ERROR;
        }
        if completes && (control.is_signalled() || ended.is_err()) {
            self.complete(queue, &completion);
        }
    }

    /// Flushes one request and one receive of a failed queue pair; true if there was one.
    fn flush(&mut self, handle: u32) -> bool {
        let flushed = (syndrome::FLUSHED, vendor(syndrome::FLUSHED));
        let has_receive = self.flush_receive(handle, flushed);
        let Some(pair) = self.pairs.get_mut(&handle) else {
            return false;
        };
        let posted = pair.posted.wrapping_sub(pair.executed);
        if usize::from(posted) * BLOCK > pair.sends.bytes {
            // A doorbell beyond the queue's size is invalid and ignored.
            pair.executed = pair.posted;
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

/// Stray doorbells, for tests.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_stray_doorbells() -> u64 {
    STRAY.load(Ordering::Relaxed)
}
