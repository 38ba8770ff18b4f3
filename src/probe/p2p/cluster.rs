//! The GPUs of a task, each opened at its first use.

use std::cell::RefCell;
use std::time::Duration;

use gpu::{Allocation, Attribute, DeviceMemory, Gpu, Stream};

use super::task::{OrderedPair, Task, Unit};
use crate::model::figure::p2p;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::integrity::{Seeds, by_kernel, fill};
use crate::probe::lanes::{Gate, Lane, Runs, measure};
use crate::probe::sampling::Budget;
use crate::probe::target::Target;
use crate::probe::verdict::{Promise, Subject};

/// From this size on the link limits the bandwidth.
pub(super) const LIMITED_BY_LINK: usize = 64 << 20;

/// An open GPU.
pub struct Member {
    pub gpu: Gpu,
    /// The stream under test.
    pub stream: Stream,
    /// A stream that fills and compares, and runs none of the copies.
    pub witness: Stream,
    pub gate: Gate,
}

/// The GPUs of a task.
pub struct Cluster<'a> {
    pub task: &'a Task,
    members: Vec<Slot>,
    pub seeds: Seeds,
    /// The name of the current result.
    step: RefCell<String>,
}

enum Slot {
    Closed,
    Failed(String),
    Open(Box<Member>),
}

impl<'a> Cluster<'a> {
    pub fn new(task: &'a Task) -> Self {
        Self {
            task,
            members: task.gpus.iter().map(|_| Slot::Closed).collect(),
            seeds: Seeds::default(),
            step: RefCell::new("p2p".to_owned()),
        }
    }

    /// Reports a step, and stores its name for a failure.
    pub fn begin(
        &self,
        name: &str,
        unit: Unit,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        name.clone_into(&mut self.step.borrow_mut());
        let transfers = Duration::from_nanos(self.largest() as u64 * 100);
        let time = 60 * self.budget().time + transfers;
        Ok(reporter.doing_for(format!("{name} of {}", self.task.subject(unit)), time)?)
    }

    /// The name of the current result.
    pub fn step(&self) -> String {
        self.step.borrow().clone()
    }

    /// The subject of a unit's results.
    pub fn about(&self, unit: Unit) -> Subject {
        Subject::new(&self.task.subject(unit), self.task.backend())
    }

    /// Opens a GPU if it is closed. False if that failed, which is reported once.
    pub fn open(&mut self, number: usize, reporter: &mut Reporter<'_>) -> Result<bool, StepError> {
        let Some(target) = self.task.gpus.get(number) else {
            return Ok(false);
        };
        if matches!(self.members[number], Slot::Closed) {
            reporter.doing(format!("CUDA to open {}", target.subject))?;
            self.members[number] = match target.open().and_then(Member::new) {
                Ok(member) => {
                    reporter
                        .send(&Event::Gpu(Box::new(target.probed(&member.gpu.device().name))))?;
                    Slot::Open(Box::new(member))
                }
                Err(error) => {
                    let why = Target::open_error(&error);
                    let about = target.about(target.cuda(), None);
                    reporter.result(about.impossible("gpu", None, true, why.clone()))?;
                    Slot::Failed(why)
                }
            };
        }
        Ok(matches!(self.members[number], Slot::Open(_)))
    }

    /// An open GPU.
    pub fn member(&self, number: usize) -> Option<&Member> {
        match self.members.get(number) {
            Some(Slot::Open(member)) => Some(member),
            _ => None,
        }
    }

    /// The GPUs of a pair, if both are open.
    pub fn members(&self, pair: &OrderedPair) -> Option<(&Member, &Member)> {
        self.member(pair.from).zip(self.member(pair.to))
    }

    /// Why a GPU could not be opened.
    pub fn open_error(&self, number: usize) -> Option<&str> {
        match self.members.get(number) {
            Some(Slot::Failed(why)) => Some(why),
            _ => None,
        }
    }

    /// The sizes to measure.
    pub fn sizes(&self) -> Vec<usize> {
        let is_simulated = self.task.gpus.iter().any(|gpu| gpu.ordinal.is_none());
        let terms = &self.task.terms;
        terms.sizes_or(terms.depth.p2p_sizes(), is_simulated)
    }

    pub fn largest(&self) -> usize {
        self.sizes().last().copied().unwrap_or(4)
    }

    pub fn budget(&self) -> Budget {
        self.task.terms.depth.p2p_point()
    }

