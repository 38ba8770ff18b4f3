//! The GPUs of a task, each opened when it is first wanted, and kept.

use gpu::{Allocation, Attribute, DeviceMemory, Gpu, Stream};

use super::task::{Pair, Task, Unit};
use crate::probe::depth::SIMULATED;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::integrity::{Seeds, by_kernel, fill};
use crate::probe::lanes::{Gate, Lane, Runs, measure};
use crate::probe::sampling::Budget;
use crate::probe::target::Target;
use crate::probe::verdict::{Promise, Subject};

/// From this size on the link is what limits.
pub(super) const LIMITED_BY_LINK: usize = 64 << 20;

/// A GPU that is open.
pub struct Member {
    pub gpu: Gpu,
    /// The stream under test.
    pub stream: Stream,
    /// A stream that does none of the work, and compares.
    pub witness: Stream,
    pub gate: Gate,
}

/// The GPUs of a task.
pub struct Cluster<'a> {
    pub task: &'a Task,
    members: Vec<Opened>,
    pub seeds: Seeds,
    /// The name of the result that is being worked on.
    doing: String,
}

enum Opened {
    NotYet,
    Refused(String),
    Open(Box<Member>),
}

impl<'a> Cluster<'a> {
    /// Nothing is opened yet.
    pub fn new(task: &'a Task) -> Self {
        Self {
            task,
            members: task.gpus.iter().map(|_| Opened::NotYet).collect(),
            seeds: Seeds::default(),
            doing: "p2p".to_owned(),
        }
    }

    /// Says what it begins, and remembers it for what may go wrong.
    pub fn begin(
        &mut self,
        name: &str,
        unit: Unit,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        name.clone_into(&mut self.doing);
        let (budget, most) = (self.budget(), self.sizes().last().copied().unwrap_or(4));
        let time = 60 * budget.time + std::time::Duration::from_nanos(most as u64 * 100);
        Ok(reporter.doing_for(format!("{name} of {}", self.task.subject(unit)), time)?)
    }

    /// What was begun last.
    pub fn doing(&self) -> &str {
        &self.doing
    }

    /// Results of a unit, before anything is known.
    pub fn about(&self, unit: Unit) -> Subject {
        Subject {
            subject: self.task.subject(unit),
            backend: self.task.backend().to_owned(),
            numa: None,
        }
    }

    /// Opens a GPU where it is not open yet; false where it cannot be, which is told once.
    pub fn open(&mut self, number: usize, reporter: &mut Reporter<'_>) -> Result<bool, StepError> {
        let Some(target) = self.task.gpus.get(number) else {
            return Ok(false);
        };
        if matches!(self.members[number], Opened::NotYet) {
            reporter.doing(format!("CUDA to open {}", target.subject))?;
            self.members[number] = match Member::open(target) {
                Ok(member) => {
                    reporter.tell(&Event::Gpu(Box::new(
                        target.probed(&member.gpu.device().name),
                    )))?;
                    Opened::Open(Box::new(member))
                }
                Err(error) => {
                    let why = Target::refused(&error);
                    let about = target.about(target.cuda(), None);
                    reporter.result(about.impossible("gpu", None, true, why.clone()))?;
                    Opened::Refused(why)
                }
            };
        }
        Ok(matches!(self.members[number], Opened::Open(_)))
    }

    /// A GPU that was opened.
    pub fn member(&self, number: usize) -> Option<&Member> {
        match self.members.get(number) {
            Some(Opened::Open(member)) => Some(member),
            _ => None,
        }
    }

    /// Why a GPU could not be opened.
    pub fn refusal(&self, number: usize) -> Option<&str> {
        match self.members.get(number) {
            Some(Opened::Refused(why)) => Some(why),
            _ => None,
        }
    }

