//! Staged messages in chunks, for `gdr probe transfer`.

use super::{BANDWIDTH, Client, LATENCY};
use crate::model::ProbeResult;
use crate::probe::failure::StepError;
use crate::probe::rdma::connected::ConnectedQueuePair;
use crate::probe::rdma::control::{Flow, Step};
use crate::probe::rdma::curve::Chunking;
use crate::probe::rdma::kind::Kind;
use crate::probe::rdma::memory_paths::CHUNK;
use crate::probe::rdma::staged;
use crate::probe::statistics::typical_seconds;

impl Client<'_, '_> {
    /// A staged message in chunks: the search for the best one, bandwidth, or latency.
    pub(super) fn chunked(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        bytes: usize,
        chunking: Chunking,
    ) -> Result<(), StepError> {
        let [connected] = connected else {
            return Err(StepError::OutOfStep);
        };
        let best = self.best_chunk.map_or(CHUNK, |(chunk, _)| chunk);
        let (what, chunk, depth) = match chunking {
            Chunking::Of(chunk) => ("search", chunk, 4),
            Chunking::Best => (BANDWIDTH, best, 4),
            Chunking::Alone => (LATENCY, best, 1),
        };
        let label = self.label(Kind::Send, what);
        let flow = Flow { depth, chunk, ..self.flow(Kind::Send, bytes, 1) };
        let (samples, wrong) = self.measure(flow, 1, &mut |this, flow| {
            let time = flow.time;
            this.fill(flow)?;
            this.begin(&label, bytes, Step::Staged(flow), time)?;
            let samples = staged::send(this.end, connected, flow, this.control)?;
            Ok((samples, this.finish_step(time)?))
        })?;
        if let Chunking::Of(chunk) = chunking {
            let seconds = typical_seconds(&samples);
            if self.best_chunk.is_none_or(|(_, fastest)| seconds < fastest) {
                self.best_chunk = Some((chunk, seconds));
            }
        }
        let result = match chunking {
            Chunking::Alone => self.about.latency(&label, Some(bytes), bytes, &samples),
            _ => self.about.bandwidth(&label, bytes, bytes, &samples, None),
        };
        let result = ProbeResult { chunk: Some(chunk as u64), ..result };
        self.report(result, wrong)
    }
}
