//! Sends: entries prepared, rung, given away and taken back.

use engine::Place;
use engine::queue::Prepared;
use engine::wire::Wqe;
use gpu::MemOp;

use super::{Given, Named, Pair, Queues, Request};
use crate::call_error::CallError;

/// A request of a list that was not prepared: the place in the list, and why.
pub(crate) type Failed = (usize, CallError);

impl Pair {
    /// Writes entries into the ring, all of them or none; the number of the last.
    pub(crate) fn prepare(&self, list: &[(u64, Wqe)]) -> Result<u64, Failed> {
        let mut guard = self.queues();
        let queues = guard.as_mut().ok_or((0, super::GONE))?;
        let mut made: Vec<Prepared> = Vec::with_capacity(list.len());
        for (position, (_, entry)) in list.iter().enumerate() {
            let room = queues.sends.len() + made.len() < self.limits.sends as usize;
            let prepared = match room {
                true => queues
                    .engine
                    .send
                    .prepare(entry)
                    .map_err(CallError::engine("write the request")),
                false => Err(CallError::Full {
                    full: self.limits.sends,
                }),
            };
            match prepared {
                Ok(prepared) => made.push(prepared),
                Err(call_error) => {
                    roll_back(queues, made);
                    return Err((position, call_error));
                }
            }
        }
        for (prepared, &(wr_id, _)) in made.iter().zip(list) {
            let number = prepared.number();
            queues.sends.push_back(Named { number, wr_id });
        }
        let Some(last) = made.pop() else {
            return Err((0, CallError::Null { what: "wr" }));
        };
        let number = last.number();
        queues.requests.push_back(Request {
            before: made,
            last,
            given: Given::No,
            is_shown: false,
        });
        Ok(number)
    }

    /// Takes back a request that nobody was given, if it is the last.
    pub(crate) fn take_back(&self, number: u64) {
        let mut guard = self.queues();
        let Some(queues) = guard.as_mut() else { return };
        let is_free = |request: &mut Request| {
            request.last.number() == number && request.given == Given::No && !request.is_shown
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

    /// Marks a request as posted; the operations that ring its doorbell. A later request must not be posted: its doorbell covered
    /// this one.
    pub(crate) fn give_send(&self, number: u64) -> Result<[MemOp<Place>; 3], CallError> {
        self.alive(|queues| {
            let position = find(queues, number)?;
            let is_covered = |request: &Request| request.given == Given::Posted;
            if queues.requests.iter().skip(position + 1).any(is_covered) {
                let why = "covered by a later one, which was posted before it";
                return Err(CallError::Spent { why });
            }
            let request = &mut queues.requests[position];
            request.given.may()?;
            request.given = Given::Posted;
            Ok(request.last.ops())
        })
    }

    /// The request was not posted after all.
    pub(crate) fn ungive_send(&self, number: u64) {
        let mut guard = self.queues();
        if let Some(queues) = guard.as_mut()
            && let Ok(position) = find(queues, number)
        {
            queues.requests[position].given = Given::No;
        }
    }

    /// The operations that ring a request's doorbell, for a kernel that does them.
    pub(crate) fn show_send(&self, number: u64) -> Result<[MemOp<Place>; 3], CallError> {
        self.alive(|queues| {
            let position = find(queues, number)?;
            let request = &mut queues.requests[position];
            request.is_shown = true;
            Ok(request.last.ops())
        })
    }
}

impl Queues {
    /// Forgets what was completed up to an entry; what the program called that one.
    pub(super) fn sent(&mut self, number: u64) -> u64 {
        let mut name = 0;
        while let Some(send) = self.sends.pop_front_if(|send| send.number <= number) {
            name = send.wr_id;
        }
        while self
            .requests
            .pop_front_if(|request| request.last.number() <= number)
            .is_some()
        {}
        name
    }

    /// Whether a stream or a kernel may still ring for something.
    pub(super) fn may_be_rung(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.is_shown || request.given == Given::Posted)
    }
}

fn find(queues: &Queues, number: u64) -> Result<usize, CallError> {
    let found = queues
        .requests
        .binary_search_by_key(&number, |request| request.last.number());
    found.map_err(|_| CallError::Spent {
        why: "completed before",
    })
}

/// The last first.
fn roll_back(queues: &mut Queues, made: Vec<Prepared>) {
    for prepared in made.into_iter().rev() {
        // It is the last, and was never rung.
        let _ = queues.engine.send.roll_back(prepared);
    }
}
