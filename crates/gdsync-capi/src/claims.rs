//! Requests that a list gives away: each once, and none where the list is refused.

use std::sync::Arc;

use engine::Place;
use engine::queue::Wait;
use gpu::MemOp;

use crate::abi::Request;
use crate::call_error::CallError;
use crate::pair::Pair;
use crate::pairs;
use crate::request::{self, Meaning};

/// What was given away. Dropped without [`Claims::keep`], it is given back.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    given: Vec<Given>,
    /// Of the list, the descriptor that gives requests away.
    position: usize,
}

#[derive(Debug)]
struct Given {
    /// The descriptor of the list that gave it away.
    position: usize,
    pair: Arc<Pair>,
    meaning: Meaning,
    wait: Option<Wait>,
}

impl Claims {
    /// What follows is of the descriptor at this position of the list.
    pub(crate) fn at(&mut self, position: usize) {
        self.position = position;
    }

    fn push(&mut self, pair: Arc<Pair>, meaning: Meaning, wait: Option<Wait>) {
        let position = self.position;
        self.given.push(Given {
            position,
            pair,
            meaning,
            wait,
        });
    }

    /// Whether a queue pair of theirs was destroyed.
    pub(crate) fn is_gone(&self) -> bool {
        self.given.iter().any(|given| given.pair.is_gone())
    }

    /// Posts a request to send; the operations that ring its doorbell.
    ///
    /// # Safety
    ///
    /// `request` is NULL or can be read.
    pub(crate) unsafe fn send(
        &mut self,
        request: *const Request,
    ) -> Result<[MemOp<Place>; 3], CallError> {
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        let Meaning::Send { pair, entry } = meaning else {
            return Err(CallError::Request);
        };
        let pair = pairs::numbered(pair)?;
        let doorbell = pair.give_send(entry)?;
        self.push(pair, meaning, None);
        Ok(doorbell)
    }

    /// Gives a wait away, with the words that are written after it.
    ///
    /// # Safety
    ///
    /// As [`Self::send`].
    pub(crate) unsafe fn wait(
        &mut self,
        request: *const Request,
    ) -> Result<(Wait, Vec<(usize, u32)>), CallError> {
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        let Meaning::Wait { pair, side, index } = meaning else {
            return Err(CallError::Request);
        };
        let pair = pairs::numbered(pair)?;
        let wait = pair.give_wait(side, index)?;
        self.push(pair, meaning, Some(wait.0.clone()));
        Ok(wait)
    }

    /// A stream has them. Their queue pairs, each once.
    pub(crate) fn keep(self) -> Vec<Arc<Pair>> {
        self.keep_before(usize::MAX)
    }

    /// The descriptors before this position are done: the others' are given back.
    pub(crate) fn keep_before(mut self, position: usize) -> Vec<Arc<Pair>> {
        let kept = self.given.extract_if(.., |given| given.position < position);
        let mut pairs: Vec<Arc<Pair>> = kept.map(|given| given.pair).collect();
        pairs.sort_unstable_by_key(|pair| pair.id);
        pairs.dedup_by_key(|pair| pair.id);
        pairs
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        for Given {
            pair,
            meaning,
            wait,
            ..
        } in self.given.drain(..)
        {
            match meaning {
                Meaning::Send { entry, .. } => pair.ungive_send(entry),
                Meaning::Wait { side, index, .. } => pair.ungive_wait(side, index),
            }
            // What is left of a queue pair goes once nobody waits at it.
            if let Some(wait) = wait.filter(|_| pair.is_gone()) {
                // Memory that cannot be written holds nobody.
                let _ = wait.abandon();
            }
        }
    }
}
