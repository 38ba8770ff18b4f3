//! Several connections of one machine at once: each alone, then all together. What they lose together is what they share.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpu::Pattern;
use serde::{Deserialize, Serialize};

use super::agree::{allowance, exchange_offers, report_failure};
use super::connected::{ConnectedQueuePair, connect_queue_pairs};
use super::control::{Control, Flow, Message, Step, expect};
use super::device::Device;
use super::end::End;
use super::kind::Kind;
use super::memory_paths::CHUNK;
use super::plan::{depth_of, planned};
use super::purpose::Role;
use super::server;
use super::stream::drive;
use super::task::{LocalEnd, Part, Task};
use super::test_case::TestCase;
use crate::model::figure::rdma;
use crate::model::{ProbeResult, ProbeVerdict};
use crate::probe::cpus::{bind, on_node};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::task;
use crate::probe::verdict::Subject;

/// Results of a connection alone, of each while all run, and of their sum.
const ALONE: &str = rdma::ALONE.name;
const EACH: &str = rdma::TOGETHER.name;
const SUM: &str = rdma::SUM.name;
/// Subject of the sum.
const ALL: &str = "all together";
/// A connection that keeps less than this share of its bandwidth shares something.
const KEEPS: f64 = 0.9;
/// Blocks of requests between two looks at the clock.
const BLOCKS: u32 = 8;
/// Seconds for memory, registration and connections of a pair.
const SETUP: Duration = Duration::from_secs(20);

/// The connections to run together: tasks with both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TogetherTask {
    pub tasks: Vec<Task>,
}

impl task::Task for TogetherTask {
    const NAME: &'static str = "rdma_together";

    fn timeout(&self) -> Duration {
        let timeouts = self.tasks.iter().map(|task| task.terms.timeout);
        timeouts.max().unwrap_or_default()
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let count = self.tasks.len();
        let round = self.tasks.first().map_or(Duration::ZERO, round);
        let what = format!("writes of {count} connections, alone and together");
        let time = (SETUP + round) * (count as u32 + 1);
        reporter.doing_for(what, time)?;
        let meeting = Meeting::new(count, time + task::Task::timeout(self));
        let done: Vec<Result<Measured, StepError>> = std::thread::scope(|scope| {
            let spawn = |(index, task)| {
                let meeting = &meeting;
                scope.spawn(move || {
                    let done = measure(task, index, meeting);
                    if done.is_err() {
                        meeting.fail();
                    }
                    done
                })
            };
            let threads: Vec<_> = self.tasks.iter().enumerate().map(spawn).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        let is_echo = |done: &Result<Measured, StepError>| matches!(done, Err(StepError::Option(why)) if why == OTHER_FAILED);
        let (causes, rest): (Vec<_>, Vec<_>) =
            done.into_iter().partition(|done| done.is_err() && !is_echo(done));
        let measured = causes.into_iter().chain(rest).collect::<Result<Vec<_>, _>>()?;
        for result in results(&self.tasks, &measured) {
            reporter.result(result)?;
        }
        Ok(())
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        let about = Subject::new(ALL, "verbs");
        Some(about.impossible(SUM, None, true, error.advised()))
    }
}

/// Error of a connection that waited for one that failed.
const OTHER_FAILED: &str = "another connection failed";

/// Time of one round.
fn round(task: &Task) -> Duration {
    task.terms.depth.rdma_point()
}

/// Where the threads of all connections wait for each other.
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
    count: usize,
    time: Duration,
}

#[derive(Default)]
struct State {
    arrived: usize,
    round: u64,
    failed: bool,
}

impl Meeting {
    fn new(count: usize, time: Duration) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), count, time }
    }

    /// Waits until all threads are here.
    fn wait(&self) -> Result<(), StepError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        let round = state.round;
        if state.arrived == self.count {
            (state.arrived, state.round) = (0, round + 1);
            self.changed.notify_all();
        }
        let waited = self
            .changed
            .wait_timeout_while(state, self.time, |state| state.round == round && !state.failed);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.round == round || waited.timed_out() {
            Err(StepError::Option(OTHER_FAILED.to_owned()))
        } else {
            Ok(())
        }
    }

    fn fail(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed = true;
        self.changed.notify_all();
    }
}

/// Seconds for a request, and the name of the memory path.
struct Measured {
    /// Of a message.
    bytes: usize,
    alone: Vec<f64>,
    together: Vec<f64>,
    wrong: Option<String>,
    backend: String,
}

