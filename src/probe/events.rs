//! Events that a child reports to its parent, one line of JSON each.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Bdf, CounterChange, ProbeResult, ProbedEnd, ProbedGpu, ProbedMpi, ProbedPair};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The child begins a step.
    Doing(Step),
    Listed(Vec<Listed>),
    /// The RDMA devices of libibverbs.
    Nics(Vec<String>),
    /// The GPU under the probe.
    Gpu(Box<ProbedGpu>),
    Result(Box<ProbeResult>),
    /// A note of the report.
    Note(String),
    /// The child begins the next unit of its task, with this subject. If it does not finish, another child continues with the
    /// unit after it.
    Unit(String),
    /// An ordered pair of GPUs.
    Pair(Box<ProbedPair>),
    /// An end of an RDMA connection is open.
    Connected(Box<ProbedEnd>),
    /// The MPI library of the child.
    Mpi(Box<ProbedMpi>),
    /// Counters that rose during a connection.
    Counters(Vec<CounterChange>),
    /// The CUDA contexts of the child are lost; it ends after this.
    Lost,
    /// The task is done. A child that ends without this has crashed.
    End,
}

/// A step of a child's task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Completes the phrase "waiting for …".
    pub what: String,
    /// Longest time before the step counts as hung.
    pub timeout: Duration,
    /// Number of steps before this one.
    pub done: u64,
    /// Total number of steps.
    pub total: u64,
}

/// A GPU as CUDA lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// CUDA's ordinal in the child.
    pub ordinal: u32,
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// `None` for a simulated GPU.
    pub bdf: Option<Bdf>,
    pub simulated: bool,
}

pub struct Reporter<'a> {
    out: &'a mut dyn Write,
    timeout: Duration,
    done: u64,
    total: u64,
    /// Number of units begun, if progress counts units instead of steps.
    units: Option<u64>,
}

impl<'a> Reporter<'a> {
    /// A reporter that adds `timeout` to the time of each step.
    pub fn new(out: &'a mut dyn Write, timeout: Duration) -> Self {
        Self { out, timeout, done: 0, total: 0, units: None }
    }

    /// Sets the number of steps that follow.
    pub fn expect_more(&mut self, steps: u64) {
        self.total = self.done + steps;
    }

    /// Sets the number of units. Progress counts units instead of steps from here on.
    pub fn expect_units(&mut self, units: u64) {
        self.total = units;
        self.units = Some(0);
    }

    pub fn unit(&mut self, subject: String) -> io::Result<()> {
        if let Some(units) = &mut self.units {
            self.done = *units;
            *units += 1;
        }
        self.send(&Event::Unit(subject))
    }

    /// Begins a step of negligible duration.
    pub fn doing(&mut self, what: impl Into<String>) -> io::Result<()> {
        self.doing_for(what, Duration::ZERO)
    }

    /// Begins a step of this expected duration.
    pub fn doing_for(&mut self, what: impl Into<String>, time: Duration) -> io::Result<()> {
        let step = Step {
            what: what.into(),
            timeout: self.timeout + time,
            done: self.done,
            total: self.total.max(self.done + 1),
        };
        if self.units.is_none() {
            self.done += 1;
        }
        self.send(&Event::Doing(step))
    }

    pub fn result(&mut self, result: ProbeResult) -> io::Result<()> {
        self.send(&Event::Result(Box::new(result)))
    }

    pub fn note(&mut self, note: String) -> io::Result<()> {
        self.send(&Event::Note(note))
    }

    pub fn send(&mut self, event: &Event) -> io::Result<()> {
        writeln!(self.out, "{}", crate::model::to_json(event)?)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_units_instead_of_steps() {
        let mut out = Vec::new();
        let mut reporter = Reporter::new(&mut out, Duration::ZERO);
        reporter.expect_units(2);
        for unit in ["a", "b"] {
            reporter.unit(unit.to_owned()).expect("written");
            reporter.doing("one").expect("written");
            reporter.doing("two").expect("written");
        }
        let text = String::from_utf8(out).expect("text");
        let steps: Vec<(u64, u64)> = text
            .lines()
            .filter_map(|line| match serde_json::from_str(line).expect("an event") {
                Event::Doing(step) => Some((step.done, step.total)),
                _ => None,
            })
            .collect();
        assert_eq!(steps, [(0, 2), (0, 2), (1, 2), (1, 2)]);
    }

    #[test]
    fn writes_events_as_lines() {
        let mut out = Vec::new();
        let mut reporter = Reporter::new(&mut out, Duration::from_secs(10));
        reporter.expect_more(2);
        reporter.doing("the first").expect("written");
        reporter.doing_for("the second\nof two", Duration::from_secs(5)).expect("written");
        reporter.send(&Event::End).expect("written");
        let text = String::from_utf8(out).expect("text");
        let events: Vec<Event> =
            text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        let step = |what: &str, timeout, done| {
            Event::Doing(Step {
                what: what.to_owned(),
                timeout: Duration::from_secs(timeout),
                done,
                total: 2,
            })
        };
        assert_eq!(
            events,
            [step("the first", 10, 0), step("the second\nof two", 15, 1), Event::End]
        );
    }
}
