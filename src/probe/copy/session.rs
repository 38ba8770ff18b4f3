//! Resources that all parts of the task share.

use std::time::Duration;

use gdrcopy::{Gdr, MapRequest, Mapping, MappingType, PinFlags};
use gpu::{Allocation, DeviceMemory, Gpu, Pattern, Stream};

use super::task::Task;
use crate::model::{BackendChoice, ProbedGpu};
use crate::probe::bytes::{Mismatch, compare};
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::verdict::Subject;

pub struct Session<'a> {
    pub task: &'a Task,
    pub gpu: Gpu,
    pub stream: Stream,
    pub gdr: Gdr,
    /// The subject of copies through the mapping.
    pub about: Subject,
    /// The subject of copies by cuMemcpy.
    pub about_cuda: Subject,
    /// The sizes of the sweep.
    pub sizes: Vec<usize>,
    /// [`SLACK`] larger than the largest size.
    pub memory: DeviceMemory,
    pub mapping: Mapping,
}

/// Allows the largest copy to begin at an offset.
const SLACK: usize = 1 << 20;

impl<'a> Session<'a> {
    /// Maps a buffer, and reports the GPU and its backend, or why no backend maps it.
    pub fn new(
        task: &'a Task,
        gpu: Gpu,
        gdr: Result<Gdr, gdrcopy::Error>,
        backends: Vec<BackendChoice>,
        reporter: &mut Reporter<'_>,
    ) -> Result<Self, StepError> {
        let sizes = task.terms.sizes_or(task.terms.depth.sizes(), false);
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
                reporter.send(&Event::Gpu(Box::new(ProbedGpu {
                    backend: Some(backend.clone()),
                    mapping: Some(mapping_name(mapping.mapping_type()).to_owned()),
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
                reporter.send(&Event::Gpu(Box::new(probed)))?;
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

fn mapping_name(kind: MappingType) -> &'static str {
    match kind {
        MappingType::None => "none",
        MappingType::WriteCombining => "write_combined",
        MappingType::Caching => "cached",
        MappingType::Device => "uncached",
    }
}

/// Time for five copies of `bytes` with the slowest loads: eight bytes in 1.5 us (uncached, from another NUMA node).
pub fn allowance(bytes: usize) -> Duration {
    Duration::from_nanos(bytes as u64 * 1000)
}

pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    Pattern::new(seed).fill(&mut buffer, 0);
    buffer
}

/// Compares device memory, read by the copy engine, with the expected bytes.
pub fn device_differs(
    stream: &Stream,
    memory: &DeviceMemory,
    offset: usize,
    expected: &[u8],
) -> Result<Option<Mismatch>, gpu::Error> {
    // A copy that does nothing must not pass.
    let mut found: Vec<u8> = expected.iter().map(|byte| !byte).collect();
    stream.read(memory, offset, &mut found)?;
    Ok(compare(expected, &found))
}

/// The message, with the device address.
pub fn wrong_at(memory: &DeviceMemory, offset: usize, mismatch: &Mismatch) -> String {
    mismatch.at_address(memory.address().offset(offset as u64).get())
}
