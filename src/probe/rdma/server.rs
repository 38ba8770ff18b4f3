//! The end that follows: it does its part of each step, and tells what it found where the bytes arrived.

use std::io;
use std::time::Duration;

use gpu::Pattern;

use super::agree::{allowance, offers, one_simulated, told, word};
use super::connected::{ConnectedQueuePair, join};
use super::control::{Control, Flow, Message, Offer, Step, expect};
use super::end::End;
use super::kind::Kind;
use super::memory::half;
use super::purpose::{Purpose, Role, Ways};
use super::staged;
use super::stream::{Receiving, SAID, drive};
use super::turns::{First, play, prepare};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::statistics::Figures;

/// However long the other end takes between two steps: it is heard where it ends.
const BETWEEN: Duration = Duration::from_secs(60);
/// No step takes longer.
const LONGEST: Duration = Duration::from_secs(3600);
/// No end asks for more queue pairs, nor for more messages in a step.
const MOST_PAIRS: u32 = 64;
const MOST_MESSAGES: u32 = 10_000_000;
/// Bytes that an atomic operation changes.
const WORD: usize = 8;

/// Does what the other end says, until that says that it was all.
pub fn server(
    end: &mut End,
    room: usize,
    control: &mut Control,
    reporter: Option<&mut Reporter<'_>>,
) -> Result<(), StepError> {
    obey(end, room, control, reporter).map_err(|failure| told(Some(end), control, failure))
}

fn obey(
    end: &mut End,
    room: usize,
    control: &mut Control,
    mut reporter: Option<&mut Reporter<'_>>,
) -> Result<(), StepError> {
    let other = offers(end, control, room)?;
    if let (Some(reporter), true) = (&mut reporter, end.is_simulated() != other.simulated) {
        reporter.note(one_simulated(other.simulated))?;
    }
    let mut doing = |what: &str, time: Duration| match &mut reporter {
        Some(reporter) => reporter.doing_for(what, time),
        None => Ok(()),
    };
    let mut connection: Option<Connection> = None;
    loop {
        doing("the next step of the client", BETWEEN)?;
        let Message::Step(step) = control.receive(BETWEEN)? else {
            return Err(StepError::OutOfStep);
        };
        match step {
            Step::End => return Ok(()),
            Step::Connect(purpose) => {
                drop(connection.take());
                connection = Some(Connection::new(end, purpose, room, &other, control)?);
            }
            Step::Disconnect => {
                drop(connection.take());
                control.send(Message::Done)?;
            }
            step => {
                let found = measure(end, step, &mut connection, control, &mut doing)?;
                control.send(Message::Found(found))?;
            }
        }
    }
}

/// Does its part of a step of a test case, and says what it found where the bytes arrived.
fn measure(
    end: &End,
    step: Step,
    connection: &mut Option<Connection>,
    control: &mut Control,
    doing: &mut dyn FnMut(&str, Duration) -> io::Result<()>,
) -> Result<Option<String>, StepError> {
    Ok(match step {
        Step::End | Step::Connect(_) | Step::Disconnect => return Err(StepError::OutOfStep),
        Step::Verify { kind, bytes, seeds } => {
            doing("the message to verify", allowance(bytes))?;
            let connected = first(queue_pairs_for(connection, kind, bytes, &[Ways::One])?)?;
            verified(end, connected, control, kind, bytes, seeds)?
        }
        Step::Stream(flow) => {
            doing("messages of the client", allowed(flow.time))?;
            possible(flow)?;
            let connected = queue_pairs_for(connection, flow.kind, flow.bytes, &[Ways::One])?;
            streamed(end, connected, flow, control)?
        }
        Step::Both(flow) => {
            doing("messages both ways", allowed(flow.time))?;
            possible(flow)?;
            let connected = queue_pairs_for(connection, flow.kind, flow.bytes, &[Ways::Both])?;
            control.send(Message::Ready)?;
            let samples = drive(end, connected, flow, true, control)?;
            expect(control, &Message::Done, allowed(flow.time))?;
            let seconds = Figures::of(&samples).map_or(0.0, |figures| figures.median);
            control.send(Message::Took(seconds))?;
            None
        }
        Step::Staged(flow) => {
            doing("chunks of the client", allowed(flow.time))?;
            possible(flow)?;
            let connected = first(queue_pairs_for(
                connection,
                flow.kind,
                flow.bytes,
                &[Ways::Staged],
            )?)?;
            before(end, flow)?;
            staged::prepare(connected, flow)?;
            control.send(Message::Ready)?;
            staged::receive(end, connected, flow, control)?;
            expect(control, &Message::Done, allowed(flow.time))?;
            compared(end, flow)?
        }
        Step::Turns {
            kind,
            bytes,
            count,
            time,
        } => {
            let time = allowed(time);
            doing("ping-pong messages", time)?;
            let connected = first(queue_pairs_for(
                connection,
                kind,
                bytes,
                &[Ways::One, Ways::Both],
            )?)?;
            counted(count)?;
            prepare(end, connected, kind, bytes, count)?;
            control.send(Message::Ready)?;
            if kind == Kind::Write || kind.is_received() {
                play(end, connected, kind, (bytes, count), First::They, control)?;
            }
            expect(control, &Message::Done, time)?;
            None
        }
    })
}