/// Runs one connection: `index` is its turn to be alone.
fn measure(task: &Task, index: usize, meeting: &Meeting) -> Result<Measured, StepError> {
    let Part::Both(local, remote) = &task.part else {
        return Err(StepError::OutOfStep);
    };
    let open = |place: &LocalEnd, device: Option<Device>| {
        on_node(place.node.as_ref(), || {
            let device = match device {
                // The two ends share it.
                Some(device @ Device::Sim(_)) => device,
                _ => Device::open(&place.port)?,
            };
            let end = End::open(place, device.clone(), task.room, task.terms.timeout)?;
            Ok::<_, StepError>((device, end))
        })?
    };
    let (device, mut local_end) = open(local, None)?;
    let (_, mut remote_end) = open(remote, Some(device))?;
    let (mut control, mut server_control) = Control::pair(task.terms.timeout);
    let keep = |place: &LocalEnd| match &place.node {
        Some((node, cpus)) => bind(*node, cpus),
        None => Ok(()),
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            keep(remote)?;
            server::server(&mut remote_end, task.room, &mut server_control, None)
        });
        let done = keep(local)
            .map_err(StepError::from)
            .and_then(|()| client(&mut local_end, task, (index, meeting), &mut control))
            .map_err(|failure| report_failure(Some(&local_end), &mut control, failure));
        if done.is_err() {
            meeting.fail();
        }
        // Ends the server's wait if the client failed.
        drop(control);
        match (done, server.join()) {
            (_, Err(panic)) => std::panic::resume_unwind(panic),
            (Err(failure), Ok(Err(cause))) if failure.is_from_peer() => Err(cause),
            (done, _) => done,
        }
    })
}

fn client(
    end: &mut End,
    task: &Task,
    (index, meeting): (usize, &Meeting),
    control: &mut Control,
) -> Result<Measured, StepError> {
    let other = exchange_offers(end, control, task.room)?;
    if end.is_staged() || other.staged {
        let why = "a NIC does not reach GPU memory, so nothing is measured together: see gdr doctor --live";
        return Err(StepError::Option(why.to_owned()));
    }
    let bytes = task.terms.rdma_sizes().last().copied().unwrap_or(1);
    let planned = planned(task, vec![TestCase::Stream(Kind::Write, bytes)], end, &other);
    let purpose = match planned.first() {
        Some(planned) if planned.purpose.kind == Kind::Write => planned.purpose,
        _ => {
            let why = "an EFA device has no RDMA writes, so nothing is measured together";
            return Err(StepError::Option(why.to_owned()));
        }
    };
    let bytes = purpose.bytes;
    control.send(Message::Step(Step::Connect(purpose)))?;
    let mut connected = connect_queue_pairs(end, purpose, Role::Requester, &other, control)?;
    let depth = depth_of(bytes, purpose.pairs);
    let seeds @ [sent, _] = [2 * index as u64 + 1, 2 * index as u64 + 2];
    let flow = Flow {
        kind: Kind::Write,
        bytes,
        count: depth * BLOCKS,
        depth,
        chunk: CHUNK,
        seeds: Some(seeds),
        time: meeting.time,
    };
    end.fill(bytes, Pattern::new(sent))?;
    control.send(Message::Step(Step::Stream(flow)))?;
    expect(control, &Message::Ready, allowance(bytes))?;
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for turn in 0..=meeting.count {
        meeting.wait()?;
        match turn {
            turn if turn == index => alone = busy(end, &mut connected, flow, task, control)?,
            turn if turn == meeting.count => {
                together = busy(end, &mut connected, flow, task, control)?;
            }
            _ => {}
        }
    }
    control.send(Message::Done)?;
    let Message::Found(wrong) = control.receive(allowance(bytes))? else {
        return Err(StepError::OutOfStep);
    };
    drop(connected);
    control.send(Message::Step(Step::Disconnect))?;
    expect(control, &Message::Done, Duration::ZERO)?;
    control.send(Message::Step(Step::End))?;
    let Message::Counters(_) = control.receive(Duration::ZERO)? else {
        return Err(StepError::OutOfStep);
    };
    let path = end.selection.memory_path;
    let simulated =
        if end.is_simulated() || matches!(end.device, Device::Sim(_)) { "-sim" } else { "" };
    Ok(Measured {
        bytes,
        alone,
        together,
        wrong,
        backend: format!("{}{simulated}", path.map_or("verbs", |path| path.name())),
    })
}

