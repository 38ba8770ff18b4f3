//! The server: it does its part of each step, and reports whether the right bytes arrived.

use std::io;
use std::time::Duration;

use gpu::Pattern;

use super::agree::{allowance, check_word, exchange_offers, report_failure, simulated_note};
use super::connected::{ConnectedQueuePair, connect_queue_pairs};
use super::control::{Control, Flow, Message, Offer, Step, expect};
use super::end::End;
use super::kind::Kind;
use super::memory::half;
use super::ping_pong::{First, ping_pong, prepare};
use super::purpose::{Purpose, Role, Traffic};
use super::staged;
use super::stream::{IMMEDIATE, Receiving, drive};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::statistics::Figures;

/// Longest time between two steps. The client's end is noticed earlier.
const STEP_WAIT: Duration = Duration::from_secs(60);
/// Longest time of a step.
const MAX_STEP_TIME: Duration = Duration::from_secs(3600);
/// Most queue pairs, and most messages of a step.
const MAX_PAIRS: u32 = 64;
const MAX_MESSAGES: u32 = 10_000_000;
/// Bytes that an atomic operation changes.
const WORD: usize = 8;

/// Executes the client's steps until [`Step::End`].
pub fn server(
    end: &mut End,
    room: usize,
    control: &mut Control,
    reporter: Option<&mut Reporter<'_>>,
) -> Result<(), StepError> {
    serve(end, room, control, reporter)
        .map_err(|failure| report_failure(Some(end), control, failure))
}

fn serve(
    end: &mut End,
    room: usize,
    control: &mut Control,
    mut reporter: Option<&mut Reporter<'_>>,
) -> Result<(), StepError> {
    let other = exchange_offers(end, control, room)?;
    if let (Some(reporter), true) = (&mut reporter, end.is_simulated() != other.simulated) {
        reporter.note(simulated_note(other.simulated))?;
    }
    let mut doing = |what: &str, time: Duration| match &mut reporter {
        Some(reporter) => reporter.doing_for(what, time),
        None => Ok(()),
    };
    let mut connection: Option<Connection> = None;
    loop {
        doing("the next step of the client", STEP_WAIT)?;
        let Message::Step(step) = control.receive(STEP_WAIT)? else {
            return Err(StepError::OutOfStep);
        };
        match step {
            Step::End => return Ok(control.send(Message::Counters(end.counters.rises()))?),
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

/// Does the server's part of a step. Returns the error in the bytes that arrived.
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
            let connected =
                first_queue_pair(queue_pairs_for(connection, kind, bytes, &[Traffic::OneWay])?)?;
            verify(end, connected, control, kind, bytes, seeds)?
        }
        Step::FirstTouch { bytes, count, seed, time } => {
            doing("writes into released pages", bounded(time))?;
            queue_pairs_for(connection, Kind::Write, bytes, &[Traffic::OneWay])?;
            let is_paged = connection.as_ref().is_some_and(|to| to.purpose.on_demand);
            if !is_paged {
                return Err(StepError::OutOfStep);
            }
            check_count(count)?;
            first_touch(end, (bytes, count), seed, time, control)?
        }
        Step::Stream(flow) => {
            doing("messages of the client", bounded(flow.time))?;
            check_flow(flow)?;
            let connected = queue_pairs_for(connection, flow.kind, flow.bytes, &[Traffic::OneWay])?;
            receive_stream(end, connected, flow, control)?
        }
        Step::Both(flow) => {
            doing("messages both ways", bounded(flow.time))?;
            both_ways(end, flow, connection, control)?
        }
        Step::Staged(flow) => {
            doing("chunks of the client", bounded(flow.time))?;
            receive_chunks(end, flow, connection, control)?
        }
        Step::PingPong { kind, bytes, count, time } => {
            let time = bounded(time);
            doing("ping-pong messages", time)?;
            let connected = first_queue_pair(queue_pairs_for(
                connection,
                kind,
                bytes,
                &[Traffic::OneWay, Traffic::BothWays],
            )?)?;
            check_count(count)?;
            prepare(end, connected, kind, bytes, count)?;
            control.send(Message::Ready)?;
            if kind == Kind::Write || kind.is_received() {
                ping_pong(end, connected, kind, (bytes, count), First::Remote, control)?;
            }
            expect(control, &Message::Done, time)?;
            None
        }
    })
}

/// Sends while the client sends.
fn both_ways(
    end: &End,
    flow: Flow,
    connection: &mut Option<Connection>,
    control: &mut Control,
) -> Result<Option<String>, StepError> {
    check_flow(flow)?;
    let connected = queue_pairs_for(connection, flow.kind, flow.bytes, &[Traffic::BothWays])?;
    control.send(Message::Ready)?;
    let samples = drive(end, connected, flow, true, control)?;
    expect(control, &Message::Done, bounded(flow.time))?;
    let seconds = Figures::of(&samples).map_or(0.0, |figures| figures.median);
    control.send(Message::Took(seconds))?;
    Ok(None)
}

/// Receives chunks, and copies them to GPU memory.
fn receive_chunks(
    end: &End,
    flow: Flow,
    connection: &mut Option<Connection>,
    control: &mut Control,
) -> Result<Option<String>, StepError> {
    check_flow(flow)?;
    if !staged::is_possible(flow.chunk) {
        return Err(StepError::OutOfStep);
    }
    let connected =
        first_queue_pair(queue_pairs_for(connection, flow.kind, flow.bytes, &[Traffic::Staged])?)?;
    prepare_memory(end, flow)?;
    staged::prepare(connected, flow)?;
    control.send(Message::Ready)?;
    staged::receive(end, connected, flow, control)?;
    expect(control, &Message::Done, bounded(flow.time))?;
    compare(end, flow)
}

