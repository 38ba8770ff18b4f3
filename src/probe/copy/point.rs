//! One size in one direction of a sweep: latency, CPU time and bandwidth, or wrong bytes.

use std::time::Duration;

use super::session::allowance;
use super::task::Task;
use crate::model::ProbeResult;
use crate::model::figure::Direction;
use crate::model::figure::copy::Way;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::sampling::{Budget, Timed};
use crate::probe::verdict::{Promise, Subject};

/// From this size on the bandwidth is reported.
const MIN_BANDWIDTH_SIZE: usize = 4 << 10;
/// From this size on the link limits the bandwidth; below, the start of a copy does.
pub const LIMITED_BY_LINK: usize = 16 << 20;
/// Longest start of a copy, and of the GPU's write before it.
const COLD: Duration = Duration::from_millis(1);

/// One size in one direction.
pub struct Point<'a> {
    pub about: &'a Subject,
    pub way: Way,
    pub direction: Direction,
    /// Completes the phrase "waiting for …".
    pub what: &'a str,
    pub bytes: usize,
}

impl Point<'_> {
    /// Takes samples, and reports latency and bandwidth, or wrong bytes.
    pub fn measure(
        &self,
        task: &Task,
        reporter: &mut Reporter<'_>,
        run: impl FnOnce(Budget) -> Result<(Timed, Option<String>), StepError>,
    ) -> Result<(), StepError> {
        let Self { about, way, direction, bytes, .. } = *self;
        let step = format!("{} ({bytes} bytes)", self.what);
        let budget = task.point();
        let time = task.time(budget, COLD + allowance(bytes) / 5) + allowance(bytes);
        reporter.doing_for(step, time)?;
        let (timed, wrong) = run(budget)?;
        let latency = way.latency(direction);
        if let Some(wrong) = wrong {
            return Ok(reporter.result(about.wrong(&latency, Some(bytes), wrong))?);
        }
        reporter.result(ProbeResult {
            cpu: timed.cpu.map(|seconds| seconds * 1e6),
            ..about.latency(&latency, Some(bytes), bytes, &timed.seconds)
        })?;
        if bytes >= MIN_BANDWIDTH_SIZE {
            let promise = self.promise(task).filter(|_| bytes >= LIMITED_BY_LINK);
            reporter.result(about.bandwidth(
                &way.bandwidth(direction),
                bytes,
                0,
                &timed.seconds,
                promise,
            ))?;
        }
        Ok(())
    }

    /// The link's peak rate, and the share of it that is expected.
    fn promise(&self, task: &Task) -> Option<Promise> {
        let (link, limit) = (task.target.link?, self.way.limit?);
        Some(Promise::of_link(link, limit.share(self.direction, &task.terms.shares)))
    }
}
