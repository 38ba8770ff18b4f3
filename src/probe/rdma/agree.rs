//! What both ends do alike: they exchange their properties and report failures.

use std::time::Duration;

use super::control::{Control, Message, Offer};
use super::end::End;
use super::memory::half;
use crate::probe::failure::StepError;

/// Sends a failure to the remote end, so that it need not wait, and returns it.
pub fn report_failure(end: Option<&End>, control: &mut Control, failure: StepError) -> StepError {
    let failure = match end {
        Some(end) => end.cause(failure),
        None => failure,
    };
    if !failure.is_from_peer() {
        // Ignored: the remote end may be gone.
        let _ = control.fail(failure.advised());
    }
    failure
}

/// Exchanges the properties of both ends.
pub fn exchange_offers(end: &End, control: &mut Control, room: usize) -> Result<Offer, StepError> {
    let ours = end.offer(room);
    control.send(Message::Offer(ours))?;
    let Message::Offer(theirs) = control.receive(Duration::ZERO)? else {
        return Err(StepError::OutOfStep);
    };
    if !is_one_partition(ours.pkey, theirs.pkey) {
        return Err(StepError::Partitions { ours: ours.pkey, theirs: theirs.pkey });
    }
    if ours.srd.is_some() != theirs.srd.is_some() {
        return Err(StepError::Efa);
    }
    match (ours.ethernet == theirs.ethernet, theirs.half == half(room) as u64) {
        (true, true) => Ok(theirs),
        (true, false) => Err(StepError::OutOfStep),
        (false, _) => Err(StepError::Links),
    }
}

/// True if ports with these P_Keys can talk to each other: the lower 15 bits name the partition, and one of both is a full member.
fn is_one_partition(ours: u16, theirs: u16) -> bool {
    const FULL: u16 = 0x8000;
    (ours ^ theirs) & !FULL == 0 && (ours | theirs) & FULL != 0
}

/// Note that only one end's GPU is simulated.
pub fn simulated_note(is_remote: bool) -> String {
    let which = if is_remote { "remote" } else { "local" };
    format!(
        "the {which} GPU is SIMULATED, and the other is not: the results say nothing about a GPU there"
    )
}

/// Compares the first 64-bit word of an end's memory.
pub fn check_word(end: &End, expected: u64) -> Result<Option<String>, StepError> {
    let found = end.store.word()?;
    Ok((found != expected).then(|| format!("{expected:#x} was expected and {found:#x} found")))
}

/// Timeout of a transfer: one second, and one for each megabyte, which emulated machines reach.
pub fn allowance(bytes: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_micros(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::is_one_partition;

    #[test]
    fn partitions() {
        for (ours, theirs, expected) in [
            (0xffff, 0xffff, true),
            (0xffff, 0x7fff, true),
            // Two limited members.
            (0x7fff, 0x7fff, false),
            (0x8001, 0xffff, false),
            (0x8001, 0x0001, true),
        ] {
            assert_eq!(is_one_partition(ours, theirs), expected, "{ours:#x} {theirs:#x}");
            assert_eq!(is_one_partition(theirs, ours), expected, "{theirs:#x} {ours:#x}");
        }
    }
}
