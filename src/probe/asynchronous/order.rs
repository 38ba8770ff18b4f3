//! Order of stream operations: a stream waits until the CPU writes a word, and no operation after the wait takes effect before.
//! Each list is run many times, with each kind of wait and each location of the words.

use std::time::Duration;

use gdsync::{MappedMemory, Program};
use gpu::Compare;

use super::session::{Session, pause, wait_for_word, watched};
use crate::model::figure::asynchronous::ORDERS;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Offsets of the words.
pub(super) const SIGNAL: usize = 0;
const DONE: usize = 64;
const BEGUN: usize = 128;
const DATA: usize = 4096;
/// Number of words that the stream writes at `DATA`.
const COUNT: usize = 16;
/// How long to watch a stream that must not continue: many times its latency.
const STUCK: Duration = Duration::from_micros(50);

/// The kinds of wait, with their part of a result's name.
const WAITS: [(&str, Compare); 4] =
    [("geq", Compare::Geq), ("eq", Compare::Eq), ("and", Compare::And), ("nor", Compare::Nor)];

/// The word before the signal, the value that the stream compares it with, and the word that the CPU writes as the signal.
fn signals(compare: Compare, round: u32) -> (u32, u32, u32) {
    match compare {
        Compare::Geq | Compare::Eq => (round - 1, round, round),
        Compare::And => {
            let bit = 1 << (round % 32);
            (!bit, bit, bit)
        }
        // The value has all bits but one, which must be cleared.
        Compare::Nor => {
            let bit = 1 << (round % 32);
            (bit, !bit, !bit)
        }
    }
}

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let rounds = session.task.terms.depth.async_orders();
    let places = session.words.clone();
    reporter.expect_more((places.len() * WAITS.len()) as u64);
    for (location, words) in &places {
        for (name, compare) in WAITS {
            let label = format!("{ORDERS}.{name}.{location}");
            reporter.doing_for(
                format!("{rounds} lists that wait ({name}, {location})"),
                Duration::from_secs(60),
            )?;
            if compare == Compare::Nor && !session.capabilities.nor {
                let why =
                    "this GPU's streams have no NOR wait, which needs Volta or later".to_owned();
                reporter.result(session.about.impossible(&label, None, false, why))?;
                continue;
            }
            let wrong = first_failure(session, words, compare, rounds)?;
            let verified = rounds as usize * (COUNT + 2) * 4;
            let right = session.about.right(&label, None, verified);
            reporter.result(session.about.checked(right, wrong))?;
        }
    }
    Ok(())
}

/// Why the first failing list failed.
pub(super) fn first_failure(
    session: &Session<'_>,
    words: &MappedMemory,
    compare: Compare,
    rounds: u32,
) -> Result<Option<String>, StepError> {
    words.store_u32(DONE, 0)?;
    for round in 1..=rounds {
        if let Some(wrong) = run_list(session, words, compare, round)? {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}

/// Runs a list of two waits, and checks that the stream blocks at both.
fn run_list(
    session: &Session<'_>,
    words: &MappedMemory,
    compare: Compare,
    round: u32,
) -> Result<Option<String>, StepError> {
    let (before, value, signal) = signals(compare, round);
    words.store_u32(SIGNAL, before)?;
    let data: Vec<u8> =
        (0..COUNT).flat_map(|word| (round ^ (word as u32 + 1) << 16).to_ne_bytes()).collect();
    words.write(DATA, &[0xff; COUNT * 4])?;
    let mut program = Program::new();
    program
        .write32(words, BEGUN, round)
        .wait32(words, SIGNAL, value, compare)
        .write(words, DATA, &data)?
        .barrier()
        .wait32(words, DATA, 0, Compare::Eq)
        .write32(words, DONE, round);
    let guard = session.watchdog.watch(
        vec![
            watched("the signal", words, SIGNAL, value, compare)?,
            watched("the word that the CPU clears", words, DATA, 0, Compare::Eq)?,
        ],
        session.timeout,
    );
    program.post_to(&session.stream, session.capabilities)?;
    let failure = |what: &str| Ok(Some(format!("list {round}: {what}")));
    if !wait_for_word(words, BEGUN, round, session.timeout)? {
        // The watchdog releases it.
        session.stream.synchronize_within(session.timeout * 2)?;
        return failure("its first write did not become visible");
    }
    pause(STUCK);
    let mut wrong = None;
    if session.stream.is_idle()? || words.load_u32(DONE)? != round - 1 {
        wrong = Some("the stream did not wait for the signal");
    } else if words.load_u32(DATA)? != u32::MAX {
        wrong = Some("an operation after the wait took effect before it");
    }
    words.store_u32(SIGNAL, signal)?;
    let last = u32::from_ne_bytes([data[60], data[61], data[62], data[63]]);
    if !wait_for_word(words, DATA + (COUNT - 1) * 4, last, session.timeout)? {
        wrong = wrong.or(Some("the stream did not continue after the signal"));
    } else {
        let mut found = [0; COUNT * 4];
        words.read(DATA, &mut found)?;
        if found[..] != data[..] {
            wrong = wrong.or(Some("the stream wrote wrong words"));
        }
        pause(STUCK);
        if words.load_u32(DONE)? != round - 1 {
            wrong = wrong.or(Some("the stream did not block at its second wait"));
        }
    }
    words.store_u32(DATA, 0)?;
    if !wait_for_word(words, DONE, round, session.timeout)? {
        wrong = wrong.or(Some("its last write did not become visible"));
    }
    session.stream.synchronize_within(session.timeout * 2)?;
    match (wrong, guard.finish().first()) {
        (Some(wrong), _) => failure(wrong),
        (None, Some(released)) => failure(&released.to_string()),
        (None, None) => Ok(None),
    }
}
