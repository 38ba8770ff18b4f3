//! The steps of the work: what the end that leads does, and what the one that follows does of each.

use std::time::Duration;

use gpu::Pattern;
use verbs::{Request, Transport, Work};

use super::Task;
use super::control::{Control, Kind, Message, Offer, Step};
use super::end::{End, Joined};
use super::plan::depth_of;
use super::stream::{Receiving, SAID, drive, work};
use super::turns::{First, play, prepare};
use crate::probe::events::Teller;
use crate::probe::trouble::Trouble;
use crate::probe::verdict::Subject;

/// What a person does next.
const LOOK_AT: &str = "the card reported success: see gdr doctor --only pcie.iommu,pcie.acs";
/// Fewer samples than these have no middle; more teach nothing.
const SAMPLES: (f64, f64) = (4.0, 400.0);
/// The same of turns.
const TURNS: (f64, f64) = (20.0, 10_000.0);

/// What is verified over each transport. An unreliable write alone tells nobody that it has arrived.
const VERIFIED: [(Transport, &[Kind]); 2] = [
    (Transport::Uc, &[Kind::WriteImmediate, Kind::Send, Kind::SendImmediate]),
    (
        Transport::Rc,
        &[
            Kind::Write,
            Kind::WriteImmediate,
            Kind::Read,
            Kind::Send,
            Kind::SendImmediate,
            Kind::FetchAdd,
            Kind::CompareSwap,
        ],
    ),
];
/// What is measured over a reliable connection.
const MEASURED: [Kind; 3] = [Kind::Write, Kind::Read, Kind::Send];

/// In the names of results.
pub fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Rc => "rc",
        Transport::Uc => "uc",
        Transport::Ud => "ud",
    }
}

/// What the other end says next, which may take so long.
pub fn heard(control: &mut dyn Control, patience: Duration) -> Result<Message, Trouble> {
    match control.hear(patience)? {
        Message::Failed(why) => Err(Trouble::Far(why)),
        message => Ok(message),
    }
}

/// Says what comes next, and tells what came of it.
pub fn lead(
    end: &mut End,
    control: &mut dyn Control,
    task: &Task,
    about: &Subject,
    teller: &mut Teller<'_>,
) -> Result<(), Trouble> {
    let mut leader = Leader {
        end,
        control,
        task,
        about,
        teller,
        seed: 0,
    };
    leader
        .all()
        .map_err(|trouble| told(leader.end, leader.control, trouble))
}

/// Does what the other end says, until that says that it was all.
pub fn follow(end: &mut End, control: &mut dyn Control) -> Result<(), Trouble> {
    obey(end, control).map_err(|trouble| told(end, control, trouble))
}

/// Why an end cannot go on, which the other one hears: it need not wait for what does not come.
fn told(end: &End, control: &mut dyn Control, trouble: Trouble) -> Trouble {
    let trouble = end.cause(trouble);
    if trouble.is_of_the_far_end() {
        return trouble;
    }
    let _ = control.tell(Message::Failed(gpu::sentence(&trouble)));
    trouble
}

struct Leader<'l, 't> {
    end: &'l mut End,
    control: &'l mut dyn Control,
    task: &'l Task,
    about: &'l Subject,
    teller: &'l mut Teller<'t>,
    seed: u64,
}

impl Leader<'_, '_> {
    fn all(&mut self) -> Result<(), Trouble> {
        let other = offers(self.end, self.control)?;
        let terms = &self.task.terms;
        let sizes = terms.rdma_sizes();
        let most = sizes.iter().copied().max().unwrap_or(1);
        let verified: Vec<usize> = terms
            .depth
            .rdma_verified()
            .iter()
            .copied()
            .filter(|size| *size <= most)
            .collect();
        let steps = VERIFIED
            .iter()
            .flat_map(|(_, kinds)| *kinds)
            .map(|kind| if kind.is_atomic() { 1 } else { verified.len() })
            .sum::<usize>()
            + MEASURED.len() * sizes.len() * 2;
        self.teller.expect_more(steps as u64);
        for (transport, kinds) in VERIFIED {
            self.control.tell(Message::Step(Step::Connect(transport)))?;
            let mut joined = self.end.join(transport, &other, self.control)?;
            for kind in kinds.iter().copied() {
                let sizes = if kind.is_atomic() { &[8] } else { verified.as_slice() };
                for bytes in sizes.iter().copied() {
                    self.verify(&mut joined, transport, kind, bytes)?;
                }
            }
            if transport == Transport::Rc {
                for kind in MEASURED {
                    for bytes in sizes.iter().copied() {
                        self.turns(&mut joined, kind, bytes)?;
                        self.stream(&mut joined, kind, bytes)?;
                    }
                }
            }
        }
        Ok(self.control.tell(Message::Step(Step::End))?)
    }

