//! GPUDirect v2 as a curve of `gdr probe transfer`: copies of one pair with peer access, each size verified.

use super::cluster::Cluster;
use super::integrity::{GpuPair, Transfer};
use super::pair::Work;
use super::task::Unit;
use crate::model::ProbeResult;
use crate::model::figure::transfer::V2;
use crate::probe::depth::VERIFIED;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::ROUNDS;

const VALIDATED: &str = V2.validated;
const LATENCY: &str = V2.latency.name;
pub const BANDWIDTH: &str = V2.bandwidth.name;
/// A kernel compares words.
const WORD: usize = 4;

/// Measures one pair.
pub fn run(
    cluster: &mut Cluster<'_>,
    number: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (unit, task) = (Unit::Curve(number), cluster.task);
    let Some(pair) = task.pairs.get(number) else {
        return Ok(());
    };
    for gpu in [pair.from, pair.to] {
        cluster.open(gpu, reporter)?;
    }
    let cluster = &*cluster;
    let Some((local_gpu, remote_gpu)) = cluster.members(pair) else {
        return Ok(());
    };
    cluster.begin(BANDWIDTH, unit, reporter)?;
    let about = cluster.about(unit);
    let (from, to) = (&local_gpu.gpu, &remote_gpu.gpu);
    if !from.can_access(to)? || !to.can_access(from)? {
        let why = "CUDA does not allow peer access between them: see gdr probe p2p".to_owned();
        return Ok(reporter
            .result(ProbeResult { bytes: None, ..about.not_measured(BANDWIDTH, 0, why) })?);
    }
    let size = cluster.largest().next_multiple_of(16).max(VERIFIED);
    let (local, remote) = (local_gpu.allocate(size)?, remote_gpu.allocate(size)?);
    let _access = [from.access(to)?, to.access(from)?];
    let work = Work {
        cluster,
        unit,
        pair,
        about,
        gpus: GpuPair { local_gpu, remote_gpu, local: &local, remote: &remote },
    };
    for bytes in cluster.sizes() {
        work.curve(bytes, reporter)?;
    }
    Ok(())
}

impl Work<'_> {
    /// One size: verified, half of the round trip, and bandwidth.
    fn curve(&self, bytes: usize, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let (about, seeds) = (&self.about, &self.cluster.seeds);
        self.cluster.begin(VALIDATED, self.unit, reporter)?;
        let whole = bytes.next_multiple_of(WORD);
        let wrong = self.gpus.verify(Transfer::Write, whole, seeds)?;
        let wrong = wrong.map(|(round, wrong)| format!("round {round}: {}", wrong.advice()));
        let right = about.right(VALIDATED, Some(bytes), whole * ROUNDS as usize);
        reporter.result(about.checked(right, wrong))?;
        self.cluster.begin(LATENCY, self.unit, reporter)?;
        let mut samples = self.round_trips(bytes)?;
        samples.iter_mut().for_each(|seconds| *seconds /= 2.0);
        reporter.result(about.latency(LATENCY, Some(bytes), 0, &samples))?;
        self.cluster.begin(BANDWIDTH, self.unit, reporter)?;
        let samples = self.sample(bytes, || self.gpus.queue(Transfer::Write, bytes))?;
        let promise = self.cluster.promise(self.pair, bytes);
        Ok(reporter.result(about.bandwidth(BANDWIDTH, bytes, 0, &samples, promise))?)
    }
}
