//! The client: it chooses the steps, does its part, and reports the results.

mod chunked;
mod first_touch;
mod notes;
mod progress;

use std::time::Duration;

use gdsync::wire::Operation;
use gpu::Pattern;
use verbs::Transport;

use self::notes::connection_notes;
use self::progress::Progress;
use super::agree::{allowance, check_word, exchange_offers, report_failure, simulated_note};
use super::connected::{ConnectedQueuePair, connect_queue_pairs};
use super::control::{Control, Flow, Message, Step, expect};
use super::counters::report_counters;
use super::curve::Curve;
use super::curve_plan::curve_cases;
use super::device::Device;
use super::end::End;
use super::kind::{Kind, name};
use super::memory_paths::CHUNK;
use super::on_demand;
use super::ping_pong::{First, ping_pong, prepare};
use super::plan::{depth_of, test_cases};
use super::purpose::Role;
use super::queue_pair::{BUFFERS, Post};
use super::staged;
use super::stream::{drive, operation};
use super::task::{MemoryPath, Part, Task};
use super::test_case::{Planned, TestCase};
use crate::model::figure::rdma::{self, BANDWIDTH, LATENCY, STRICT};
use crate::model::figure::validated;
use crate::model::{ProbeResult, ProbeVerdict};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::statistics::typical_seconds;
use crate::probe::verdict::{Promise, Subject};

/// Advice for wrong bytes.
const WRONG_HINT: &str = "the NIC reported success: see gdr doctor --only pcie.iommu,pcie.acs";
/// Advice for low bandwidth.
const SLOW_HINT: &str = "see gdr doctor --only pcie.acs,pcie.iommu,pcie.payload,pcie.link,pcie.locality,rdma.write-ordering, and gdr topo";
/// Fewest and most samples of a bandwidth.
const SAMPLES: (f64, f64) = (4.0, 400.0);
/// Fewest and most messages of a latency.
const PING_PONGS: (f64, f64) = (20.0, 10_000.0);
/// From this message size the link limits the bandwidth.
pub const LIMITED_BY_LINK: usize = 1 << 20;

/// Runs all test cases, and reports their results.
pub fn client(
    end: &mut End,
    control: &mut Control,
    task: &Task,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let about = Subject {
        subject: task.subject.clone(),
        backend: match end.device {
            Device::Sim(_) => "nic".to_owned(),
            Device::Verbs { .. } => {
                end.selection.memory_path.map_or("verbs", MemoryPath::name).to_owned()
            }
        },
        numa: match &task.part {
            Part::Both(place, _) | Part::Client(place) | Part::Server(place) => {
                place.node.as_ref().map(|(node, _)| *node)
            }
        },
    };
    let mut client = Client {
        end,
        control,
        task,
        about,
        reporter,
        seed: 0,
        progress: Progress::default(),
        best_chunk: None,
        planned: None,
    };
    let done = client.run();
    let (end, control) = (client.end, client.control);
    done.map_err(|failure| report_failure(Some(end), control, failure))
}

/// Seconds for each request, and the error in the bytes that arrived.
type FlowResult = (Vec<f64>, Option<String>);

struct Client<'l, 't> {
    end: &'l mut End,
    control: &'l mut Control,
    task: &'l Task,
    about: Subject,
    reporter: &'l mut Reporter<'t>,
    seed: u64,
    progress: Progress,
    /// The best chunk of pipelined messages, and the seconds of a message.
    best_chunk: Option<(usize, f64)>,
    /// Its test case.
    planned: Option<Planned>,
}