    /// The rate of a pair's path in one direction, if copies of `bytes` reach it.
    pub fn promise(&self, pair: &OrderedPair, bytes: usize) -> Option<Promise> {
        let (value, share) = self.capacity(pair)?;
        (bytes >= LIMITED_BY_LINK).then_some(Promise { value, share })
    }

    /// The rate of a pair's path in one direction, GB/s, and the share of it below which a copy is slow.
    pub fn capacity(&self, pair: &OrderedPair) -> Option<(f64, Option<f64>)> {
        let shares = self.task.terms.shares;
        match pair.path.nvlinks {
            Some(links) if links > 0 => {
                let rate = self.member(pair.from).and_then(|member| nvlink(&member.gpu))?;
                Some((f64::from(links) * rate, shares.nvlink))
            }
            _ => pair.path.pci.map(|rate| (rate as f64 / 1e9, shares.pci_express)),
        }
    }

    /// Measures copies within one GPU, for comparison with those between GPUs.
    pub fn alone(&mut self, number: usize, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        if !self.open(number, reporter)? {
            return Ok(());
        }
        let name = p2p::LOCAL;
        self.begin(name, Unit::Alone(number), reporter)?;
        let bytes = self.largest().next_multiple_of(16);
        let (sent, before) = (self.seeds.next(), self.seeds.next());
        let Some(member) = self.member(number) else {
            return Ok(());
        };
        let (from, to) = (member.allocate(bytes)?, member.allocate(bytes)?);
        fill(&member.witness, &from, bytes, sent)?;
        fill(&member.witness, &to, bytes, before)?;
        let copy = || member.stream.copy(&to, 0, &from, 0, bytes);
        let lanes = [Lane::new(&member.stream, copy)];
        let samples = measure(&member.gate, &lanes, Runs::of(bytes), self.budget())?.all;
        let about = self.about(Unit::Alone(number));
        let wrong = by_kernel(&member.witness, &to, bytes, sent)?
            .map(|wrong| format!("{wrong}: the GPU's own memory is faulty"));
        let result = about.bandwidth(name, bytes, bytes, &samples, None);
        Ok(reporter.result(about.checked(result, wrong))?)
    }
}

impl Member {
    pub fn new(gpu: Gpu) -> Result<Self, gpu::Error> {
        Ok(Self { stream: gpu.stream()?, witness: gpu.stream()?, gate: Gate::new(&gpu)?, gpu })
    }

    pub fn allocate(&self, bytes: usize) -> Result<DeviceMemory, gpu::Error> {
        self.gpu.allocate(Allocation::Malloc, bytes)
    }
}

/// The rate of one NVLink in one direction, GB/s, by the GPU's compute capability: 8 lanes of 20 Gbit/s (NVLink 1, P100),
/// 8 of 25 (NVLink 2, V100), 4 of 50 (NVLink 3, A100; 4 of 28.125 with GA10x), 2 of 106.25 (NVLink 4, H100), 2 of 212.5 (NVLink
/// 5, Blackwell). The last two are what `nvidia-smi nvlink -s` prints: 26.562 and 53.125 GB/s.
fn nvlink(gpu: &Gpu) -> Option<f64> {
    let capability = |attribute| gpu.attribute(attribute).ok().flatten();
    let major = capability(Attribute::COMPUTE_CAPABILITY_MAJOR)?;
    let minor = capability(Attribute::COMPUTE_CAPABILITY_MINOR)?;
    nvlink_of(major, minor)
}

fn nvlink_of(major: i32, minor: i32) -> Option<f64> {
    match (major, minor) {
        (6, _) => Some(20.0),
        (7, _) | (8, 0) => Some(25.0),
        (8, _) => Some(14.0625),
        (9, _) => Some(26.5625),
        // 10.7 is Rubin, whose NVLink is not published.
        (10, 0..=3) => Some(53.125),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvlink_rates_match_nvidia() {
        assert_eq!(nvlink_of(9, 0).map(|rate| rate * 18.0), Some(478.125));
        // DGX-1 with V100 and DGX A100: NVIDIA says 300 and 600 GB/s, both directions counted.
        assert_eq!(nvlink_of(7, 0).map(|rate| rate * 6.0 * 2.0), Some(300.0));
        assert_eq!(nvlink_of(8, 0).map(|rate| rate * 12.0 * 2.0), Some(600.0));
        assert_eq!(nvlink_of(12, 0), None);
    }
}
