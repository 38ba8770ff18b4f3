//! What the child that touches the hardware tells its parent, one line of JSON each.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Bdf, ProbeResult, ProbedEnd, ProbedGpu, ProbedPair};

/// One thing the child says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// What it begins now, and how long that may take.
    Doing(Step),
    /// The GPUs there are.
    Listed(Vec<Listed>),
    /// The RDMA devices that libibverbs serves.
    Nics(Vec<String>),
    /// The GPU it works on.
    Gpu(Box<ProbedGpu>),
    Result(Box<ProbeResult>),
    /// Something a reader should know.
    Note(String),
    /// It begins the next unit of its task, which is about this. Another child goes on with the one after where this one
    /// does not come to the end.
    Unit(String),
    /// An ordered pair of GPUs.
    Pair(Box<ProbedPair>),
    /// An end of what NICs move is open.
    Connected(Box<ProbedEnd>),
    /// The machine has not what this needs, and what to install.
    Lacking(String),
    /// A context is lost, and with it this process: it ends after this.
    Lost,
    /// It is done. A child that ends without this has crashed.
    End,
}

/// A step of the child's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// In words that go after "waited for".
    pub what: String,
    /// How long it may take before the hardware or its driver is taken to hang.
    pub timeout: Duration,
    /// How many steps there were before.
    pub done: u64,
    /// How many steps there are.
    pub of: u64,
}

/// A GPU that could be probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// CUDA's number for it in the child.
    pub ordinal: u32,
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// PCI address; none for a simulated one.
    pub bdf: Option<Bdf>,
    pub simulated: bool,
}

pub struct Reporter<'a> {
    out: &'a mut dyn Write,
    timeout: Duration,
    done: u64,
    of: u64,
    /// How many units were begun, where these are the steps that count.
    units: Option<u64>,
}

impl<'a> Reporter<'a> {
    /// A reporter whose steps may take so long each.
    pub fn new(out: &'a mut dyn Write, timeout: Duration) -> Self {
        Self {
            out,
            timeout,
            done: 0,
            of: 0,
            units: None,
        }
    }

    /// Says how many steps there will be from here on.
    pub fn expect_more(&mut self, steps: u64) {
        self.of = self.done + steps;
    }

    /// Says how many units there will be: these are counted from here on, and no steps.
    pub fn expect_units(&mut self, units: u64) {
        self.of = units;
        self.units = Some(0);
    }

    pub fn unit(&mut self, subject: String) -> io::Result<()> {
        if let Some(units) = &mut self.units {
            self.done = *units;
            *units += 1;
        }
        self.tell(&Event::Unit(subject))
    }

    /// Begins a step that should take no time to speak of.
    pub fn doing(&mut self, what: impl Into<String>) -> io::Result<()> {
        self.doing_for(what, Duration::ZERO)
    }

    /// Begins a step that is meant to take this long; hanging is what takes the timeout besides.
    pub fn doing_for(&mut self, what: impl Into<String>, time: Duration) -> io::Result<()> {
        let step = Step {
            what: what.into(),
            timeout: self.timeout + time,
            done: self.done,
            of: self.of.max(self.done + 1),
        };
        if self.units.is_none() {
            self.done += 1;
        }
        self.tell(&Event::Doing(step))
    }

    /// Hands over a result.
    pub fn result(&mut self, result: ProbeResult) -> io::Result<()> {
        self.tell(&Event::Result(Box::new(result)))
    }

    /// Says something that a reader should know.
    pub fn note(&mut self, note: String) -> io::Result<()> {
        self.tell(&Event::Note(note))
    }

    pub fn tell(&mut self, event: &Event) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, event)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_units_are_counted_their_steps_are_not() {
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
                Event::Doing(step) => Some((step.done, step.of)),
                _ => None,
            })
            .collect();
        assert_eq!(steps, [(0, 2), (0, 2), (1, 2), (1, 2)]);
    }

    #[test]
    fn each_event_is_a_line_and_steps_are_counted() {
        let mut out = Vec::new();
        let mut reporter = Reporter::new(&mut out, Duration::from_secs(10));
        reporter.expect_more(2);
        reporter.doing("the first").expect("written");
        reporter
            .doing_for("the second\nof two", Duration::from_secs(5))
            .expect("written");
        reporter.tell(&Event::End).expect("written");
        let text = String::from_utf8(out).expect("text");
        let events: Vec<Event> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("an event"))
            .collect();
        let step = |what: &str, timeout, done| {
            Event::Doing(Step {
                what: what.to_owned(),
                timeout: Duration::from_secs(timeout),
                done,
                of: 2,
            })
        };
        assert_eq!(
            events,
            [
                step("the first", 10, 0),
                step("the second\nof two", 15, 1),
                Event::End
            ]
        );
    }
}
