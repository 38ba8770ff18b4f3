//! The first message tests whether the two processes are connected. With a simulated NIC they are not: each has its own.

use std::time::{Duration, Instant};

use super::super::slots::{self, Slots};
use super::end::End;
use super::peer::Message;
use crate::probe::failure::StepError;

/// A NIC retries for eight seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The local side: returns the remote process's mark from the returned message. The inner error: the message did not arrive.
pub fn local(
    end: &mut End<'_>,
    sent: &Slots,
    returned: &Slots,
) -> Result<Result<u32, String>, StepError> {
    let number = end.number();
    end.peer.expect(&Message::Ready, Duration::ZERO)?;
    end.queues.receive(returned.segment(number))?;
    sent.write(number, &slots::message(number, 0, end.series.bytes))?;
    end.queues.send(sent.segment(number))?.ring()?;
    let begun = Instant::now();
    let mut has_returned = false;
    loop {
        // Before the channel: the peer sends `Arrived` before its message.
        match end.queues.completed() {
            Ok(count) => has_returned |= count > 0,
            Err(failed @ StepError::Wqe { .. }) => return unreached(end, gpu::sentence(&failed)),
            Err(other) => return Err(other),
        }
        if let Some(message) = end.peer.peek()? {
            if *message != Message::Arrived {
                return Err(StepError::OutOfStep);
            }
            break;
        }
        if begun.elapsed() > TIMEOUT {
            let where_to = if has_returned {
                "the sending process received it itself"
            } else {
                "it did not arrive"
            };
            return unreached(end, format!("{where_to}, in {} s", TIMEOUT.as_secs()));
        }
        std::thread::yield_now();
    }
    end.peer.expect(&Message::Arrived, Duration::ZERO)?;
    if !has_returned {
        end.arrives()?;
    }
    let found = returned.read(end.session, number)?;
    // The message's number is 0, so the word is the mark.
    let mark = found[slots::CHANGED..].first_chunk().copied().map(u32::from_ne_bytes);
    let mark = mark.unwrap_or_default();
    match slots::wrong(number, mark, &found) {
        None => Ok(Ok(mark)),
        Some(why) => Err(StepError::Released(why)),
    }
}

fn unreached(end: &mut End<'_>, why: String) -> Result<Result<u32, String>, StepError> {
    end.peer.send(Message::Unreached);
    Ok(Err(format!("a message to another process that has the same HCA does not arrive: {why}")))
}

/// The remote side; false if the message does not arrive.
pub fn remote(end: &mut End<'_>, slots: &Slots, mark: u32) -> Result<bool, StepError> {
    let number = end.number();
    end.queues.receive(slots.segment(number))?;
    end.ready();
    let begun = Instant::now();
    while end.queues.completed()? == 0 {
        match end.peer.peek()? {
            Some(Message::Unreached) => return Ok(false),
            Some(_) => return Err(StepError::OutOfStep),
            None if begun.elapsed() > TIMEOUT * 2 => {
                let what = "the first message of the other process";
                return Err(StepError::Late { what, timeout: TIMEOUT * 2 });
            }
            None => std::thread::yield_now(),
        }
    }
    end.peer.send(Message::Arrived);
    slots.change(number, mark.wrapping_add(number))?;
    end.queues.send(slots.segment(number))?.ring()?;
    Ok(true)
}
