//! Requests that a list gives away: each once, and none where the list is refused.

use std::sync::Arc;

use engine::queue::{Step, Wait};

use crate::abi::Request;
use crate::pair::Pair;
use crate::pairs;
use crate::refusal::Refusal;
use crate::request::{self, Meaning};

/// What was given away. Dropped without [`Claims::keep`], it is given back.
#[derive(Debug, Default)]
pub(crate) struct Claims(Vec<(Arc<Pair>, Meaning)>);

impl Claims {
    /// Gives a request to send away: what rings its doorbell.
    ///
    /// # Safety
    ///
    /// `request` is NULL or can be read.
    pub(crate) unsafe fn send(&mut self, request: *const Request) -> Result<[Step; 3], Refusal> {
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        let Meaning::Send { pair, entry } = meaning else {
            return Err(Refusal::Request);
        };
        let pair = pairs::numbered(pair)?;
        let steps = pair.give_send(entry)?;
        self.0.push((pair, meaning));
        Ok(steps)
    }

    /// Gives a wait away, with the words that are written after it.
    ///
    /// # Safety
    ///
    /// As [`Self::send`].
    pub(crate) unsafe fn wait(&mut self, request: *const Request) -> Result<(Wait, Vec<(usize, u32)>), Refusal> {
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        let Meaning::Wait { pair, side, index } = meaning else {
            return Err(Refusal::Request);
        };
        let pair = pairs::numbered(pair)?;
        let wait = pair.give_wait(side, index)?;
        self.0.push((pair, meaning));
        Ok(wait)
    }

    /// A stream has them. Their queue pairs, each once.
    pub(crate) fn keep(mut self) -> Vec<Arc<Pair>> {
        let mut pairs: Vec<Arc<Pair>> = self.0.drain(..).map(|(pair, _)| pair).collect();
        pairs.sort_unstable_by_key(|pair| pair.id);
        pairs.dedup_by_key(|pair| pair.id);
        pairs
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        for (pair, meaning) in self.0.drain(..) {
            match meaning {
                Meaning::Send { entry, .. } => pair.ungive_send(entry),
                Meaning::Wait { side, index, .. } => pair.ungive_wait(side, index),
            }
        }
    }
}