    /// The sizes to measure.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = match self.task.terms.sizes.is_empty() {
            true => self.task.terms.depth.p2p_sizes(),
            false => self.task.terms.sizes.clone(),
        };
        if self.is_simulated() && self.task.terms.sizes.is_empty() {
            sizes.retain(|size| *size <= SIMULATED);
        }
        sizes
    }

    /// Whether no GPU takes part.
    pub fn is_simulated(&self) -> bool {
        self.task.gpus.iter().any(|gpu| gpu.ordinal.is_none())
    }

    /// What one figure may cost.
    pub fn budget(&self) -> Budget {
        self.task.terms.depth.p2p_point()
    }

    /// What the way of a pair promises in one direction.
    pub fn promise(&self, pair: &Pair, bytes: usize) -> Option<Promise> {
        let (value, share) = self.capacity(pair)?;
        (bytes >= LIMITED_BY_LINK).then_some(Promise { value, share })
    }

    /// What the way of a pair carries in one direction, GB/s, and below which share of it a copy is slow.
    pub fn capacity(&self, pair: &Pair) -> Option<(f64, Option<f64>)> {
        let shares = self.task.terms.shares;
        match pair.between.nvlinks {
            Some(links) if links > 0 => {
                let rate = self
                    .member(pair.from)
                    .and_then(|member| nvlink(&member.gpu))?;
                Some((f64::from(links) * rate, shares.nvlink))
            }
            _ => pair
                .between
                .pci
                .map(|rate| (rate as f64 / 1e9, shares.pci_express)),
        }
    }

    /// A GPU's copies within itself, for comparison with those between GPUs.
    pub fn alone(&mut self, number: usize, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        if !self.open(number, reporter)? {
            return Ok(());
        }
        let name = "p2p.local.bandwidth";
        self.begin(name, Unit::Alone(number), reporter)?;
        let bytes = self
            .sizes()
            .last()
            .copied()
            .unwrap_or(4)
            .next_multiple_of(16);
        let (sent, before) = (self.seeds.next(), self.seeds.next());
        let Some(member) = self.member(number) else {
            return Ok(());
        };
        let (from, to) = (member.take(bytes)?, member.take(bytes)?);
        fill(&member.witness, &from, bytes, sent)?;
        fill(&member.witness, &to, bytes, before)?;
        let copy = || member.stream.copy(&to, 0, &from, 0, bytes);
        let lanes = [Lane::new(&member.stream, copy)];
        let samples = measure(&member.gate, &lanes, Runs::of(bytes), self.budget())?.all;
        let about = self.about(Unit::Alone(number));
        Ok(
            reporter.result(match by_kernel(&member.witness, &to, bytes, sent)? {
                None => about.bandwidth(name, bytes, bytes, &samples, None),
                Some(wrong) => about.wrong(
                    name,
                    Some(bytes),
                    format!("{wrong}: the GPU's own memory is at fault"),
                ),
            })?,
        )
    }
}

impl Member {
    fn open(target: &Target) -> Result<Self, gpu::Error> {
        Self::of(target.open()?)
    }

    /// A GPU with what each part of the work needs.
    pub fn of(gpu: Gpu) -> Result<Self, gpu::Error> {
        Ok(Self {
            stream: gpu.stream()?,
            witness: gpu.stream()?,
            gate: Gate::new(&gpu)?,
            gpu,
        })
    }

    pub fn take(&self, bytes: usize) -> Result<DeviceMemory, gpu::Error> {
        self.gpu.allocate(Allocation::Malloc, bytes)
    }
}

/// What one NVLink of a GPU carries in one direction, GB/s, by its compute capability: 8 lanes of 20 Gbit/s (NVLink 1, P100),
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
        (10, _) => Some(53.125),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighteen_links_of_an_h200_carry_478_gigabytes_a_second() {
        assert_eq!(nvlink_of(9, 0).map(|rate| rate * 18.0), Some(478.125));
        // DGX-1 with V100 and DGX A100: NVIDIA says 300 and 600 GB/s, both directions counted.
        assert_eq!(nvlink_of(7, 0).map(|rate| rate * 6.0 * 2.0), Some(300.0));
        assert_eq!(nvlink_of(8, 0).map(|rate| rate * 12.0 * 2.0), Some(600.0));
        assert_eq!(nvlink_of(12, 0), None);
    }
}
