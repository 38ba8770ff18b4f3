//! Messages that a kernel sends: it builds the WQEs in GPU memory, rings the doorbell and polls the CQ itself, with no CPU and no stream
//! operation between. Modes, in this order: the GPU rings the register, the CPU rings it for the kernel, the proxy posts for the kernel.
//! A mode that fails is reported with its cause, and the next one follows.

mod bench;
mod cases;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use gdsync::hca::Hca;

use super::session::Session;
use crate::model::ProbeResult;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;
use crate::probe::verdict::Subject;
use bench::Bench;
use cases::{CASES, Case, Ringing};

/// Time for one case: ten milliseconds per message of the quickest depth, for a busy machine.
const CASE_TIME: Duration = Duration::from_secs(60);

/// All modes with the task's HCA.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    modes(session, reporter, true)
}

/// The modes without the GPU's access to the doorbell register.
pub fn run_assisted(
    session: &mut Session<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    modes(session, reporter, false)
}

fn modes(session: &Session<'_>, reporter: &mut Reporter<'_>, rings: bool) -> Result<(), StepError> {
    let Some(choice) = &session.task.hca else {
        return Ok(());
    };
    if !session.task.settings.by_kernel {
        return Ok(());
    }
    reporter.doing("queues for kernels")?;
    let hca = choice.open(session)?;
    for case in CASES {
        if rings || case.ringing == Ringing::Assisted {
            measure(session, reporter, &hca, &session.about_queues(), case)?;
        }
    }
    if let HcaChoice::Mlx5(port) = choice {
        let proxy = HcaChoice::Proxy(port.clone());
        let about = Subject {
            backend: format!("{}+{}", session.about.backend, proxy.name()),
            ..session.about.clone()
        };
        let hca = proxy.open(session)?;
        for case in CASES.iter().filter(|case| case.is_plain()) {
            measure(session, reporter, &hca, &about, case)?;
        }
    }
    Ok(())
}

/// Reports the figure of a case, or the reason why it has no figure. Only a lost context ends the part.
fn measure(
    session: &Session<'_>,
    reporter: &mut Reporter<'_>,
    hca: &Rc<dyn Hca>,
    about: &Subject,
    case: &Case,
) -> Result<(), StepError> {
    let bytes = case.bytes(session);
    reporter.doing_for(format!("{}, posted by a kernel", case.figure.name), CASE_TIME)?;
    let messages = case.messages(session);
    let outcome = Bench::new(session, hca, case, bytes).and_then(|mut bench| {
        if let Some(note) = bench.note() {
            reporter.note(note)?;
        }
        bench.run(session, messages, &mut |left| {
            let what = format!("{left} of {messages} messages that a kernel sends");
            Ok(reporter.doing_for(what, CASE_TIME)?)
        })
    });
    let name = case.figure.name;
    let result = match outcome {
        Ok((times, wrong)) => {
            let verified = messages as usize * bytes;
            let result = if case.is_rate() {
                ProbeResult { verified: verified as u64, ..about.rate(name, bytes, &times) }
            } else {
                about.spread(name, Some(bytes), verified, &times)
            };
            about.checked(result, wrong)
        }
        Err(error) if error.is_fatal() => return Err(error),
        Err(StepError::Queues(gdsync::Error::Device(
            error @ gdsync::hca::port::Error::NoRecordlessQueues { .. },
        ))) => about.not_measured(name, bytes, gpu::sentence(&error)),
        Err(error) => {
            let why = format!("{}; {}", gpu::sentence(&error), case.next_step(&error));
            about.impossible(name, Some(bytes), true, why)
        }
    };
    Ok(reporter.result(result)?)
}