impl Client<'_, '_> {
    fn run(&mut self) -> Result<(), StepError> {
        let other = exchange_offers(self.end, self.control, self.task.room)?;
        let (ours, theirs) = (self.end.is_simulated(), other.simulated);
        if ours || theirs || matches!(self.end.device, Device::Sim(_)) {
            self.about.backend.push_str("-sim");
        }
        if ours != theirs {
            self.reporter.note(simulated_note(theirs))?;
        }
        for note in connection_notes(self.task, self.end, &other) {
            self.reporter.note(note)?;
        }
        let (mut test_cases, left_out) = match self.task.curve() {
            Some(curve) => (curve_cases(curve, self.task, self.end, &other), None),
            None => test_cases(self.task, self.end, &other),
        };
        if let Some(why) = left_out {
            self.reporter.note(why.to_owned())?;
        }
        if let (Some(curve), true) = (self.task.curve(), test_cases.is_empty()) {
            let why = match self.end.srd {
                Some(_) => {
                    "the curves need connections (RC), which EFA does not have: see gdr probe rdma"
                }
                None => "the NIC of one end does not reach GPU memory: see gdr doctor --live",
            };
            let name = curve.kind().bandwidth.name;
            let result = self.about.not_measured(name, self.task.room, why.to_owned());
            self.reporter.result(result)?;
        }
        let on_demand = on_demand::plan(self.task, self.end, &other, &test_cases);
        for (name, why) in on_demand.missing {
            let result = self.about.not_measured(&name, self.task.room, why);
            self.reporter.result(result)?;
        }
        // Unreliable transports stay last: they may lose messages.
        let is_unreliable =
            |planned: &Planned| matches!(planned.purpose.transport, Transport::Uc | Transport::Ud);
        let at = test_cases.iter().position(is_unreliable);
        let at = at.unwrap_or(test_cases.len());
        test_cases.splice(at..at, on_demand.planned);
        self.reporter.expect_more(test_cases.len() as u64);
        for planned in test_cases {
            // Each test case has queue pairs and a memory region of its own, which are destroyed with it.
            let Planned { test_case, purpose, .. } = planned;
            self.planned = Some(planned);
            self.control.send(Message::Step(Step::Connect(purpose)))?;
            let mut connected =
                connect_queue_pairs(self.end, purpose, Role::Requester, &other, self.control)?;
            let done = match test_case {
                TestCase::Verify(transport, kind, bytes) => {
                    self.verify(&mut connected, transport, kind, bytes)
                }
                TestCase::PingPong(kind, bytes) => self.ping_pong(&mut connected, kind, bytes),
                TestCase::Stream(kind, bytes) => self.stream(&mut connected, kind, bytes),
                TestCase::Both(bytes) => self.both(&mut connected, bytes),
                TestCase::Rate(bytes) => self.rate(&mut connected, bytes),
                TestCase::FirstTouch(bytes) => self.first_touch(&mut connected, bytes),
                TestCase::Staged(bytes) => self.staged(&mut connected, bytes),
                TestCase::Chunked(bytes, chunking) => self.chunked(&mut connected, bytes, chunking),
            };
            done.map_err(|failure| self.progress.explain(failure))?;
            drop(connected);
            self.disconnect()?;
        }
        self.control.send(Message::Step(Step::End))?;
        let Message::Counters(rises) = self.control.receive(Duration::ZERO)? else {
            return Err(StepError::OutOfStep);
        };
        // On this machine the child reads them itself, whatever happens.
        if matches!(self.task.part, Part::Client(_)) {
            report_counters(self.reporter, &self.task.subject, true, rises)?;
        }
        Ok(())
    }

    /// Waits until the remote end destroyed its objects of the test case: no rkey is valid any more.
    fn disconnect(&mut self) -> Result<(), StepError> {
        self.control.send(Message::Step(Step::Disconnect))?;
        expect(self.control, &Message::Done, Duration::ZERO)
    }

    fn begin(
        &mut self,
        name: &str,
        bytes: usize,
        step: Step,
        time: Duration,
    ) -> Result<(), StepError> {
        self.progress.begin(name, bytes);
        self.reporter.doing_for(self.progress.step.clone(), time)?;
        self.control.send(Message::Step(step))?;
        expect(self.control, &Message::Ready, time)
    }

    /// Ends the step. Returns the error that the server found.
    fn finish_step(&mut self, time: Duration) -> Result<Option<String>, StepError> {
        self.control.send(Message::Done)?;
        match self.control.receive(time)? {
            Message::Found(found) => Ok(found),
            _ => Err(StepError::OutOfStep),
        }
    }

    fn seeds(&mut self) -> [u64; 2] {
        self.seed += 2;
        [self.seed - 1, self.seed]
    }