/// The queue pairs of a test case.
struct Connection {
    purpose: Purpose,
    connected: Vec<ConnectedQueuePair>,
}

impl Connection {
    /// Connects for the test case that the other side asks for, if it fits into this side's memory.
    fn new(
        end: &End,
        purpose: Purpose,
        room: usize,
        other: &Offer,
        control: &mut Control,
    ) -> Result<Self, StepError> {
        let is_possible = (1..=MOST_PAIRS).contains(&purpose.pairs)
            && (1..=half(room)).contains(&purpose.bytes)
            && (!purpose.kind.is_atomic() || purpose.bytes == WORD);
        match is_possible {
            true => Ok(Self {
                purpose,
                connected: join(end, purpose, Role::Responder, other, control)?,
            }),
            false => Err(StepError::OutOfStep),
        }
    }
}

/// The queue pairs, if they were connected for this test case.
fn queue_pairs_for<'c>(
    connection: &'c mut Option<Connection>,
    kind: Kind,
    bytes: usize,
    ways: &[Ways],
) -> Result<&'c mut [ConnectedQueuePair], StepError> {
    match connection {
        Some(Connection { purpose, connected })
            if (purpose.kind, purpose.bytes) == (kind, bytes) && ways.contains(&purpose.ways) =>
        {
            Ok(connected)
        }
        _ => Err(StepError::OutOfStep),
    }
}

fn counted(count: u32) -> Result<(), StepError> {
    match count <= MOST_MESSAGES {
        true => Ok(()),
        false => Err(StepError::OutOfStep),
    }
}

/// Checks the number of messages of a flow.
fn possible(flow: Flow) -> Result<(), StepError> {
    counted(flow.count)?;
    match flow.depth {
        0 => Err(StepError::OutOfStep),
        _ => Ok(()),
    }
}

fn first(connected: &mut [ConnectedQueuePair]) -> Result<&mut ConnectedQueuePair, StepError> {
    connected.first_mut().ok_or(StepError::OutOfStep)
}

/// What the other side asks for, and no more than a person waits: it may be another program.
fn allowed(time: Duration) -> Duration {
    time.min(LONGEST)
}

/// What is read from here, or what is here before something arrives.
fn before(end: &End, flow: Flow) -> Result<(), StepError> {
    match flow.seeds {
        Some([sent, _]) if flow.kind == Kind::Read => end.fill(flow.bytes, Pattern::new(sent)),
        Some([_, before]) => end.fill(flow.bytes, Pattern::new(before)),
        None => Ok(()),
    }
}

/// What is wrong with what arrived.
fn compared(end: &End, flow: Flow) -> Result<Option<String>, StepError> {
    match flow.seeds {
        Some([sent, _]) if flow.kind != Kind::Read => {
            let wrong = end.check(flow.bytes, Pattern::new(sent))?;
            Ok(wrong.map(|wrong| wrong.to_string()))
        }
        _ => Ok(None),
    }
}

fn streamed(
    end: &End,
    connected: &mut [ConnectedQueuePair],
    flow: Flow,
    control: &mut Control,
) -> Result<Option<String>, StepError> {
    before(end, flow)?;
    if flow.kind.is_received() {
        let receiving = Receiving::begin(connected, flow)?;
        control.send(Message::Ready)?;
        receiving.finish(end, connected, control)?;
    } else {
        control.send(Message::Ready)?;
    }
    expect(control, &Message::Done, allowed(flow.time))?;
    compared(end, flow)
}

fn verified(
    end: &End,
    connected: &mut ConnectedQueuePair,
    control: &mut Control,
    kind: Kind,
    bytes: usize,
    [sent, before]: [u64; 2],
) -> Result<Option<String>, StepError> {
    match kind {
        Kind::Read => end.fill(bytes, Pattern::new(sent))?,
        _ if kind.is_atomic() => end.store.set_word(before)?,
        _ => end.fill(bytes, Pattern::new(before))?,
    }
    end.leave(0, bytes)?;
    if kind.is_received() {
        connected.receive(1, 0, bytes)?;
    }
    control.send(Message::Ready)?;
    let mut said = None;
    if kind.is_received() {
        said = connected
            .received
            .wait(control)?
            .first()
            .and_then(|done| done.immediate);
    }
    expect(control, &Message::Done, allowance(bytes))?;
    end.arrive(0, bytes)?;
    if said != kind.has_immediate().then_some(SAID) {
        return Ok(Some(format!(
            "the immediate data is {said:x?}, expected {SAID:#x}"
        )));
    }
    match kind {
        Kind::Read => Ok(None),
        _ if kind.is_atomic() => word(end, sent),
        _ => Ok(end
            .check(bytes, Pattern::new(sent))?
            .map(|wrong| wrong.to_string())),
    }
}
