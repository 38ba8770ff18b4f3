//! What both ends do alike: they say what they are, and why they cannot go on.

use std::time::Duration;

use super::control::{Control, Message, Offer};
use super::end::End;
use super::memory::half;
use super::memory_paths;
use crate::probe::failure::StepError;

/// Why an end cannot go on, which the other one hears: it need not wait for what does not come.
pub fn report_failure(end: Option<&End>, control: &mut Control, failure: StepError) -> StepError {
    let failure = match end {
        Some(end) => end.cause(failure),
        None => failure,
    };
    if !failure.is_from_peer() {
        // The other end may be gone as well.
        let _ = control.fail(memory_paths::advised(&failure));
    }
    failure
}

/// Both ends say what they are.
pub fn exchange_offers(end: &End, control: &mut Control, room: usize) -> Result<Offer, StepError> {
    let ours = end.offer(room);
    control.send(Message::Offer(ours))?;
    let Message::Offer(theirs) = control.receive(Duration::ZERO)? else {
        return Err(StepError::OutOfStep);
    };
    match (
        ours.ethernet == theirs.ethernet,
        theirs.half == half(room) as u64,
    ) {
        (true, true) => Ok(theirs),
        (true, false) => Err(StepError::OutOfStep),
        (false, _) => Err(StepError::Links),
    }
}

/// That one end's GPU is none, to whoever reads either end's report.
pub fn simulated_note(is_remote: bool) -> String {
    let which = if is_remote { "remote" } else { "local" };
    format!(
        "the {which} GPU is SIMULATED, and the other is not: the results say nothing about a GPU there"
    )
}

/// Whether the first word of an end's memory is this one.
pub fn check_word(end: &End, expected: u64) -> Result<Option<String>, StepError> {
    let found = end.store.word()?;
    Ok((found != expected).then(|| format!("{expected:#x} was expected and {found:#x} found")))
}

/// How long so many bytes may take where nothing hangs: a megabyte a second, which emulated machines reach, and a second.
pub fn allowance(bytes: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_micros(bytes as u64)
}
