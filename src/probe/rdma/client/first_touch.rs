//! The cost of a page fault: writes into pages that the server has just released, and into the same pages once more.

use std::time::Instant;

use gpu::Pattern;

use super::Client;
use crate::model::figure::rdma;
use crate::probe::failure::StepError;
use crate::probe::rdma::agree::allowance;
use crate::probe::rdma::connected::ConnectedQueuePair;
use crate::probe::rdma::control::{Message, Step, expect};
use crate::probe::rdma::kind::Kind;
use crate::probe::rdma::queue_pair::Post;
use crate::probe::rdma::stream::operation;

/// Measured faults. A further one before them brings the client's own pages in.
const FAULTS: u32 = 20;
/// Rounds with the one that is not measured.
const ROUNDS: u32 = FAULTS + 1;

impl Client<'_, '_> {
    pub(super) fn first_touch(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        bytes: usize,
    ) -> Result<(), StepError> {
        let [connected] = connected else {
            return Err(StepError::OutOfStep);
        };
        let [seed, _] = self.seeds();
        let time = allowance(bytes.saturating_mul(2 * ROUNDS as usize));
        self.end.fill(bytes, Pattern::new(seed))?;
        let step = Step::FirstTouch { bytes, count: ROUNDS, seed, time };
        self.begin(rdma::FIRST_TOUCH.name, bytes, step, time)?;
        let request = Post::new(operation(Kind::Write, connected.remote(0)), 0, bytes);
        let (mut first, mut next) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            for samples in [&mut first, &mut next] {
                expect(self.control, &Message::Ready, time)?;
                let begun = Instant::now();
                connected.send(&request)?;
                connected.sent.wait(self.control)?;
                if round > 0 {
                    samples.push(begun.elapsed().as_secs_f64());
                }
                self.control.send(Message::Done)?;
            }
        }
        let wrong = self.finish_step(time)?;
        let result = self.about.latency(rdma::FIRST_TOUCH.name, Some(bytes), bytes, &first);
        self.report(result, wrong)?;
        let result = self.about.latency(rdma::NEXT_TOUCH.name, Some(bytes), bytes, &next);
        Ok(self.reporter.result(result)?)
    }
}
