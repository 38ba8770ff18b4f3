//! The child's side: runs the parts of the task on one GPU, or one of the two processes of `async.pingpong`.

use std::time::Duration;

use super::session::Session;
use super::task::{Side, Task};
use super::{doorbell, kernel, loopback, order, pingpong, poll, register};
use crate::model::ProbeResult;
use crate::model::figure::asynchronous::{DOORBELLS, KERNEL, MessagePath, ORDERS, POLLS};
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::task::{self, Part, run_parts};

impl task::Task for Task {
    const NAME: &'static str = "async";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        if let Some(side) = self.pingpong {
            return pingpong::run(side, self, reporter);
        }
        reporter.doing("CUDA to open the GPU")?;
        let gpu = self.open()?;
        let mut session = Session::new(self, gpu, reporter)?;
        reporter.send(&Event::Gpu(Box::new(session.probed())))?;
        // Without its doorbell the NIC cannot be used.
        let rings = register::run(&session, reporter)?;
        let has_queues = self.hca.is_some() && rings;
        let parts: [Part<Session<'_>>; 5] = [
            (ORDERS, order::run),
            (POLLS, poll::run),
            (DOORBELLS, doorbell::run),
            (MessagePath::Loopback.name(), loopback::run),
            (KERNEL, kernel::run),
        ];
        let without_register: [Part<Session<'_>>; 1] = [(KERNEL, kernel::run_assisted)];
        let parts =
            if has_queues { parts.to_vec() } else { [&parts[..2], &without_register].concat() };
        run_parts(&parts, &mut session, reporter, |session, name, why| {
            session.about.impossible(name, None, true, why)
        })
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let name = match self.pingpong {
            None => "async",
            Some(Side::Local) => pingpong::PART,
            // The local process reports failures of the remote one.
            Some(Side::Remote) => return None,
        };
        let about = self.target.about(self.target.cuda(), None);
        Some(about.impossible(name, None, true, error.advised()))
    }
}