/// The queue pairs of a test case.
struct Connection {
    purpose: Purpose,
    connected: Vec<ConnectedQueuePair>,
}

impl Connection {
    /// Connects for the client's test case, if it fits into the memory of this end.
    fn new(
        end: &End,
        purpose: Purpose,
        room: usize,
        other: &Offer,
        control: &mut Control,
    ) -> Result<Self, StepError> {
        let is_possible = (1..=MAX_PAIRS).contains(&purpose.pairs)
            && (1..=half(room)).contains(&purpose.bytes)
            && (!purpose.kind.is_atomic() || purpose.bytes == WORD)
            && purpose.settings.is_valid()
            && (!purpose.relaxed_ordering || end.relaxed_ordering.is_ok())
            && (!purpose.on_demand || end.on_demand.is_ok());
        if is_possible {
            Ok(Self {
                purpose,
                connected: connect_queue_pairs(end, purpose, Role::Responder, other, control)?,
            })
        } else {
            Err(StepError::OutOfStep)
        }
    }
}

/// The queue pairs, if they were connected for this test case.
fn queue_pairs_for<'c>(
    connection: &'c mut Option<Connection>,
    kind: Kind,
    bytes: usize,
    traffic: &[Traffic],
) -> Result<&'c mut [ConnectedQueuePair], StepError> {
    match connection {
        Some(Connection { purpose, connected })
            if (purpose.kind, purpose.bytes) == (kind, bytes)
                && traffic.contains(&purpose.traffic) =>
        {
            Ok(connected)
        }
        _ => Err(StepError::OutOfStep),
    }
}

fn check_count(count: u32) -> Result<(), StepError> {
    if count <= MAX_MESSAGES { Ok(()) } else { Err(StepError::OutOfStep) }
}

/// Checks the number of messages of a flow.
fn check_flow(flow: Flow) -> Result<(), StepError> {
    check_count(flow.count)?;
    match flow.depth {
        0 => Err(StepError::OutOfStep),
        _ => Ok(()),
    }
}

fn first_queue_pair(
    connected: &mut [ConnectedQueuePair],
) -> Result<&mut ConnectedQueuePair, StepError> {
    connected.first_mut().ok_or(StepError::OutOfStep)
}

/// Limits a time that the client sent: it may be another program.
fn bounded(time: Duration) -> Duration {
    time.min(MAX_STEP_TIME)
}

/// Fills the memory with what the client reads, or with what its bytes replace.
fn prepare_memory(end: &End, flow: Flow) -> Result<(), StepError> {
    match flow.seeds {
        Some([sent, _]) if flow.kind == Kind::Read => end.fill(flow.bytes, Pattern::new(sent)),
        Some([_, before]) => end.fill(flow.bytes, Pattern::new(before)),
        None => Ok(()),
    }
}

/// Returns the error in the bytes that arrived.
fn compare(end: &End, flow: Flow) -> Result<Option<String>, StepError> {
    match flow.seeds {
        Some([sent, _]) if flow.kind != Kind::Read => {
            let wrong = end.check(flow.bytes, Pattern::new(sent))?;
            Ok(wrong.map(|wrong| wrong.to_string()))
        }
        _ => Ok(None),
    }
}

/// Releases the pages before each pair of writes, and compares what each brought. Bytes that a NIC writes to the old pages are lost.
fn first_touch(
    end: &End,
    (bytes, count): (usize, u32),
    seed: u64,
    time: Duration,
    control: &mut Control,
) -> Result<Option<String>, StepError> {
    control.send(Message::Ready)?;
    let mut found = None;
    for _ in 0..count {
        end.store.release(bytes)?;
        for _touch in 0..2 {
            control.send(Message::Ready)?;
            expect(control, &Message::Done, bounded(time))?;
            if found.is_none() {
                found = end.check(bytes, Pattern::new(seed))?;
            }
        }
    }
    expect(control, &Message::Done, bounded(time))?;
    Ok(found.map(|wrong| wrong.to_string()))
}

fn receive_stream(
    end: &End,
    connected: &mut [ConnectedQueuePair],
    flow: Flow,
    control: &mut Control,
) -> Result<Option<String>, StepError> {
    prepare_memory(end, flow)?;
    if flow.kind.is_received() {
        let receiving = Receiving::begin(connected, flow)?;
        control.send(Message::Ready)?;
        receiving.finish(end, connected, control)?;
    } else {
        control.send(Message::Ready)?;
    }
    expect(control, &Message::Done, bounded(flow.time))?;
    compare(end, flow)
}

fn verify(
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
    let mut received = None;
    if kind.is_received() {
        received = connected.received.wait(control)?.immediate;
    }
    expect(control, &Message::Done, allowance(bytes))?;
    end.arrive(0, bytes)?;
    if received != kind.has_immediate().then_some(IMMEDIATE) {
        return Ok(Some(format!("the immediate data is {received:x?}, expected {IMMEDIATE:#x}")));
    }
    match kind {
        Kind::Read => Ok(None),
        _ if kind.is_atomic() => check_word(end, sent),
        _ => Ok(end.check(bytes, Pattern::new(sent))?.map(|wrong| wrong.to_string())),
    }
}
