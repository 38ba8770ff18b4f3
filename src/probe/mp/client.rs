//! The client: chooses the steps and measures them.

use std::time::{Duration, Instant};

use gpu::Event;
use mp::{Request, Stream, Transfer};

use super::drive::queue;
use super::memory::Half;
use super::plan::Amount;
use super::server::{STEP_TIME, receive_all, send};
use super::session::Session;
use super::talk::{Drive, Kind, Message, Step};
use super::task::Side;
use crate::model::ProbeResult;
use crate::model::figure::mp as figures;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// The steps of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestCase {
    PingPong(Drive),
    /// Many messages at once.
    Messages(Drive),
    PutLatency,
    Puts,
    GetLatency,
    Gets,
}

const TEST_CASES: [TestCase; 9] = [
    TestCase::PingPong(Drive::Cpu),
    TestCase::PingPong(Drive::Stream),
    TestCase::PingPong(Drive::Kernel),
    TestCase::Messages(Drive::Cpu),
    TestCase::Messages(Drive::Stream),
    TestCase::PutLatency,
    TestCase::Puts,
    TestCase::GetLatency,
    TestCase::Gets,
];

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let terms = &session.task.terms;
    let sizes = terms.mp_sizes(session.gpu.is_sim());
    reporter.expect_more((sizes.len() * TEST_CASES.len()) as u64);
    let mut seed = 1;
    for bytes in sizes {
        let amount = terms.mp_amount(bytes, session.task.room);
        for case in TEST_CASES {
            let what = format!("{} of {bytes} bytes", case.name());
            reporter.doing_for(what, STEP_TIME * 2)?;
            let result = measure(session, case, bytes, amount, &mut seed)?;
            reporter.result(result)?;
        }
    }
    session.peer.send(Message::End)
}

impl TestCase {
    fn name(self) -> &'static str {
        let figure = match self {
            Self::PingPong(Drive::Cpu) => figures::CPU_LATENCY,
            Self::PingPong(Drive::Stream) => figures::STREAM_LATENCY,
            Self::PingPong(Drive::Kernel) => figures::KERNEL_LATENCY,
            Self::Messages(Drive::Cpu) => figures::CPU,
            Self::Messages(_) => figures::STREAM,
            Self::PutLatency => figures::PUT_LATENCY,
            Self::Puts => figures::PUT,
            Self::GetLatency => figures::GET_LATENCY,
            Self::Gets => figures::GET,
        };
        figure.name
    }

    fn kind(self) -> Kind {
        match self {
            Self::PingPong(drive) => Kind::PingPong(drive),
            Self::Messages(_) => Kind::Messages,
            Self::PutLatency | Self::Puts => Kind::Put,
            Self::GetLatency | Self::Gets => Kind::Get,
        }
    }
}

fn measure(
    session: &Session<'_>,
    case: TestCase,
    bytes: usize,
    amount: Amount,
    seed: &mut u64,
) -> Result<ProbeResult, StepError> {
    let (about, name) = (&session.about, case.name());
    let mut times = Vec::new();
    // The first batch warms up.
    for batch in 0..=amount.batches {
        let step = Step { kind: case.kind(), bytes, count: amount.batch, seed: *seed };
        *seed += u64::from(step.count);
        let more = perform(session, case, &step)?;
        let found = match session.peer.receive(STEP_TIME)? {
            Message::Found(found) => found.map(|what| format!("at the other process, {what}")),
            _ => return Err(StepError::OutOfStep),
        };
        if let Some(wrong) = more.wrong.or(found) {
            return Ok(about.wrong(name, Some(bytes), wrong));
        }
        if batch > 0 {
            times.extend(more.times);
        }
    }
    let messages = (amount.batch * (amount.batches + 1)) as usize;
    let directions = match case {
        TestCase::PingPong(_) => 2,
        _ => 1,
    };
    let verified = messages * bytes * directions;
    Ok(match case {
        TestCase::PingPong(_) | TestCase::PutLatency | TestCase::GetLatency => {
            about.latency(name, Some(bytes), verified, &times)
        }
        TestCase::Messages(_) | TestCase::Puts | TestCase::Gets => {
            about.bandwidth(name, bytes, verified, &times, None)
        }
    })
}

/// Seconds per message, and what is wrong in the memory of this process.
struct Performed {
    times: Vec<f64>,
    wrong: Option<String>,
}

fn perform(session: &Session<'_>, case: TestCase, step: &Step) -> Result<Performed, StepError> {
    let (memory, reader) = (&session.memory, &session.reader);
    let is_answered = matches!(step.kind, Kind::PingPong(_) | Kind::Get);
    if step.kind != Kind::Get {
        memory.fill(reader, Side::Client, step)?;
    }
    if is_answered {
        memory.clear(reader, step)?;
    }
    // Before the message that they are for.
    let receives = match step.kind {
        Kind::PingPong(_) => receive_all(session, step)?,
        _ => Vec::new(),
    };
    session.peer.send(Message::Step(*step))?;
    session.peer.expect(&Message::Ready, STEP_TIME)?;
    let times = match case {
        TestCase::PingPong(Drive::Cpu) => ping_pong(session, step, receives)?,
        TestCase::PingPong(drive) => queued_ping_pong(session, drive, step, receives)?,
        TestCase::Messages(Drive::Cpu) => messages(session, step)?,
        TestCase::Messages(_) => queued_messages(session, step)?,
        TestCase::PutLatency | TestCase::GetLatency => one_by_one(session, step)?,
        TestCase::Puts | TestCase::Gets => all_at_once(session, step)?,
    };
    if matches!(step.kind, Kind::Put | Kind::Get) {
        session.peer.send(Message::Done)?;
    }
    let wrong = if is_answered { memory.check(reader, Side::Server, step)? } else { None };
    Ok(Performed { times, wrong })
}

