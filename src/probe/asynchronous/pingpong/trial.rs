//! The first message: whether the two processes reach each other at all. Two processes over a simulated NIC do not, as each has its own.

use std::time::{Duration, Instant};

use gdsync::wire::Wqe;

use super::end::End;
use super::memory::{self, Slots};
use super::way::Word;
use crate::probe::failure::StepError;

/// A NIC tries for eight seconds with the options that it is opened with.
const TRYING: Duration = Duration::from_secs(15);

/// The near one's: what came back brings the far one's mark. `Err` of the outer is a failure, of the inner that nobody is there.
pub fn local(
    end: &mut End<'_>,
    sent: &Slots,
    back: &Slots,
) -> Result<Result<u32, String>, StepError> {
    let number = end.number();
    end.way.expect(&Word::Ready, Duration::ZERO)?;
    end.queues.pair.receive.post(&[back.segment(number)])?;
    sent.write(number, &memory::message(number, 0, end.bytes))?;
    let entry = Wqe::send(&[sent.segment(number)]).signalled();
    end.queues.pair.send.prepare(&entry)?.ring()?;
    let begun = Instant::now();
    let mut came_back = false;
    loop {
        // Before what it said is looked at: it says so before it sends.
        match end.queues.completed() {
            Ok(count) => came_back |= count > 0,
            Err(failed @ StepError::Wqe { .. }) => return unreached(end, gpu::sentence(&failed)),
            Err(other) => return Err(other),
        }
        if let Some(word) = end.way.look()? {
            if *word != Word::Arrived {
                return Err(StepError::OutOfStep);
            }
            break;
        }
        if begun.elapsed() > TRYING {
            let where_to = match came_back {
                true => "it came to the process that sent it",
                false => "it did not come",
            };
            return unreached(end, format!("{where_to}, in {} s", TRYING.as_secs()));
        }
        std::thread::yield_now();
    }
    end.way.expect(&Word::Arrived, Duration::ZERO)?;
    if !came_back {
        end.arrives()?;
    }
    let found = back.read(end.session, number)?;
    // Number 0: what is there is the mark alone.
    let mark = found[memory::CHANGED..]
        .first_chunk()
        .copied()
        .map(u32::from_ne_bytes);
    let mark = mark.unwrap_or_default();
    match memory::wrong(number, mark, &found) {
        None => Ok(Ok(mark)),
        Some(why) => Err(StepError::Released(why)),
    }
}

fn unreached(end: &mut End<'_>, why: String) -> Result<Result<u32, String>, StepError> {
    end.way.say(Word::Unreached);
    Ok(Err(format!(
        "a message to another process that has the same HCA does not arrive: {why}"
    )))
}

/// The far one's; false where the near one says that it does not come.
pub fn remote(end: &mut End<'_>, slots: &Slots, mark: u32) -> Result<bool, StepError> {
    let number = end.number();
    end.queues.pair.receive.post(&[slots.segment(number)])?;
    end.way.say(Word::Ready);
    let begun = Instant::now();
    while end.queues.completed()? == 0 {
        match end.way.look()? {
            Some(Word::Unreached) => return Ok(false),
            Some(_) => return Err(StepError::OutOfStep),
            None if begun.elapsed() > TRYING * 2 => {
                let what = "the first message of the other process";
                return Err(StepError::Late {
                    what,
                    timeout: TRYING * 2,
                });
            }
            None => std::thread::yield_now(),
        }
    }
    end.way.say(Word::Arrived);
    slots.change(number, mark.wrapping_add(number))?;
    let entry = Wqe::send(&[slots.segment(number)]).signalled();
    end.queues.pair.send.prepare(&entry)?.ring()?;
    Ok(true)
}
