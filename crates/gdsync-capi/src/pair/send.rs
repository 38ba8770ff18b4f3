//! Sends: prepares, claims and cancels requests.

use engine::MappedMemory;
use engine::queue::Prepared;
use engine::wire::Wqe;
use gpu::MemOp;

use super::{ProgramQueuePair, Queues, Request, RequestState, WorkId};
use crate::call_error::CallError;

/// Position and error of the failed request of a list.
pub(crate) type Failed = (usize, CallError);

impl ProgramQueuePair {
    /// Prepares all WQEs of a list or none. Returns the number of the last one.
    pub(crate) fn prepare(&self, list: &[(u64, Wqe)]) -> Result<u64, Failed> {
        let mut guard = self.queues();
        let queues = guard.as_mut().ok_or((0, super::GONE))?;
        let mut prepared_list: Vec<Prepared> = Vec::with_capacity(list.len());
        for (position, (_, entry)) in list.iter().enumerate() {
            let room = queues.sends.len() + prepared_list.len() < self.limits.sends as usize;
            let prepared = if room {
                queues.engine.send.prepare(entry).map_err(CallError::engine("write the request"))
            } else {
                Err(CallError::Full { full: self.limits.sends })
            };
            match prepared {
                Ok(prepared) => prepared_list.push(prepared),
                Err(call_error) => {
                    roll_back(queues, prepared_list);
                    return Err((position, call_error));
                }
            }
        }
        for (prepared, &(wr_id, _)) in prepared_list.iter().zip(list) {
            let number = prepared.number();
            queues.sends.push_back(WorkId { number, wr_id });
        }
        let Some(last) = prepared_list.pop() else {
            return Err((0, CallError::Null { what: "wr" }));
        };
        let number = last.number();
        queues.requests.push_back(Request {
            before: prepared_list,
            last,
            state: RequestState::Prepared,
            is_exposed: false,
        });
        Ok(number)
    }

    /// Removes the last request, unless it was posted or exposed.
    pub(crate) fn cancel(&self, number: u64) {
        let mut guard = self.queues();
        let Some(queues) = guard.as_mut() else { return };
        let is_free = |request: &mut Request| {
            request.last.number() == number
                && request.state == RequestState::Prepared
                && !request.is_exposed
        };
        let Some(request) = queues.requests.pop_back_if(is_free) else {
            return;
        };
        let mut entries = request.before;
        entries.push(request.last);
        let kept = queues.sends.len().saturating_sub(entries.len());
        queues.sends.truncate(kept);
        roll_back(queues, entries);
    }

    /// Marks a request as posted and returns the operations of its doorbell. Fails if a later request was posted, because its
    /// doorbell covered this one.
    pub(crate) fn claim_send(&self, number: u64) -> Result<[MemOp<MappedMemory>; 3], CallError> {
        self.with_queues(|queues| {
            let position = find(queues, number)?;
            let is_posted = |request: &Request| request.state == RequestState::Posted;
            if queues.requests.iter().skip(position + 1).any(is_posted) {
                let why = "covered by the doorbell of a later one";
                return Err(CallError::Spent { why });
            }
            let request = &mut queues.requests[position];
            request.state.check()?;
            request.state = RequestState::Posted;
            Ok(request.last.ops())
        })
    }

    /// Makes a claimed request available again.
    pub(crate) fn unclaim_send(&self, number: u64) {
        let mut guard = self.queues();
        if let Some(queues) = guard.as_mut()
            && let Ok(position) = find(queues, number)
        {
            queues.requests[position].state = RequestState::Prepared;
        }
    }

    /// The operations of a request's doorbell, for a kernel.
    pub(crate) fn expose_send(&self, number: u64) -> Result<[MemOp<MappedMemory>; 3], CallError> {
        self.with_queues(|queues| {
            let position = find(queues, number)?;
            let request = &mut queues.requests[position];
            request.is_exposed = true;
            Ok(request.last.ops())
        })
    }
}

impl Queues {
    /// Removes completed sends up to this one and returns its id.
    pub(super) fn sent(&mut self, number: u64) -> u64 {
        let mut wr_id = 0;
        while let Some(send) = self.sends.pop_front_if(|send| send.number <= number) {
            wr_id = send.wr_id;
        }
        while self.requests.pop_front_if(|request| request.last.number() <= number).is_some() {}
        wr_id
    }

    /// True if a stream or a kernel may still ring a doorbell.
    pub(super) fn may_be_rung(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.is_exposed || request.state == RequestState::Posted)
    }
}

fn find(queues: &Queues, number: u64) -> Result<usize, CallError> {
    let found = queues.requests.binary_search_by_key(&number, |request| request.last.number());
    found.map_err(|_| CallError::Spent { why: "completed" })
}

/// Rolls back in reverse order.
fn roll_back(queues: &mut Queues, prepared_list: Vec<Prepared>) {
    for prepared in prepared_list.into_iter().rev() {
        // Cannot fail: it is the last one and was never rung.
        let _ = queues.engine.send.roll_back(prepared);
    }
}
