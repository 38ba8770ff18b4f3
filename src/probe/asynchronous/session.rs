//! Resources that all parts of the task share.

use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::{Allocator, MappedMemory, MemoryLocation, Program, Watchdog, Watched};
use gpu::{Allocation, Compare, DeviceMemory, Gpu, Pattern, Stream, StreamCapabilities};

use super::polls;
use super::task::Task;
use crate::model::ProbedGpu;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;
use crate::probe::verdict::Subject;

/// The watchdog releases a stream that waits longer for one word.
pub const TIMEOUT: Duration = Duration::from_millis(1500);
/// Bytes for words at each location.
const WORDS: usize = 64 << 10;

pub struct Session<'a> {
    pub task: &'a Task,
    pub gpu: Gpu,
    pub stream: Stream,
    /// Reads results while `stream` waits.
    pub reader: Stream,
    pub allocator: Allocator,
    /// Memory for words: host memory, and GPU memory if it can be mapped.
    pub words: Vec<(&'static str, MappedMemory)>,
    /// Where a stream sees the HCA's writes sooner.
    pub faster: MemoryLocation,
    /// Memory for the kernels between messages.
    scratch: Option<DeviceMemory>,
    pub capabilities: StreamCapabilities,
    pub watchdog: Watchdog,
    /// The watchdog's timeout: [`TIMEOUT`] on a GPU, longer for a simulated one, which depends on the machine's load.
    pub timeout: Duration,
    /// The subject of results without a NIC.
    pub about: Subject,
    name: String,
    backend: Option<String>,
}

impl<'a> Session<'a> {
    pub fn new(task: &'a Task, gpu: Gpu, reporter: &mut Reporter<'_>) -> Result<Self, StepError> {
        reporter.doing("a backend that maps GPU memory for the CPU")?;
        let gdr = match task.target.ordinal {
            None => Gdr::open_with(BackendKind::Sim),
            Some(_) => Gdr::open(),
        };
        let gdr = match gdr {
            Ok(gdr) => Some(gdr),
            Err(error) => {
                reporter.note(format!(
                    "no backend maps GPU memory for the CPU, so words in GPU memory are left out: {}",
                    gpu::sentence(&error)
                ))?;
                None
            }
        };
        let backend = gdr.as_ref().map(|gdr| gdr.backend().name().to_owned());
        reporter.doing("a stream, and words that it and the CPU reach")?;
        gpu.load_kernels()?;
        let allocator = Allocator::new(gpu.clone(), gdr.clone());
        let mut words = vec![("host", allocator.place(MemoryLocation::Host, WORDS)?)];
        if gdr.is_some() {
            words.push(("gpu", allocator.place(MemoryLocation::Gpu, WORDS)?));
        }
        let faster = allocator.faster_for_waits()?;
        let scratch = match task.settings.compute {
            None => None,
            Some(bytes) => Some(gpu.allocate(Allocation::Malloc, bytes)?),
        };
        Ok(Self {
            faster,
            scratch,
            about: task.target.about(task.target.cuda(), None),
            stream: gpu.stream()?,
            reader: gpu.stream()?,
            capabilities: StreamCapabilities::of(&gpu)?,
            watchdog: Watchdog::start()?,
            timeout: if gpu.is_sim() { task.terms.timeout.max(TIMEOUT) } else { TIMEOUT },
            name: gpu.device().name.clone(),
            backend,
            words,
            allocator,
            gpu,
            task,
        })
    }

    /// The GPU's entry in the report.
    pub fn probed(&self) -> ProbedGpu {
        ProbedGpu { backend: self.backend.clone(), ..self.task.target.probed(&self.name) }
    }

    /// Queues the kernel between messages, if there is one; operations that are listed come before.
    pub fn compute(&self, program: &mut Program) -> Result<(), StepError> {
        if self.scratch.is_some() {
            program.post_to(&self.stream, self.capabilities)?;
            program.clear();
            self.compute_now()?;
        }
        Ok(())
    }

    /// Queues the kernel between messages, if there is one.
    pub fn compute_now(&self) -> Result<(), StepError> {
        if let Some(memory) = &self.scratch {
            let bytes = memory.len();
            self.stream.fill_pattern(memory, 0, bytes, Pattern::new(1), 0)?;
        }
        Ok(())
    }

    /// Waits for the kernel between messages, if there is one.
    pub fn computed(&self) -> Result<(), StepError> {
        if self.scratch.is_some() {
            self.compute_now()?;
            self.stream.synchronize()?;
        }
        Ok(())
    }

    /// The subject of results with a NIC's queues.
    pub fn about_queues(&self) -> Subject {
        let hca = self.task.hca.as_ref().map_or("", HcaChoice::name);
        Subject { backend: format!("{}+{hca}", self.about.backend), ..self.about.clone() }
    }
}

/// A word that a stream waits for, for the watchdog.
pub fn watched(
    what: &str,
    place: &MappedMemory,
    offset: usize,
    value: u32,
    compare: Compare,
) -> Result<Watched, StepError> {
    Ok(Watched { what: what.to_owned(), word: place.part(offset, 4)?, value, compare })
}

/// Busy-waits: sleeping would take longer.
pub fn pause(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Polls a word until it has a value; false after the timeout.
pub fn wait_for_word(
    place: &MappedMemory,
    offset: usize,
    value: u32,
    timeout: Duration,
) -> Result<bool, StepError> {
    polls::until(timeout, || Ok(place.load_u32(offset)? == value))
}