    fn verify(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        transport: Transport,
        kind: Kind,
        bytes: usize,
    ) -> Result<(), StepError> {
        let [connected] = connected else {
            return Err(StepError::OutOfStep);
        };
        let label = match self.task.curve() {
            Some(curve) => curve.kind().validated.to_owned(),
            None => {
                let (transport, suffix) = (name(transport), self.suffix());
                validated(format_args!("{transport}.{}{suffix}", kind.name()))
            }
        };
        let seeds @ [sent, before] = self.seeds();
        let seed = if kind == Kind::Read { before } else { sent };
        self.end.fill(bytes, Pattern::new(seed))?;
        self.end.leave(0, bytes)?;
        self.begin(&label, bytes, Step::Verify { kind, bytes, seeds }, allowance(bytes))?;
        let remote = connected.remote(0);
        let operation = match kind {
            Kind::FetchAdd => Operation::FetchAdd { remote, add: sent.wrapping_sub(before) },
            Kind::CompareSwap => Operation::CompareSwap { remote, compare: before, swap: sent },
            kind => operation(kind, remote),
        };
        connected.send(&Post::new(operation, 0, bytes))?;
        connected.sent.wait(self.control)?;
        let remote_error = self.finish_step(allowance(bytes))?;
        self.end.arrive(0, bytes)?;
        let local_error = match kind {
            Kind::Read => self.compare(bytes, sent)?,
            _ if kind.is_atomic() => check_word(self.end, before)?,
            _ => None,
        };
        Ok(self.reporter.result(match local_error.or(remote_error) {
            None => self.about.right(&label, Some(bytes), bytes),
            Some(wrong) => self.about.wrong(&label, Some(bytes), format!("{wrong}. {WRONG_HINT}")),
        })?)
    }

    fn compare(&self, bytes: usize, seed: u64) -> Result<Option<String>, StepError> {
        let wrong = self.end.check(bytes, Pattern::new(seed))?;
        Ok(wrong.map(|wrong| wrong.to_string()))
    }

    /// The bandwidth that the connection should reach in one direction; none with on-demand paging, which is compared with the other
    /// registration.
    fn promise(&self, bytes: usize) -> Option<Promise> {
        let share = self.task.terms.shares.port;
        let is_compared = bytes >= LIMITED_BY_LINK && self.suffix().is_empty();
        let limit = self.task.limit.filter(|_| is_compared)?;
        Some(Promise {
            value: limit as f64 / 1e9,
            share: share.map(|share| share * self.task.share_of_bond(limit)),
        })
    }

    /// Runs a short flow to estimate the time of a request, and then one that fills the time of a point. If the short one does, it is
    /// all. Both are compared.
    fn measure(
        &mut self,
        flow: Flow,
        pairs: u32,
        run: &mut dyn FnMut(&mut Self, Flow) -> Result<FlowResult, StepError>,
    ) -> Result<FlowResult, StepError> {
        let point = self.task.terms.depth.rdma_point().as_secs_f64();
        let count = flow.depth * 2;
        let time = allowance(flow.bytes.saturating_mul((count * pairs) as usize));
        let first = run(self, Flow { count, time, ..flow })?;
        let single = typical_seconds(&first.0);
        if single * f64::from(count * pairs) > point && !first.0.is_empty() {
            return Ok(first);
        }
        let blocks = (point / (single * f64::from(flow.depth * pairs))).clamp(SAMPLES.0, SAMPLES.1);
        let most = match self.end.srd {
            // All buffers are posted before.
            Some(srd) if srd.fails_without_buffer(flow.kind) => BUFFERS,
            _ => u32::MAX,
        };
        let count = (flow.depth * (blocks as u32 + 1)).min(most);
        let time = Duration::from_secs_f64(single * f64::from(count * pairs) * 10.0)
            + allowance(flow.bytes);
        let second = run(self, Flow { count, time, ..flow })?;
        // An error of the first flow counts too.
        Ok((second.0, first.1.or(second.1)))
    }

