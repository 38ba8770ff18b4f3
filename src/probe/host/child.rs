//! The child's side: runs the parts of the task on one GPU.

use std::time::Duration;

use super::session::Session;
use super::task::Task;
use super::{integrity, kernels, links, staged, unified};
use crate::model::ProbeResult;
use crate::model::figure::{VALIDATED, host};
use crate::probe::cpus::bind;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::task::{self, Part, run_parts};

impl task::Task for Task {
    const NAME: &'static str = "host";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        if let Some((node, cpus)) = &self.node {
            bind(*node, cpus)?;
        }
        reporter.doing("CUDA to open the GPU")?;
        let gpu = self.target.open()?;
        reporter.send(&Event::Gpu(Box::new(self.target.probed(&gpu.device().name))))?;
        let mut session = Session::new(self, gpu, reporter)?;
        let parts: &[Part<Session<'_>>] = if self.links_only {
            &[(host::PINNED, links::pinned_only)]
        } else {
            &[
                (host::UNIFIED_ADDRESSING, unified::run),
                (VALIDATED, integrity::run),
                (host::LINKS, links::run),
                (host::KERNELS, kernels::run),
                (host::STAGED, staged::run),
            ]
        };
        run_parts(parts, &mut session, reporter, |session, name, why| {
            session.about.impossible(name, None, true, why)
        })
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let about = self.target.about(self.target.cuda(), self.numa());
        Some(about.impossible("host", None, true, error.advised()))
    }
}
