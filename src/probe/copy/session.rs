//! What every part of the work needs: a GPU, a stream, a backend, and a buffer mapped for the CPU.

use std::time::Duration;

use gdrcopy::{Gdr, MapRequest, Mapping, MappingType, PinFlags};
use gpu::{Allocation, DeviceMemory, Gpu, Pattern, Stream};

use super::task::Task;
use crate::model::{BackendChoice, ProbedGpu};
use crate::probe::bytes::{Mismatch, compare};
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::verdict::Subject;

/// The GPU under the probe, mapped.
pub struct Session<'a> {
    pub task: &'a Task,
    pub gpu: Gpu,
    pub stream: Stream,
    pub gdr: Gdr,
    /// Of what goes through the mapping.
    pub about: Subject,
    /// Of what cuMemcpy does.
    pub about_cuda: Subject,
    /// The sizes of the sweep.
    pub sizes: Vec<usize>,
    /// As large as the largest of them, and a little larger.
    pub memory: DeviceMemory,
    pub mapping: Mapping,
}

/// The buffer is larger than the largest copy, so that copies may begin at an offset.
const SLACK: usize = 1 << 20;

impl<'a> Session<'a> {
    /// Opens everything, and tells how the GPU was reached, or that it was not.
    pub fn new(
        task: &'a Task,
        gpu: Gpu,
        gdr: Result<Gdr, gdrcopy::Error>,
        backends: Vec<BackendChoice>,
        reporter: &mut Reporter<'_>,
    ) -> Result<Self, StepError> {
        let sizes = if task.terms.sizes.is_empty() {
            task.terms.depth.sizes()
        } else {
            task.terms.sizes.clone()
        };
        let probed = ProbedGpu {
            backends,
            ..task.target.probed(&gpu.device().name)
        };
        let map = || {
            let gdr = gdr?;
            reporter.doing("a stream and a buffer")?;
            let stream = gpu.stream()?;
            let largest = sizes.last().copied().unwrap_or(1);
            let memory = gpu.allocate(Allocation::Malloc, largest + SLACK)?;
            reporter.doing(format!(
                "backend {} to map {} bytes",
                gdr.backend(),
                memory.len()
            ))?;
            let mapping = map(&gdr, &memory)?;
            Ok((gdr, stream, memory, mapping))
        };
        match map() {
            Ok((gdr, stream, memory, mapping)) => {
                let copier = mapping.copier();
                let backend = gdr.backend().name().to_owned();
                reporter.tell(&Event::Gpu(Box::new(ProbedGpu {
                    backend: Some(backend.clone()),
                    mapping: Some(mapping_word(mapping.mapping_type()).to_owned()),
                    write_kernel: Some(copier.write_kernel().to_owned()),
                    read_kernel: Some(copier.read_kernel().to_owned()),
                    ..probed
                })))?;
                let node = task.node.as_ref().map(|node| node.0);
                Ok(Self {
                    about: task.target.about(&backend, node),
                    about_cuda: task.target.about(task.target.cuda(), node),
                    task,
                    gpu,
                    stream,
                    gdr,
                    sizes,
                    memory,
                    mapping,
                })
            }
            Err(failure) => {
                reporter.tell(&Event::Gpu(Box::new(probed)))?;
                Err(failure)
            }
        }
    }
}

/// Pins and maps all of an allocation.
pub fn map(gdr: &Gdr, memory: &DeviceMemory) -> Result<Mapping, gdrcopy::Error> {
    let pin = gdr.pin(memory, 0..memory.len(), PinFlags::default())?;
    pin.map(MapRequest::Default)
}

fn mapping_word(kind: MappingType) -> &'static str {
    match kind {
        MappingType::None => "none",
        MappingType::WriteCombining => "write_combined",
        MappingType::Caching => "cached",
        MappingType::Device => "uncached",
    }
}

/// How long so many bytes may take where nothing hangs: five copies by the slowest loads there are, eight bytes in a
/// microsecond and a half (uncached, from a far NUMA node).
pub fn allowance(bytes: usize) -> Duration {
    Duration::from_nanos(bytes as u64 * 1000)
}

/// Bytes of a pattern from its start.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    Pattern::new(seed).fill(&mut buffer, 0);
    buffer
}

/// What differs between what should be in device memory and what the copy engine finds there.
pub fn device_differs(
    stream: &Stream,
    memory: &DeviceMemory,
    offset: usize,
    expected: &[u8],
) -> Result<Option<Mismatch>, gpu::Error> {
    // Not what should be there: a copy that does nothing must not pass.
    let mut found: Vec<u8> = expected.iter().map(|byte| !byte).collect();
    stream.read(memory, offset, &mut found)?;
    Ok(compare(expected, &found))
}

/// In words, at the device's address.
pub fn wrong_at(memory: &DeviceMemory, offset: usize, mismatch: &Mismatch) -> String {
    mismatch.at_address(memory.address().offset(offset as u64).get())
}