    fn flow(&mut self, kind: Kind, bytes: usize, pairs: u32) -> Flow {
        Flow {
            kind,
            bytes,
            count: 0,
            depth: depth_of(bytes, pairs),
            chunk: CHUNK,
            seeds: Some(self.seeds()),
            time: Duration::ZERO,
        }
    }

    fn stream(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        kind: Kind,
        bytes: usize,
    ) -> Result<(), StepError> {
        let label = self.label(kind, BANDWIDTH);
        let pairs = connected.len() as u32;
        let flow = self.flow(kind, bytes, pairs);
        let (samples, wrong) = self.measure(flow, pairs, &mut |this, flow| {
            let time = flow.time;
            this.fill(flow)?;
            this.begin(&label, bytes, Step::Stream(flow), time)?;
            let samples = drive(this.end, connected, flow, false, this.control)?;
            let remote_error = this.finish_step(time)?;
            let local_error = match (kind, flow.seeds) {
                (Kind::Read, Some([sent, _])) => this.compare(bytes, sent)?,
                _ => None,
            };
            Ok((samples, local_error.or(remote_error)))
        })?;
        let verified = flow.seeds.map_or(0, |_| bytes);
        let result = self.about.bandwidth(&label, bytes, verified, &samples, self.promise(bytes));
        self.report(self.ordered(result), wrong)
    }

    /// Fills the memory with what is sent, or with what a read replaces.
    fn fill(&self, flow: Flow) -> Result<(), StepError> {
        match flow.seeds {
            Some([_, before]) if flow.kind == Kind::Read => {
                self.end.fill(flow.bytes, Pattern::new(before))
            }
            Some([sent, _]) => self.end.fill(flow.bytes, Pattern::new(sent)),
            None => Ok(()),
        }
    }

    fn report(&mut self, result: ProbeResult, wrong: Option<String>) -> Result<(), StepError> {
        Ok(self.reporter.result(match wrong {
            Some(wrong) => {
                let bytes = result.bytes.and_then(|bytes| usize::try_from(bytes).ok());
                let about = Subject { backend: result.backend, ..self.about.clone() };
                about.wrong(&result.name, bytes, format!("{wrong}. {WRONG_HINT}"))
            }
            None if result.verdict == ProbeVerdict::Slow => ProbeResult {
                reason: result.reason.map(|reason| format!("{reason}: {SLOW_HINT}")),
                ..result
            },
            None => result,
        })?)
    }

    /// A result with the order of its writes.
    fn ordered(&self, mut result: ProbeResult) -> ProbeResult {
        if let Some(planned) = self.planned {
            result.relaxed_ordering = Some(planned.purpose.relaxed_ordering);
            if planned.is_strict_twin {
                result.name.push_str(STRICT);
            }
        }
        result
    }

    /// Both ends write at once: the result is the sum of both directions.
    fn both(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        bytes: usize,
    ) -> Result<(), StepError> {
        let label = rdma::BOTH.name;
        let pairs = connected.len() as u32;
        let flow = Flow { seeds: None, ..self.flow(Kind::Write, bytes, pairs) };
        let mut theirs = 0.0;
        let (samples, _) = self.measure(flow, pairs, &mut |this, flow| {
            let time = flow.time;
            this.begin(label, bytes, Step::Both(flow), time)?;
            let samples = drive(this.end, connected, flow, true, this.control)?;
            this.control.send(Message::Done)?;
            theirs = match this.control.receive(time)? {
                Message::Took(seconds) if seconds > 0.0 => seconds,
                _ => return Err(StepError::OutOfStep),
            };
            match this.control.receive(time)? {
                Message::Found(found) => Ok((samples, found)),
                _ => Err(StepError::OutOfStep),
            }
        })?;
        let together = |seconds: &f64| 1.0 / (1.0 / seconds.max(1e-12) + 1.0 / theirs);
        let samples: Vec<f64> = samples.iter().map(together).collect();
        let result = self.about.bandwidth(label, bytes, 0, &samples, None);
        Ok(self.reporter.result(self.ordered(result))?)
    }

