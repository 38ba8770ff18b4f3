//! Resources that all parts of the task share.

use std::time::Duration;

use gdrcopy::{BackendKind, Gdr, MapRequest, Mapping, MappingType, PinFlags};
use gpu::{Allocation, DeviceMemory, Gpu, Pattern, Stream};

use super::task::{Allocator, Choices, MappingChoice, MemoryLocation, Task};
use crate::model::{BackendChoice, ProbedGpu};
use crate::probe::bytes::{Mismatch, compare, inverted};
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
    /// From the first offset on, [`SLACK`] larger than the largest size.
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
        let probed = ProbedGpu { backends, ..task.target.probed(&gpu.device().name) };
        let map = || {
            let gdr = gdr?;
            reporter.doing("a stream and a buffer")?;
            let stream = gpu.stream()?;
            let largest = sizes.last().copied().unwrap_or(1);
            let bytes = task.choices.offset + largest + SLACK;
            let memory = gpu.allocate(task.choices.allocation(), bytes)?;
            reporter.doing(format!("backend {} to map {} bytes", gdr.backend(), memory.len()))?;
            let mapping = map_as(&gdr, &memory, &task.choices)?;
            // Else the driver compiles them just before the first reads. An error is reported by the first kernel.
            let _ = gpu.load_kernels();
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
                if let Some(note) = task.choices.note() {
                    reporter.note(note)?;
                }
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

/// Pins and maps all of an allocation as requested, or says why the backend does not.
pub fn map_as(gdr: &Gdr, memory: &DeviceMemory, choices: &Choices) -> Result<Mapping, StepError> {
    let pin = gdr.pin(memory, 0..memory.len(), PinFlags::default())?;
    let mapping = pin.map(choices.request()).map_err(|error| match error {
        gdrcopy::Error::MappingType { offered, .. } => {
            StepError::Option(unsuitable(choices.mapping, gdr.backend(), offered))
        }
        error => error.into(),
    })?;
    if choices.cold && mapping.mapping_type() != MappingType::Caching {
        return Err(StepError::Option(format!(
            "--cold needs a cached mapping, and backend {} maps this memory as {}, which no CPU cache holds: omit --cold",
            gdr.backend(),
            mapping_name(mapping.mapping_type()).replace('_', "-")
        )));
    }
    Ok(mapping)
}

impl Choices {
    /// The kind of memory that the measurements allocate.
    pub fn allocation(&self) -> Allocation {
        match self.allocator {
            Allocator::Malloc => Allocation::Malloc,
            Allocator::Create => Allocation::Create { exportable: false, rdma: true },
            Allocator::Pool => Allocation::Pool { exportable: true },
        }
    }

    pub fn request(&self) -> MapRequest {
        match self.mapping {
            MappingChoice::Default => MapRequest::Default,
            MappingChoice::WriteCombined => MapRequest::WriteCombining,
            MappingChoice::Cached => MapRequest::Cached,
            MappingChoice::Device => MapRequest::Device,
        }
    }

    /// What differs from the defaults; `None` if nothing does.
    fn note(&self) -> Option<String> {
        let rounds = &self.round_trips;
        let data = rounds.data.as_ref().map(|data| data.place);
        let parts = [
            (self.allocator != Allocator::Malloc)
                .then(|| format!("the measured buffers are of {}", self.allocation())),
            (self.offset > 0).then(|| format!("copies begin at offset {}", self.offset)),
            self.iterations.map(|count| format!("each figure is of {count} runs")),
            self.cold.then(|| "the GPU writes the buffer before each copy".to_owned()),
            (rounds.flag == MemoryLocation::Host)
                .then(|| "round trips: the CPU's word is in host memory".to_owned()),
            (rounds.reply == MemoryLocation::Gpu)
                .then(|| "round trips: the kernel's word is in GPU memory".to_owned()),
            (data == Some(MemoryLocation::Host))
                .then(|| "round trips: the data is in host memory".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Why a backend does not map as requested, and what to use.
fn unsuitable(wanted: MappingChoice, backend: BackendKind, offered: MappingType) -> String {
    let (word, why) = match wanted {
        MappingChoice::Cached => (
            "cache",
            match backend {
                BackendKind::Rm => {
                    "this backend maps through PCI Express, which is never cached; on a GPU with NVLink-C2C use --backend gdrdrv or dmabuf"
                }
                _ => {
                    "only memory of GPUs with NVLink-C2C (GH200, GB200) is mapped cached; use --mapping default"
                }
            },
        ),
        MappingChoice::Device => {
            ("device", "the driver lets this CPU combine its stores; use --mapping wc or default")
        }
        MappingChoice::Default | MappingChoice::WriteCombined => (
            "wc",
            "the driver does not let this CPU combine its stores (aarch64 before driver 590, RmForceDisableIomapWC), or the memory is \
             cached; use --mapping default",
        ),
    };
    format!(
        "--mapping {word}: backend {backend} maps this memory as {}: {why}",
        mapping_name(offered).replace('_', "-")
    )
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
    let mut found = inverted(expected);
    stream.read(memory, offset, &mut found)?;
    Ok(compare(expected, &found))
}

/// The message, with the device address.
pub fn wrong_at(memory: &DeviceMemory, offset: usize, mismatch: &Mismatch) -> String {
    mismatch.at_address(memory.address().offset(offset as u64).get())
}

/// The wrong bytes at an offset of GPU memory, read by the copy engine.
pub fn found_wrong(
    stream: &Stream,
    memory: &DeviceMemory,
    offset: usize,
    expected: &[u8],
) -> Result<Option<String>, StepError> {
    let mismatch = device_differs(stream, memory, offset, expected)?;
    Ok(mismatch.map(|mismatch| wrong_at(memory, offset, &mismatch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_mapping_names_backend_and_remedy() {
        for (wanted, backend, offered, start, remedy) in [
            (
                MappingChoice::Cached,
                BackendKind::Rm,
                MappingType::WriteCombining,
                "--mapping cache: backend rm maps this memory as write-combined: ",
                "use --backend gdrdrv or dmabuf",
            ),
            (
                MappingChoice::Cached,
                BackendKind::Gdrdrv,
                MappingType::WriteCombining,
                "--mapping cache: backend gdrdrv maps this memory as write-combined: ",
                "use --mapping default",
            ),
            (
                MappingChoice::Device,
                BackendKind::DmaBuf,
                MappingType::WriteCombining,
                "--mapping device: backend dmabuf maps this memory as write-combined: ",
                "use --mapping wc or default",
            ),
            (
                MappingChoice::WriteCombined,
                BackendKind::Rm,
                MappingType::Device,
                "--mapping wc: backend rm maps this memory as uncached: ",
                "use --mapping default",
            ),
        ] {
            let message = unsuitable(wanted, backend, offered);
            assert!(message.starts_with(start) && message.contains(remedy), "{message}");
        }
    }
}
