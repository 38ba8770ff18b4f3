//! A stream does what it is given in order: it stays where it waits until the CPU writes the word, and what comes after the wait is
//! not there before. Each list is tried many times, with every way of waiting and every place of the words.

use std::time::Duration;

use gdsync::{Place, Program, Watched};
use gpu::Compare;

use super::session::{Session, seen};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Where the words are.
pub(super) const SIGNAL: usize = 0;
const DONE: usize = 64;
const BEGUN: usize = 128;
const DATA: usize = 4096;
/// Words that are written by value.
const COUNT: usize = 16;
/// How long a stream that must not go on is looked at: many times what it takes to go on.
const STUCK: Duration = Duration::from_micros(50);

/// A way of waiting.
pub(super) struct Way {
    name: &'static str,
    compare: Compare,
}

pub(super) const WAYS: [Way; 4] = [
    Way {
        name: "geq",
        compare: Compare::Geq,
    },
    Way {
        name: "eq",
        compare: Compare::Eq,
    },
    Way {
        name: "and",
        compare: Compare::And,
    },
    Way {
        name: "nor",
        compare: Compare::Nor,
    },
];

/// What the signal is before it is given, what the stream compares it with, and what the CPU writes to give it.
fn signals(compare: Compare, round: u32) -> (u32, u32, u32) {
    match compare {
        Compare::Geq | Compare::Eq => (round - 1, round, round),
        Compare::And => {
            let bit = 1 << (round % 32);
            (!bit, bit, bit)
        }
        // All bits but one are in the value: what must be clear is that one.
        Compare::Nor => {
            let bit = 1 << (round % 32);
            (bit, !bit, !bit)
        }
    }
}

/// Tries every way in every place.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let rounds = session.task.terms.depth.async_orders();
    let places = session.words.clone();
    reporter.expect_more((places.len() * WAYS.len()) as u64);
    for (location, words) in &places {
        for way in &WAYS {
            let label = format!("validate.stream.{}.{location}", way.name);
            reporter.doing_for(
                format!("{rounds} lists that wait ({}, {location})", way.name),
                Duration::from_secs(60),
            )?;
            if way.compare == Compare::Nor && !session.can.nor {
                let why = "this GPU's streams do not wait by NOR: Volta and later do".to_owned();
                reporter.result(session.about.impossible(&label, None, false, why))?;
                continue;
            }
            let wrong = tried(session, words, way, rounds)?;
            let verified = rounds as usize * (COUNT + 2) * 4;
            reporter.result(match wrong {
                None => session.about.right(&label, None, verified),
                Some(why) => session.about.wrong(&label, None, why),
            })?;
        }
    }
    Ok(())
}

/// The first list of so many that was not done in order.
pub(super) fn tried(
    session: &Session<'_>,
    words: &Place,
    way: &Way,
    rounds: u32,
) -> Result<Option<String>, StepError> {
    words.store_u32(DONE, 0)?;
    for round in 1..=rounds {
        if let Some(wrong) = once(session, words, way, round)? {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}

/// One list in two phases: it is stuck at its first wait, goes on, is stuck at its second, and ends.
fn once(
    session: &Session<'_>,
    words: &Place,
    way: &Way,
    round: u32,
) -> Result<Option<String>, StepError> {
    let (before, value, signal) = signals(way.compare, round);
    words.store_u32(SIGNAL, before)?;
    let data: Vec<u8> = (0..COUNT)
        .flat_map(|word| (round ^ (word as u32 + 1) << 16).to_ne_bytes())
        .collect();
    words.write(DATA, &[0xff; COUNT * 4])?;
    let mut program = Program::new();
    program
        .write32(words, BEGUN, round)
        .wait32(words, SIGNAL, value, way.compare)
        .write(words, DATA, &data)?
        .barrier()
        .wait32(words, DATA, 0, Compare::Eq)
        .write32(words, DONE, round);
    let watched = |what: &str, offset, value, compare| -> Result<Watched, StepError> {
        Ok(Watched {
            what: what.to_owned(),
            word: words.part(offset, 4)?,
            value,
            compare,
        })
    };
    let guard = session.dog.watch(
        vec![
            watched("the signal", SIGNAL, value, way.compare)?,
            watched("the word that the CPU clears", DATA, 0, Compare::Eq)?,
        ],
        session.timeout,
    );
    program.post_to(&session.stream, session.can)?;
    let told = |what: &str| Ok(Some(format!("list {round}: {what}")));
    if !seen(words, BEGUN, round, session.timeout)? {
        // Its guard lets it go.
        session.stream.synchronize_within(session.timeout * 2)?;
        return told("its first write did not become visible");
    }
    pause(STUCK);
    let mut wrong = None;
    if session.stream.is_idle()? || words.load_u32(DONE)? != round - 1 {
        wrong = Some("the stream did not wait for the signal");
    } else if words.load_u32(DATA)? != u32::MAX {
        wrong = Some("what comes after the wait was there before it");
    }
    words.store_u32(SIGNAL, signal)?;
    let last = u32::from_ne_bytes([data[60], data[61], data[62], data[63]]);
    if !seen(words, DATA + (COUNT - 1) * 4, last, session.timeout)? {
        wrong = wrong.or(Some("the stream did not go on after the signal"));
    } else {
        let mut found = [0; COUNT * 4];
        words.read(DATA, &mut found)?;
        if found[..] != data[..] {
            wrong = wrong.or(Some("the words it wrote are not those it was given"));
        }
        pause(STUCK);
        if words.load_u32(DONE)? != round - 1 {
            wrong = wrong.or(Some("the stream did not stay at its second wait"));
        }
    }
    words.store_u32(DATA, 0)?;
    if !seen(words, DONE, round, session.timeout)? {
        wrong = wrong.or(Some("its last write did not become visible"));
    }
    session.stream.synchronize_within(session.timeout * 2)?;
    match (wrong, guard.finish().first()) {
        (Some(wrong), _) => told(wrong),
        (None, Some(released)) => told(&released.to_string()),
        (None, None) => Ok(None),
    }
}

fn pause(time: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