    /// The name of a result.
    fn label(&self, kind: Kind, what: &str) -> String {
        match self.task.curve() {
            Some(curve) => match what {
                LATENCY => curve.kind().latency.name.to_owned(),
                BANDWIDTH => curve.kind().bandwidth.name.to_owned(),
                // The search for the best chunk, which no table shows.
                what => curve.kind().of(what),
            },
            None => rdma::of_operation(kind.name(), what, self.suffix()),
        }
    }

    /// Ends the names of results of memory with on-demand paging.
    fn suffix(&self) -> &'static str {
        match self.planned {
            Some(planned) if planned.purpose.on_demand => rdma::PAGED,
            _ => "",
        }
    }

    /// Message rate of small writes.
    fn rate(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        bytes: usize,
    ) -> Result<(), StepError> {
        let label = rdma::WRITE_RATE;
        let pairs = connected.len() as u32;
        let flow = Flow { seeds: None, ..self.flow(Kind::Write, bytes, pairs) };
        let (samples, _) = self.measure(flow, pairs, &mut |this, flow| {
            let time = flow.time;
            this.begin(label, bytes, Step::Stream(flow), time)?;
            let samples = drive(this.end, connected, flow, false, this.control)?;
            Ok((samples, this.finish_step(time)?))
        })?;
        let result = self.about.rate(label, bytes, &samples);
        Ok(self.reporter.result(self.ordered(result))?)
    }

    /// Bandwidth without GPUDirect RDMA.
    fn staged(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        bytes: usize,
    ) -> Result<(), StepError> {
        let label = rdma::STAGED.name;
        let [connected] = connected else {
            return Err(StepError::OutOfStep);
        };
        let flow = Flow { depth: 4, ..self.flow(Kind::Send, bytes, 1) };
        let (samples, wrong) = self.measure(flow, 1, &mut |this, flow| {
            let time = flow.time;
            this.fill(flow)?;
            this.begin(label, bytes, Step::Staged(flow), time)?;
            let samples = staged::send(this.end, connected, flow, this.control)?;
            Ok((samples, this.finish_step(time)?))
        })?;
        let about = Subject {
            backend: if self.about.backend.ends_with("-sim") {
                "staged-sim".to_owned()
            } else {
                "staged".to_owned()
            },
            ..self.about.clone()
        };
        let result = about.bandwidth(label, bytes, bytes, &samples, None);
        self.report(self.ordered(result), wrong)
    }

    fn ping_pong(
        &mut self,
        connected: &mut [ConnectedQueuePair],
        kind: Kind,
        bytes: usize,
    ) -> Result<(), StepError> {
        let [connected] = connected else {
            return Err(StepError::OutOfStep);
        };
        let label = self.label(kind, LATENCY);
        let point = self.task.terms.depth.rdma_point();
        let mut run = |count: u32, time: Duration| -> Result<Vec<f64>, StepError> {
            prepare(self.end, connected, kind, bytes, count)?;
            let step = Step::PingPong { kind, bytes, count, time };
            self.begin(&label, bytes, step, time)?;
            let samples =
                ping_pong(self.end, connected, kind, (bytes, count), First::Local, self.control)?;
            self.finish_step(time)?;
            Ok(samples)
        };
        let single = typical_seconds(&run(20, allowance(bytes * 20))?);
        let count = (point.as_secs_f64() / single).clamp(PING_PONGS.0, PING_PONGS.1) as u32;
        let time = Duration::from_secs_f64(single * f64::from(count) * 10.0) + allowance(bytes);
        let samples = run(count, time)?;
        // Half the round-trip time.
        let share = if kind == Kind::Read || kind.is_atomic() { 1.0 } else { 0.5 };
        let warm = samples.len() / 10;
        let samples: Vec<f64> = samples.iter().skip(warm).map(|seconds| seconds * share).collect();
        self.reporter.result(self.about.latency(&label, Some(bytes), 0, &samples))?;
        if matches!(self.task.curve(), Some(Curve::Copy | Curve::Pageable)) {
            // Copies and messages follow each other: bandwidth is that of one message.
            let label = self.label(kind, BANDWIDTH);
            let result = self.about.bandwidth(&label, bytes, 0, &samples, None);
            self.reporter.result(result)?;
        }
        Ok(())
    }
}