/// Half of the time of each message and its answer.
fn ping_pong(
    session: &Session<'_>,
    step: &Step,
    receives: Vec<Request>,
) -> Result<Vec<f64>, StepError> {
    let (mut times, mut sends) = (Vec::new(), Vec::new());
    for (received, index) in receives.into_iter().zip(0..) {
        let transfer = send(session, step, index);
        let begun = Instant::now();
        sends.push(session.ranks.start(&transfer)?);
        session.ranks.wait(received)?;
        times.push(begun.elapsed().as_secs_f64() / 2.0);
    }
    session.wait_all(sends)?;
    Ok(times)
}

/// The same by a stream or a kernel, which has all of it before it begins: the mean of the batch.
fn queued_ping_pong(
    session: &Session<'_>,
    drive: Drive,
    step: &Step,
    receives: Vec<Request>,
) -> Result<Vec<f64>, StepError> {
    let ranks = &session.ranks;
    let add = |stream: &dyn Stream| {
        let exchange = |(received, index)| {
            let sent = ranks.start_on(stream, &send(session, step, index))?;
            ranks.wait_on(stream, [received])?;
            Ok(sent)
        };
        receives.iter().zip(0..).map(exchange).collect()
    };
    let (time, sends) = timed(session, drive, add)?;
    session.wait_all(receives)?;
    session.wait_all(sends)?;
    Ok(vec![time / f64::from(step.count) / 2.0])
}

fn messages(session: &Session<'_>, step: &Step) -> Result<Vec<f64>, StepError> {
    let transfers: Vec<_> = (0..step.count).map(|index| send(session, step, index)).collect();
    let begun = Instant::now();
    let sends = transfers.iter().map(|transfer| session.ranks.start(transfer));
    session.wait_all(sends.collect::<Result<_, _>>()?)?;
    Ok(vec![begun.elapsed().as_secs_f64() / f64::from(step.count)])
}

fn queued_messages(session: &Session<'_>, step: &Step) -> Result<Vec<f64>, StepError> {
    let ranks = &session.ranks;
    let add = |stream: &dyn Stream| {
        let start = |index| ranks.start_on(stream, &send(session, step, index));
        let sends: Vec<Request> = (0..step.count).map(start).collect::<Result<_, _>>()?;
        ranks.wait_on(stream, &sends)?;
        Ok(sends)
    };
    let (time, sends) = timed(session, Drive::Stream, add)?;
    session.wait_all(sends)?;
    Ok(vec![time / f64::from(step.count)])
}

/// Seconds that the GPU takes for work that is queued before it begins.
fn timed(
    session: &Session<'_>,
    drive: Drive,
    add: impl FnOnce(&dyn Stream) -> Result<Vec<Request>, StepError>,
) -> Result<(f64, Vec<Request>), StepError> {
    let (begin, end): (Event, Event) = (session.gpu.event()?, session.gpu.event()?);
    session.gate.store_u32(0, 0)?;
    session.stream.hold(&session.gate, session.ranks.timeout())?;
    session.stream.record(&begin)?;
    let queued = queue(session, drive, add).and_then(|(queued, sends)| {
        queued.launch(session)?;
        session.stream.record(&end)?;
        Ok((queued, sends))
    });
    // Opened after errors too.
    session.gate.store_u32(0, 1)?;
    let (queued, sends) = queued?;
    session.finish()?;
    queued.check()?;
    Ok((end.elapsed_since(&begin)?.as_secs_f64(), sends))
}

/// A put or get of a step.
fn one_sided<'s>(session: &'s Session<'_>, step: &Step, index: u32) -> Transfer<'s> {
    let (other, window, memory) = (session.other(), &session.window, &session.memory);
    let range = |half| memory.range(half, step, index);
    let (outgoing, incoming) = (range(Half::Outgoing), range(Half::Incoming));
    // What goes out of one process comes in at the other.
    match step.kind {
        Kind::Get => {
            let at = outgoing.start as u64;
            Transfer::get(other, window, at, &memory.region, incoming)
        }
        _ => {
            let at = incoming.start as u64;
            Transfer::put(other, window, at, &memory.region, outgoing)
        }
    }
}

fn one_by_one(session: &Session<'_>, step: &Step) -> Result<Vec<f64>, StepError> {
    let one = |index| {
        let transfer = one_sided(session, step, index);
        let begun = Instant::now();
        session.ranks.wait(session.ranks.start(&transfer)?)?;
        Ok(begun.elapsed().as_secs_f64())
    };
    (0..step.count).map(one).collect()
}

fn all_at_once(session: &Session<'_>, step: &Step) -> Result<Vec<f64>, StepError> {
    let all = |index| one_sided(session, step, index);
    let transfers: Vec<_> = (0..step.count).map(all).collect();
    let begun = Instant::now();
    let requests = transfers.iter().map(|transfer| session.ranks.start(transfer));
    session.wait_all(requests.collect::<Result<_, _>>()?)?;
    let time: Duration = begun.elapsed();
    Ok(vec![time.as_secs_f64() / f64::from(step.count)])
}
