//! What every part of the work needs: a GPU, streams, words that both sides reach, and somebody who releases what hangs.

use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::{Allocator, MemoryLocation, Place, Watchdog};
use gpu::{Gpu, Stream, StreamCapabilities};

use super::task::Task;
use crate::model::ProbedGpu;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::verdict::Subject;

/// A stream that waits longer for one word is released: less than what a person takes for a hang.
pub const TIMEOUT: Duration = Duration::from_millis(1500);
/// Looks at a word before it is looked at the clock.
const LOOKS: u32 = 1024;
/// Words of a place: on pages of their own.
const WORDS: usize = 64 << 10;

/// The GPU under the probe.
pub struct Session<'a> {
    pub task: &'a Task,
    pub gpu: Gpu,
    pub stream: Stream,
    /// What reads results while the other one waits.
    pub reader: Stream,
    pub allocator: Allocator,
    /// Where words are: host memory, and GPU memory where it can be mapped.
    pub words: Vec<(&'static str, Place)>,
    pub can: StreamCapabilities,
    pub dog: Watchdog,
    /// What is waited for longer is released: [`TIMEOUT`] on a GPU. What a simulated one waits for is this machine's time.
    pub timeout: Duration,
    /// Of what the GPU does alone.
    pub about: Subject,
    name: String,
    mapped: Option<String>,
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
                    "GPU memory is not mapped for the CPU, so words in GPU memory are left out: {}",
                    gpu::sentence(&error)
                ))?;
                None
            }
        };
        let mapped = gdr.as_ref().map(|gdr| gdr.backend().name().to_owned());
        reporter.doing("a stream, and words that it and the CPU reach")?;
        gpu.load_kernels()?;
        let allocator = Allocator::new(gpu.clone(), gdr.clone());
        let mut words = vec![("host", allocator.place(MemoryLocation::Host, WORDS)?)];
        if gdr.is_some() {
            words.push(("gpu", allocator.place(MemoryLocation::Gpu, WORDS)?));
        }
        Ok(Self {
            about: task.target.about(task.target.cuda(), None),
            stream: gpu.stream()?,
            reader: gpu.stream()?,
            can: StreamCapabilities::of(&gpu)?,
            dog: Watchdog::start()?,
            timeout: match gpu.is_sim() {
                true => task.terms.timeout.max(TIMEOUT),
                false => TIMEOUT,
            },
            name: gpu.device().name.clone(),
            mapped,
            words,
            allocator,
            gpu,
            task,
        })
    }

    /// What a report says of the GPU.
    pub fn probed(&self) -> ProbedGpu {
        ProbedGpu {
            backend: self.mapped.clone(),
            ..self.task.target.probed(&self.name)
        }
    }

    /// Of what is done with a NIC's queues.
    pub fn about_queues(&self) -> Subject {
        let hca = self
            .task
            .hca
            .as_ref()
            .map_or("", super::task::HcaChoice::name);
        Subject {
            backend: format!("{}+{hca}", self.about.backend),
            ..self.about.clone()
        }
    }
}

/// Looks at a word until it is as wanted; false where it is not within the time.
pub fn seen(
    place: &Place,
    offset: usize,
    wanted: u32,
    timeout: Duration,
) -> Result<bool, StepError> {
    let begun = Instant::now();
    let mut looks = 0_u32;
    while place.load_u32(offset)? != wanted {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            if begun.elapsed() > timeout {
                return Ok(false);
            }
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
    Ok(true)
}