/// Writes until the round is over. Seconds for a request.
fn busy(
    end: &End,
    connected: &mut [ConnectedQueuePair],
    flow: Flow,
    task: &Task,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let until = Instant::now() + round(task);
    let mut samples = Vec::new();
    while samples.is_empty() || Instant::now() < until {
        samples.extend(drive(end, connected, flow, false, control)?);
    }
    Ok(samples)
}

fn results(tasks: &[Task], measured: &[Measured]) -> Vec<ProbeResult> {
    let mut results = Vec::new();
    let (mut sum, mut bytes) = (0.0, 1);
    for (task, measured) in tasks.iter().zip(measured) {
        bytes = measured.bytes;
        let about = Subject::new(&task.subject, &measured.backend);
        results.push(about.bandwidth(ALONE, bytes, 0, &measured.alone, None));
        let each = about.bandwidth(EACH, bytes, bytes, &measured.together, None);
        // GB/s, as the report has it.
        sum += each.median.unwrap_or(0.0);
        results.push(about.checked(each, measured.wrong.clone()));
    }
    let backend = measured.first().map_or("verbs", |first| first.backend.as_str());
    let about = Subject::new(ALL, backend);
    if sum > 0.0 {
        let seconds = bytes as f64 / (sum * 1e9);
        results.push(about.bandwidth(SUM, bytes, 0, &[seconds], None));
    }
    results
}

/// What the connections reach together, in sentences; none if they were not measured.
pub fn shared(results: &[ProbeResult]) -> Option<String> {
    let median = |name: &str, subject: &str| {
        let mut results =
            results.iter().filter(|result| result.verdict != ProbeVerdict::Impossible);
        results.find(|result| result.name == name && result.subject == subject)?.median
    };
    let together = median(SUM, ALL)?;
    let alone: Vec<(&str, f64)> = results
        .iter()
        .filter(|result| result.name == ALONE)
        .filter_map(|result| Some((result.subject.as_str(), result.median?)))
        .collect();
    let sum: f64 = alone.iter().map(|(_, median)| median).sum();
    let text = format!(
        "Together the {} connections reach {together:.2} GB/s, {:.0} % of the sum of each alone ({sum:.2} GB/s).",
        alone.len(),
        100.0 * together / sum.max(1e-9)
    );
    let slower: Vec<String> = alone
        .iter()
        .filter_map(|(subject, alone)| {
            let share = median(EACH, subject)? / alone.max(1e-9);
            (share < KEEPS).then(|| format!("{subject} {:.0} %", 100.0 * share))
        })
        .collect();
    Some(if slower.is_empty() {
        format!("{text} They share no bottleneck.")
    } else {
        format!(
            "{text} These share a link, a memory or CPUs, and keep of their own: {}. gdr doctor --only pcie.shared names shared links.",
            slower.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results_of(rows: &[(&str, &str, f64)]) -> Vec<ProbeResult> {
        let result = |(name, subject, value): &(&str, &str, f64)| {
            // Bytes are 1e9, so a second for each is 1 GB/s.
            Subject::new(subject, "verbs").bandwidth(name, 1_000_000_000, 0, &[1.0 / value], None)
        };
        rows.iter().map(result).collect()
    }

    #[test]
    fn shared_links_are_named() {
        let rows = |each: f64, sum: f64| {
            results_of(&[
                (ALONE, "GPU0 a:1", 20.0),
                (EACH, "GPU0 a:1", each),
                (ALONE, "GPU1 b:1", 20.0),
                (EACH, "GPU1 b:1", 20.0),
                (SUM, ALL, sum),
            ])
        };
        let text = shared(&rows(19.0, 39.0)).expect("a sentence");
        assert!(
            text.contains("reach 39.00 GB/s, 98 % of the sum") && text.ends_with("no bottleneck."),
            "{text}"
        );
        let text = shared(&rows(10.0, 30.0)).expect("a sentence");
        assert!(text.contains("keep of their own: GPU0 a:1 50 %. gdr doctor"), "{text}");
        assert_eq!(shared(&results_of(&[(ALONE, "a", 1.0)])), None);
    }

    #[test]
    fn failed_thread_releases_the_others() {
        let meeting = Meeting::new(2, Duration::from_secs(60));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| meeting.wait());
            std::thread::sleep(Duration::from_millis(20));
            meeting.fail();
            assert!(waiting.join().expect("it ends").is_err());
        });
        let meeting = Meeting::new(2, Duration::from_secs(60));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| meeting.wait());
            assert!(meeting.wait().is_ok() && other.join().expect("it ends").is_ok());
        });
    }
}
