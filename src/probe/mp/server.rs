//! The server: follows the client's steps, and says what is wrong in its memory.

use std::time::Duration;

use mp::{Request, Stream, Transfer};

use super::drive::queue;
use super::memory::Half;
use super::plan::{ALIGNMENT, BATCH};
use super::session::Session;
use super::talk::{Drive, Kind, Message, Step};
use super::task::Side;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Time between two steps, for a client on a busy machine.
pub const STEP_TIME: Duration = Duration::from_secs(60);

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    loop {
        reporter.doing_for("the other process's next step", STEP_TIME)?;
        match session.peer.receive(STEP_TIME)? {
            Message::Step(step) => {
                let is_possible = is_possible(&step, session.task.room);
                let found = is_possible.then(|| serve(session, &step));
                let found = found.ok_or(StepError::OutOfStep)??;
                session.peer.send(Message::Found(found))?;
            }
            Message::End => return Ok(()),
            _ => return Err(StepError::OutOfStep),
        }
    }
}

/// True if its messages fit in the memory and in the queues.
fn is_possible(step: &Step, room: usize) -> bool {
    let stride = step.bytes.checked_next_multiple_of(ALIGNMENT);
    let bytes = stride.and_then(|stride| stride.max(ALIGNMENT).checked_mul(step.count as usize));
    (1..=BATCH).contains(&step.count) && bytes.is_some_and(|bytes| bytes <= room)
}

fn serve(session: &Session<'_>, step: &Step) -> Result<Option<String>, StepError> {
    let (memory, reader) = (&session.memory, &session.reader);
    let check = || memory.check(reader, Side::Client, step);
    let (ready, done) = (Message::Ready, Message::Done);
    match step.kind {
        Kind::PingPong(drive) => {
            memory.fill(reader, Side::Server, step)?;
            memory.clear(reader, step)?;
            answer(session, drive, step)?;
            check()
        }
        Kind::Messages => {
            memory.clear(reader, step)?;
            let receives = receive_all(session, step)?;
            session.peer.send(ready)?;
            session.wait_all(receives)?;
            check()
        }
        Kind::Put => {
            memory.clear(reader, step)?;
            session.peer.send(ready)?;
            session.peer.expect(&done, STEP_TIME)?;
            check()
        }
        Kind::Get => {
            memory.fill(reader, Side::Server, step)?;
            session.peer.send(ready)?;
            session.peer.expect(&done, STEP_TIME)?;
            Ok(None)
        }
    }
}

/// Posts the receives of all messages.
pub fn receive_all(session: &Session<'_>, step: &Step) -> Result<Vec<Request>, StepError> {
    let receive = |index| {
        let range = session.memory.range(Half::Incoming, step, index);
        let region = &session.memory.region;
        Ok(session.ranks.receive(session.other(), region, range)?)
    };
    (0..step.count).map(receive).collect()
}

/// The send of a message.
pub fn send<'s>(session: &'s Session<'_>, step: &Step, index: u32) -> Transfer<'s> {
    let range = session.memory.range(Half::Outgoing, step, index);
    Transfer::send(session.other(), &session.memory.region, range)
}

/// Answers each message.
fn answer(session: &Session<'_>, drive: Drive, step: &Step) -> Result<(), StepError> {
    let ranks = &session.ranks;
    let receives = receive_all(session, step)?;
    if drive == Drive::Cpu {
        session.peer.send(Message::Ready)?;
        let mut sends = Vec::new();
        for (received, index) in receives.into_iter().zip(0..) {
            ranks.wait(received)?;
            sends.push(ranks.start(&send(session, step, index))?);
        }
        return session.wait_all(sends);
    }
    let (queued, sends) = queue(session, drive, |stream: &dyn Stream| {
        let answer = |(received, index)| {
            ranks.wait_on(stream, [received])?;
            Ok(ranks.start_on(stream, &send(session, step, index))?)
        };
        receives.iter().zip(0..).map(answer).collect()
    })?;
    queued.launch(session)?;
    session.peer.send(Message::Ready)?;
    session.wait_all(receives)?;
    session.wait_all(sends)?;
    session.finish()?;
    queued.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_steps_that_exceed_memory_or_queues() {
        let step = |bytes, count| Step { kind: Kind::Put, bytes, count, seed: u64::MAX };
        assert!(is_possible(&step(1000, 4), 4096));
        assert!(is_possible(&step(0, 1), 64));
        for (bytes, count) in [
            (1000, 5),
            (4097, 1),
            (0, 0),
            (0, BATCH + 1),
            (usize::MAX, 1),
            (usize::MAX / 2, 4),
            (1, u32::MAX),
        ] {
            assert!(!is_possible(&step(bytes, count), 4096), "{bytes} {count}");
        }
    }
}
