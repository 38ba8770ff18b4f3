//! The NIC's rounds: it hears doorbells, takes each queue pair's requests in their order, and completes them or breaks the pair.
//!
//! A queue pair has one request in progress, so that what follows a fence waits anyway.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::nic::completion::{Completion, kind};
use crate::nic::entry::{Control, opcode};
use crate::nic::memory;
use crate::nic::pair::{BLOCK, DATAGRAMS, Pair, RELIABLE, UNRELIABLE};
use crate::nic::perform::Outcome;
use crate::nic::registers::Doorbell;
use crate::nic::state::stage;
use crate::nic::syndrome::{self, vendor};
use crate::nic::world::World;
use crate::switches::{Fate, Side, switches};

/// Requests of a queue pair that are executed until the next one has its turn.
const TURN: usize = 64;

/// Doorbells that named no queue pair of their page.
static STRAY: AtomicU64 = AtomicU64::new(0);

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
    pub fn hear(&mut self) {
        let Self {
            contexts,
            pairs,
            queues,
            ..
        } = self;
        for context in contexts {
            let Some(registers) = &context.registers else {
                continue;
            };
            if let Some(named) = registers.take_completion_queue() {
                for (handle, queue) in queues
                    .iter_mut()
                    .filter(|(_, queue)| queue.context == context.fd)
                {
                    if let Some(notice) = &mut queue.notice {
                        notice.ring(*handle == named);
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
                    let of_page =
                        |pair: &&mut Pair| pair.context == context.fd && pair.register.page == page;
                    let mut meant = pairs.values_mut().filter(of_page);
                    let is_meant = meant.any(|pair| pair.number == doorbell.number);
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
        let fits = posted <= pair.sends.bytes && bytes.len() <= posted;
        let is_able = match pair.kind {
            RELIABLE => true,
            UNRELIABLE => !control.takes(),
            _ => control.is_send() || control.opcode == opcode::NOP,
        };
        let is_acknowledged = pair.kind == RELIABLE;
        let entry = control
            .entry(&bytes, pair.executed, pair.number, pair.kind == DATAGRAMS)
            .filter(|_| fits && is_able);
        let outcome = match entry {
            Some(entry) => self.perform(handle, &control, &entry),
            None => Outcome::Failed(syndrome::LOCAL_OPERATION),
        };
        let ended = match outcome {
            Outcome::Done(bytes) => Ok(bytes),
            // Nobody tells the sender what became of it.
            Outcome::Failed(syndrome::REMOTE_INVALID_REQUEST..=syndrome::REMOTE_OPERATION)
            | Outcome::Waits(..)
                if !is_acknowledged =>
            {
                Ok(0)
            }
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

    /// The next request has ended: it completes where that was asked for, and in any case where it failed, and then the pair is
    /// broken.
    fn end(
        &mut self,
        handle: u32,
        control: &Control,
        ended: Result<usize, (u8, u8)>,
        is_told: bool,
    ) {
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
