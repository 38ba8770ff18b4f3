//! Receives and polling.

use engine::wire::DataSegment;

use super::{ProgramQueuePair, Queues, Side, WorkId};
use crate::abi::WorkCompletion;
use crate::call_error::CallError;
use crate::completed;

impl ProgramQueuePair {
    pub(crate) fn receive(&self, wr_id: u64, segments: &[DataSegment]) -> Result<(), CallError> {
        self.with_queues(|queues| {
            if queues.receives.len() >= self.limits.receives as usize {
                return Err(CallError::Full { full: self.limits.receives });
            }
            let posted = queues.engine.receive.post(segments);
            let number = posted.map_err(CallError::engine("write the receive"))?;
            queues.receives.push_back(WorkId { number, wr_id });
            Ok(())
        })
    }

    /// Polls the next completion that no stream waits for.
    pub(crate) fn poll(&self, side: Side) -> Result<Option<WorkCompletion>, CallError> {
        self.with_queues(|queues| {
            let queue = match side {
                Side::Sent => &mut queues.engine.send_completions,
                Side::Received => &mut queues.engine.receive_completions,
            };
            let index = queue.consumer();
            let polled = queue.poll().map_err(CallError::engine("poll the completion queue"))?;
            let Some(completion) = polled else {
                return Ok(None);
            };
            let next = queues.polled(side, index);
            self.set_offset(side, next);
            let engine = &mut queues.engine;
            let number = match side {
                Side::Sent => engine.send.complete(&completion),
                Side::Received => engine.receive.complete(&completion),
            };
            let number = number.map_err(CallError::engine("match the completion"))?;
            let wr_id = match side {
                Side::Sent => queues.sent(number),
                Side::Received => queues.received(number),
            };
            Ok(Some(completed::work_completion(wr_id, &completion)))
        })
    }
}

impl Queues {
    /// Removes a completed receive and returns its id.
    fn received(&mut self, number: u64) -> u64 {
        let mut wr_id = 0;
        while let Some(receive) = self.receives.pop_front_if(|receive| receive.number <= number) {
            wr_id = receive.wr_id;
        }
        wr_id
    }
}
