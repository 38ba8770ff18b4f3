//! Waits for completions: taken, given away, given up.

use engine::queue::Wait;

use super::{Given, Pair, Queues, Side, Waiting};
use crate::abi::MOST_OPERATIONS;
use crate::call_error::CallError;

impl Pair {
    /// Takes the next wait; which completion it is for.
    pub(crate) fn take_wait(&self, side: Side) -> Result<u32, CallError> {
        self.alive(|queues| {
            let queue = match side {
                Side::Sent => &mut queues.engine.send_completions,
                Side::Received => &mut queues.engine.receive_completions,
            };
            let wait = queue
                .take_wait()
                .map_err(CallError::engine("take a wait"))?;
            let index = wait.index();
            queues.waits[side.at()].push_back(Waiting {
                wait,
                appended: Vec::new(),
                given: Given::No,
                is_shown: false,
            });
            let next = index.wrapping_add(1);
            queues.next_wait[side.at()] = next;
            self.show_offset(side, next);
            Ok(index)
        })
    }

    /// Adds the write of a word behind a wait.
    pub(crate) fn append(
        &self,
        side: Side,
        index: u32,
        word: usize,
        value: u32,
    ) -> Result<(), CallError> {
        self.waiting(side, index, |waiting| {
            waiting.given.may()?;
            // The wait itself, and the write of its busy word.
            if 2 + waiting.appended.len() >= MOST_OPERATIONS {
                let full = MOST_OPERATIONS as u32;
                return Err(CallError::Full { full });
            }
            waiting.appended.push((word, value));
            Ok(())
        })
    }

    /// Gives a wait away: it, and what is written after it.
    pub(crate) fn give_wait(
        &self,
        side: Side,
        index: u32,
    ) -> Result<(Wait, Vec<(usize, u32)>), CallError> {
        self.waiting(side, index, |waiting| {
            waiting.given.may()?;
            waiting.given = Given::Posted;
            Ok((waiting.wait.clone(), waiting.appended.clone()))
        })
    }

    /// It was not given away after all.
    pub(crate) fn ungive_wait(&self, side: Side, index: u32) {
        // It may be gone with its queue pair by now.
        let _ = self.waiting(side, index, |waiting| {
            waiting.given = Given::No;
            Ok(())
        });
    }

    /// The wait, for a kernel that does it.
    pub(crate) fn show_wait(&self, side: Side, index: u32) -> Result<Wait, CallError> {
        self.waiting(side, index, |waiting| {
            waiting.is_shown = true;
            Ok(waiting.wait.clone())
        })
    }

    /// Nobody will wait: the CPU may poll the completion.
    pub(crate) fn abandon(&self, side: Side, index: u32) -> Result<(), CallError> {
        self.waiting(side, index, |waiting| {
            waiting.given.may()?;
            waiting.given = Given::Over;
            let abandoned = waiting.wait.clone().abandon();
            abandoned.map_err(CallError::engine("give a wait up"))
        })
    }

    fn waiting<T>(
        &self,
        side: Side,
        index: u32,
        does: impl FnOnce(&mut Waiting) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.alive(|queues| {
            let mut waits = queues.waits[side.at()].iter_mut();
            let found = waits.find(|waiting| waiting.wait.index() == index);
            does(found.ok_or(CallError::Spent { why: "over before" })?)
        })
    }
}

impl Queues {
    /// A completion was polled: nobody waits for it any more. Which is waited for next.
    pub(super) fn polled(&mut self, side: Side, index: u32) -> u32 {
        let next = &mut self.next_wait[side.at()];
        if *next == index {
            *next = index.wrapping_add(1);
        }
        self.waits[side.at()].pop_front_if(|waiting| waiting.wait.index() == index);
        *next
    }
}