    fn begin(&mut self, name: &str, bytes: usize, step: Step, time: Duration) -> Result<(), Trouble> {
        self.teller.doing_for(format!("{name} of {bytes} bytes"), time)?;
        self.control.tell(Message::Step(step))?;
        match heard(self.control, time)? {
            Message::Ready => Ok(()),
            _ => Err(Trouble::OutOfStep),
        }
    }

    /// This end's part is done: what the other one found.
    fn found(&mut self, time: Duration) -> Result<Option<String>, Trouble> {
        self.control.tell(Message::Done)?;
        match heard(self.control, time)? {
            Message::Found(found) => Ok(found),
            _ => Err(Trouble::OutOfStep),
        }
    }

    fn verify(&mut self, joined: &mut Joined, transport: Transport, kind: Kind, bytes: usize) -> Result<(), Trouble> {
        let label = format!("validate.{}.{}", name(transport), kind.name());
        let seeds @ [sent, before] = [self.seed + 1, self.seed + 2];
        self.seed += 2;
        match kind {
            Kind::Read => self.end.fill(bytes, Pattern::new(before))?,
            _ => self.end.fill(bytes, Pattern::new(sent))?,
        }
        self.begin(&label, bytes, Step::Verify { kind, bytes, seeds }, allowance(bytes))?;
        let pieces = [self.end.region.piece(0, bytes)?];
        let work = match kind {
            Kind::FetchAdd => Work::FetchAdd(joined.remote, sent.wrapping_sub(before)),
            Kind::CompareSwap => Work::CompareSwap {
                remote: joined.remote,
                compare: before,
                swap: sent,
            },
            kind => work(kind, joined),
        };
        joined.pair.send(&Request::new(1, work, &pieces))?;
        joined.sent.wait(self.control)?;
        let there = self.found(allowance(bytes))?;
        let here = match kind {
            Kind::Read => self
                .end
                .check(bytes, Pattern::new(sent))?
                .map(|wrong| wrong.to_string()),
            _ if kind.is_atomic() => word(self.end, before)?,
            _ => None,
        };
        Ok(self.teller.result(match here.or(there) {
            None => self.about.right(&label, Some(bytes), bytes),
            Some(wrong) => self.about.wrong(&label, Some(bytes), format!("{wrong}. {LOOK_AT}")),
        })?)
    }

    fn stream(&mut self, joined: &mut Joined, kind: Kind, bytes: usize) -> Result<(), Trouble> {
        let label = format!("rdma.{}.bandwidth", kind.name());
        let (depth, point) = (depth_of(bytes), self.task.terms.depth.rdma_point());
        let mut run = |count: u32, time: Duration| -> Result<Vec<f64>, Trouble> {
            let step = Step::Stream {
                kind,
                bytes,
                count,
                depth,
            };
            self.begin(&label, bytes, step, time)?;
            let samples = drive(self.end, joined, kind, bytes, (count, depth), self.control)?;
            self.found(time)?;
            Ok(samples)
        };
        // The first shows how long one takes.
        let one = median(&run(depth * 2, allowance(bytes * depth as usize * 2))?);
        let blocks = (point.as_secs_f64() / (one * f64::from(depth))).clamp(SAMPLES.0, SAMPLES.1);
        let count = depth * (blocks as u32 + 1);
        let samples = run(count, Duration::from_secs_f64(one * f64::from(count) * 10.0))?;
        Ok(self
            .teller
            .result(self.about.bandwidth(&label, bytes, 0, &samples, None))?)
    }

    fn turns(&mut self, joined: &mut Joined, kind: Kind, bytes: usize) -> Result<(), Trouble> {
        let label = format!("rdma.{}.latency", kind.name());
        let point = self.task.terms.depth.rdma_point();
        let mut run = |count: u32, time: Duration| -> Result<Vec<f64>, Trouble> {
            prepare(self.end, joined, kind, bytes, count)?;
            self.begin(&label, bytes, Step::Turns { kind, bytes, count }, time)?;
            let samples = play(self.end, joined, kind, (bytes, count), First::We, self.control)?;
            self.found(time)?;
            Ok(samples)
        };
        let one = median(&run(20, allowance(bytes * 20))?);
        let count = (point.as_secs_f64() / one).clamp(TURNS.0, TURNS.1) as u32;
        let samples = run(count, Duration::from_secs_f64(one * f64::from(count) * 10.0))?;
        // A message there and one back is two of them.
        let share = if kind == Kind::Read { 1.0 } else { 0.5 };
        let warm = samples.len() / 10;
        let samples: Vec<f64> = samples.iter().skip(warm).map(|seconds| seconds * share).collect();
        Ok(self
            .teller
            .result(self.about.latency(&label, Some(bytes), 0, &samples))?)
    }
}

