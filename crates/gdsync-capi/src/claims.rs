//! Requests of a list: each is posted once, and none if the list is rejected.

use std::sync::Arc;

use engine::MappedMemory;
use engine::queue::Wait;
use gpu::MemOp;

use crate::abi::Request;
use crate::call_error::CallError;
use crate::pair::ProgramQueuePair;
use crate::pairs;
use crate::request::{self, Meaning};

/// Claimed requests. Dropping it without [`Claims::keep`] makes them available again.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    /// Position of the current descriptor.
    position: usize,
}

#[derive(Debug)]
struct Claim {
    /// Position of its descriptor.
    position: usize,
    pair: Arc<ProgramQueuePair>,
    meaning: Meaning,
    wait: Option<Wait>,
}

impl Claims {
    /// Sets the position for the following claims.
    pub(crate) fn at(&mut self, position: usize) {
        self.position = position;
    }

    fn push(&mut self, pair: Arc<ProgramQueuePair>, meaning: Meaning, wait: Option<Wait>) {
        let position = self.position;
        self.claims.push(Claim { position, pair, meaning, wait });
    }

    /// True if a queue pair of a claim was destroyed.
    pub(crate) fn is_gone(&self) -> bool {
        self.claims.iter().any(|claim| claim.pair.is_gone())
    }

    /// Claims a send and returns the operations of its doorbell.
    ///
    /// # Safety
    ///
    /// `request` is NULL or can be read.
    pub(crate) unsafe fn send(
        &mut self,
        request: *const Request,
    ) -> Result<[MemOp<MappedMemory>; 3], CallError> {
        // SAFETY: the caller's promise.
        let meaning = unsafe { request::read(request) }?;
        let Meaning::Send { pair, entry } = meaning else {
            return Err(CallError::Request);
        };
        let pair = pairs::by_id(pair)?;
        let doorbell = pair.claim_send(entry)?;
        self.push(pair, meaning, None);
        Ok(doorbell)
    }

    /// Claims a wait and returns it with the writes after it.
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
        let pair = pairs::by_id(pair)?;
        let wait = pair.claim_wait(side, index)?;
        self.push(pair, meaning, Some(wait.0.clone()));
        Ok(wait)
    }

    /// Keeps all claims as posted. Returns their queue pairs without duplicates.
    pub(crate) fn keep(self) -> Vec<Arc<ProgramQueuePair>> {
        self.keep_before(usize::MAX)
    }

    /// Keeps the claims before this position and makes the others available again.
    pub(crate) fn keep_before(mut self, position: usize) -> Vec<Arc<ProgramQueuePair>> {
        let kept = self.claims.extract_if(.., |claim| claim.position < position);
        let mut pairs: Vec<Arc<ProgramQueuePair>> = kept.map(|claim| claim.pair).collect();
        pairs.sort_unstable_by_key(|pair| pair.id);
        pairs.dedup_by_key(|pair| pair.id);
        pairs
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        for Claim { pair, meaning, wait, .. } in self.claims.drain(..) {
            match meaning {
                Meaning::Send { entry, .. } => pair.unclaim_send(entry),
                Meaning::Wait { side, index, .. } => pair.unclaim_wait(side, index),
            }
            // Ends the wait, so the memory of a destroyed queue pair can be freed.
            if let Some(wait) = wait.filter(|_| pair.is_gone()) {
                // Ignored: no stream waits on inaccessible memory.
                let _ = wait.abandon();
            }
        }
    }
}
