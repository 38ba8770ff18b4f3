//! Waits for completions: takes, claims and abandons them.

use engine::queue::Wait;

use super::{PendingWait, ProgramQueuePair, Queues, RequestState, Side};
use crate::abi::MAX_OPERATIONS;
use crate::call_error::CallError;

impl ProgramQueuePair {
    /// Takes the next wait and returns the index of its completion.
    pub(crate) fn take_wait(&self, side: Side) -> Result<u32, CallError> {
        self.with_queues(|queues| {
            let queue = match side {
                Side::Sent => &mut queues.engine.send_completions,
                Side::Received => &mut queues.engine.receive_completions,
            };
            let wait = queue.take_wait().map_err(CallError::engine("take a wait"))?;
            let index = wait.index();
            queues.waits[side.index()].push_back(PendingWait {
                wait,
                appended: Vec::new(),
                state: RequestState::Prepared,
                is_exposed: false,
            });
            let next = index.wrapping_add(1);
            queues.next_wait[side.index()] = next;
            self.set_offset(side, next);
            Ok(index)
        })
    }

    /// Appends the write of a word to a wait.
    pub(crate) fn append(
        &self,
        side: Side,
        index: u32,
        word: usize,
        value: u32,
    ) -> Result<(), CallError> {
        self.with_wait(side, index, |pending| {
            pending.state.check()?;
            // Two operations are the wait and the write of its busy word.
            if 2 + pending.appended.len() >= MAX_OPERATIONS {
                let full = MAX_OPERATIONS as u32;
                return Err(CallError::Full { full });
            }
            pending.appended.push((word, value));
            Ok(())
        })
    }

    /// Marks a wait as posted and returns it with the writes after it.
    pub(crate) fn claim_wait(
        &self,
        side: Side,
        index: u32,
    ) -> Result<(Wait, Vec<(usize, u32)>), CallError> {
        self.with_wait(side, index, |pending| {
            pending.state.check()?;
            pending.state = RequestState::Posted;
            Ok((pending.wait.clone(), pending.appended.clone()))
        })
    }

    /// Makes a claimed wait available again.
    pub(crate) fn unclaim_wait(&self, side: Side, index: u32) {
        // Ignored: the queue pair may be destroyed.
        let _ = self.with_wait(side, index, |pending| {
            pending.state = RequestState::Prepared;
            Ok(())
        });
    }

    /// The wait, for a kernel.
    pub(crate) fn expose_wait(&self, side: Side, index: u32) -> Result<Wait, CallError> {
        self.with_wait(side, index, |pending| {
            pending.is_exposed = true;
            Ok(pending.wait.clone())
        })
    }

    /// Ends a wait that was not posted: the CPU may poll the completion.
    pub(crate) fn abandon(&self, side: Side, index: u32) -> Result<(), CallError> {
        self.with_wait(side, index, |pending| {
            pending.state.check()?;
            pending.state = RequestState::Abandoned;
            let abandoned = pending.wait.clone().abandon();
            abandoned.map_err(CallError::engine("abandon a wait"))
        })
    }

    fn with_wait<T>(
        &self,
        side: Side,
        index: u32,
        body: impl FnOnce(&mut PendingWait) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.with_queues(|queues| {
            let mut waits = queues.waits[side.index()].iter_mut();
            let found = waits.find(|pending| pending.wait.index() == index);
            body(found.ok_or(CallError::Spent { why: "completed" })?)
        })
    }
}

impl Queues {
    /// Removes the wait for a polled completion. Returns the index of the next completion to wait for.
    pub(super) fn polled(&mut self, side: Side, index: u32) -> u32 {
        let next = &mut self.next_wait[side.index()];
        if *next == index {
            *next = index.wrapping_add(1);
        }
        self.waits[side.index()].pop_front_if(|pending| pending.wait.index() == index);
        *next
    }
}