/// Both ends say what they are.
fn offers(end: &End, control: &mut dyn Control) -> Result<Offer, Trouble> {
    let ours = end.offer();
    control.tell(Message::Offer(ours))?;
    let Message::Offer(theirs) = heard(control, Duration::ZERO)? else {
        return Err(Trouble::OutOfStep);
    };
    match (ours.ethernet == theirs.ethernet, ours.bytes == theirs.bytes) {
        (true, true) => Ok(theirs),
        (true, false) => Err(Trouble::OutOfStep),
        (false, _) => Err(Trouble::Links),
    }
}

fn obey(end: &mut End, control: &mut dyn Control) -> Result<(), Trouble> {
    let other = offers(end, control)?;
    let mut joined = None;
    loop {
        // However long the other end takes between two steps: it is heard where it ends.
        let Message::Step(step) = heard(control, Duration::from_secs(60))? else {
            return Err(Trouble::OutOfStep);
        };
        let found = match (step, joined.as_mut()) {
            (Step::End, _) => return Ok(()),
            (Step::Connect(transport), _) => {
                joined = Some(end.join(transport, &other, control)?);
                continue;
            }
            (_, None) => return Err(Trouble::OutOfStep),
            (Step::Verify { kind, bytes, seeds }, Some(joined)) => verified(end, joined, control, kind, bytes, seeds)?,
            (Step::Stream { kind, bytes, count, .. }, Some(joined)) => {
                if kind.is_received() {
                    let receiving = Receiving::begin(end, joined, bytes, count)?;
                    control.tell(Message::Ready)?;
                    receiving.finish(end, joined, bytes, control)?;
                } else {
                    control.tell(Message::Ready)?;
                }
                done(control, allowance(bytes.saturating_mul(count as usize)))?;
                None
            }
            (Step::Turns { kind, bytes, count }, Some(joined)) => {
                prepare(end, joined, kind, bytes, count)?;
                control.tell(Message::Ready)?;
                if kind == Kind::Write || kind.is_received() {
                    play(end, joined, kind, (bytes, count), First::They, control)?;
                }
                done(control, allowance(bytes.saturating_mul(count as usize)))?;
                None
            }
        };
        control.tell(Message::Found(found))?;
    }
}

/// Waits until the other end has done its part.
fn done(control: &mut dyn Control, time: Duration) -> Result<(), Trouble> {
    match heard(control, time)? {
        Message::Done => Ok(()),
        _ => Err(Trouble::OutOfStep),
    }
}

fn verified(
    end: &End,
    joined: &mut Joined,
    control: &mut dyn Control,
    kind: Kind,
    bytes: usize,
    [sent, before]: [u64; 2],
) -> Result<Option<String>, Trouble> {
    match kind {
        Kind::Read => end.fill(bytes, Pattern::new(sent))?,
        _ if kind.is_atomic() => end.buffer.write(0, &before.to_ne_bytes())?,
        _ => end.fill(bytes, Pattern::new(before))?,
    }
    if kind.is_received() {
        joined.pair.receive(1, &[end.region.piece(0, bytes)?])?;
    }
    control.tell(Message::Ready)?;
    let mut said = None;
    if kind.is_received() {
        let arrived = joined.received.wait(control)?.iter().flatten().next();
        said = arrived.and_then(|completion| completion.outcome.ok()?.immediate);
    }
    done(control, allowance(bytes))?;
    if said != kind.has_immediate().then_some(SAID) {
        return Ok(Some(format!("the immediate data is {said:x?}, and {SAID:#x} was sent")));
    }
    match kind {
        Kind::Read => Ok(None),
        _ if kind.is_atomic() => word(end, sent),
        _ => Ok(end.check(bytes, Pattern::new(sent))?.map(|wrong| wrong.to_string())),
    }
}

/// Whether the first word of an end's memory is this one.
fn word(end: &End, expected: u64) -> Result<Option<String>, Trouble> {
    let mut seen = [0; 8];
    end.buffer.read(0, &mut seen)?;
    let found = u64::from_ne_bytes(seen);
    Ok((found != expected).then(|| format!("{expected:#x} was expected and {found:#x} found")))
}

/// How long so many bytes may take where nothing hangs: ten megabytes a second, and a second.
fn allowance(bytes: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_nanos((bytes as u64).saturating_mul(100))
}

fn median(samples: &[f64]) -> f64 {
    let figures = crate::probe::statistics::Figures::of(samples);
    figures.map_or(1e-3, |figures| figures.median).max(1e-9)
}
